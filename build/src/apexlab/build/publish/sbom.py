"""The list of what is in the image, as CycloneDX. The same image gives the same bytes."""

from __future__ import annotations

import json
import uuid
from typing import Any

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from apexlab.build.publish.packages import Package
from apexlab.build.publish.subject import Subject

PREDICATE = "https://cyclonedx.org/bom"


def sbom(subject: Subject) -> dict[str, Any]:
    """The document. Its number and time come from the image, so that a second run, or another
    machine, makes the very same one."""
    reference, record = subject.image.reference, subject.record
    image = Component(name=reference.name, version=reference.digest, bom_ref=reference.by_digest,
                      type=ComponentType.CONTAINER)
    bom = Bom(
        components=[_component(one, _system(subject)) for one in subject.packages],
        metadata=BomMetaData(component=image, timestamp=subject.born),
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, reference.by_digest),
    )
    if commit := record.apex.get("commit"):
        bom.components.add(Component(
            name=record.short_source.rpartition(" ")[0], version=commit, bom_ref="apex-source",
            type=ComponentType.LIBRARY))
    bom.register_dependency(image, list(bom.components))
    document: dict[str, Any] = json.loads(JsonV1Dot5(bom).output_as_string())
    return document


def digest_of(document: Any) -> str | None:
    """The digest of the image that a list is about; None where it names none."""
    try:
        return str(document["metadata"]["component"]["version"])
    except (KeyError, TypeError):
        return None


def _system(subject: Subject) -> str:
    """The distribution, for package URLs: the base image is one of Debian's or of Ubuntu's."""
    base = subject.record.images.get("base")
    name = str(base.get("name", "")) if isinstance(base, dict) else ""
    return "ubuntu" if "ubuntu" in name else "debian"


def _component(package: Package, system: str) -> Component:
    if package.kind == "deb":
        url = PackageURL("deb", system, package.name, package.version, {"arch": package.arch})
    else:
        url = PackageURL("pypi", None, canonicalize_name(package.name), package.version)
    return Component(name=package.name, version=package.version, purl=url,
                     bom_ref=f"{url.to_string()}{'#' * bool(package.home)}{package.home}",
                     type=ComponentType.LIBRARY)
