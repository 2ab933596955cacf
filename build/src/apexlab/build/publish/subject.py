"""The image that is to be published, as the registry has it under one digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from apexlab.build.errors import RefusedError, RegistryError
from apexlab.build.publish import contents
from apexlab.build.publish.contents import Layer
from apexlab.build.publish.packages import Package, of_files
from apexlab.build.publish.reference import Reference
from apexlab.build.publish.registry import Manifest, Registry
from apexlab.verify.record import Record, parse_record

_FRACTION = re.compile(r"\.\d+")
_INDEXES = ("application/vnd.oci.image.index.v1+json",
            "application/vnd.docker.distribution.manifest.list.v2+json")


@dataclass(frozen=True)
class Image:
    """`manifest` is what the digest names, an index or the image itself; `created` what its
    configuration says."""

    reference: Reference
    manifest: Manifest
    created: datetime
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def digest(self) -> str:
        return self.reference.digest


@dataclass(frozen=True)
class Subject:
    """An image with what is inside: its build record, and the packages of Debian and Python."""

    image: Image
    record: Record
    packages: tuple[Package, ...]

    @property
    def record_hash(self) -> str:
        return record_hash(self.record)

    @property
    def born(self) -> datetime:
        """When the image was finished: no report from before can be about it."""
        return max(self.image.created, moment(self.record.created) or self.image.created)


def record_hash(record: Record) -> str:
    """The identity of a build: the sha256 of its record, however that was indented. The copy
    inside the wheel, which verify reads, cannot hold the wheel's own hash: it is left out."""
    document = json.loads(record.to_json())
    document["wheel"].pop("sha256", None)
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def moment(text: Any) -> datetime | None:
    """A time as JSON has it; None for what is none, or has no zone."""
    try:
        # Python 3.10 takes neither Z nor the nanoseconds that engines write.
        time = datetime.fromisoformat(_FRACTION.sub("", str(text)).replace("Z", "+00:00"))
    except ValueError:
        return None
    return time.astimezone(timezone.utc) if time.tzinfo else None


def look(registry: Registry) -> tuple[Image, tuple[Layer, ...]]:
    """The image under the reference's digest, without its layers' content. Raises RefusedError."""
    reference = registry.reference
    manifest = _manifest(registry, reference.digest)
    content = manifest.content
    if manifest.media_type in _INDEXES or "manifests" in content:
        content = _manifest(registry, _only_platform(content, reference.digest)).content
    try:
        config = _config(registry, content["config"])
        layers = tuple(Layer(str(one["digest"]), int(one["size"])) for one in content["layers"])
        labels = (config.get("config") or {}).get("Labels") or {}
        annotations = {**(content.get("annotations") or {}),
                       **(manifest.content.get("annotations") or {})}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RefusedError(f"{reference.by_digest} is no image of a container: {error!r}. Give the "
                           "digest that the push of the image printed.") from error
    created = moment(config.get("created")) or datetime.fromtimestamp(0, timezone.utc)
    return Image(reference, manifest, created, labels, annotations), layers


def read(registry: Registry) -> Subject:
    """The image with what is in its layers. Raises RefusedError where it has no build record."""
    image, layers = look(registry)
    files = contents.read(layers, registry.blob)
    text = files.get(contents.RECORD)
    if text is None:
        raise RefusedError(f"{image.reference.by_digest} has no build record at "
                           f"/{contents.RECORD}, so nobody can say what it was built from. "
                           "Only images of `apexlab image` are published.")
    return Subject(image, parse_record(text, f"{image.digest}:/{contents.RECORD}"),
                   of_files(files))


def _manifest(registry: Registry, digest: str) -> Manifest:
    found = registry.manifest(digest)
    if found is None:
        raise RegistryError(f"{registry.reference.name} has no {digest}. Push the image there, and "
                            "give the digest that the push prints.")
    return found


def _only_platform(index: Mapping[str, Any], digest: str) -> str:
    """The one image in an index; attestations of BuildKit lie beside it, for no platform."""
    entries = index.get("manifests") or ()
    images = [one for one in entries if isinstance(one, dict)
              and (one.get("platform") or {}).get("os") != "unknown"]
    if len(images) != 1:
        raise RefusedError(
            f"{digest} is an index of {len(images)} images, and a report speaks for one. Publish "
            "an index with one image, or the image itself.")
    return str(images[0].get("digest"))


def _config(registry: Registry, entry: Mapping[str, Any]) -> dict[str, Any]:
    digest, size = str(entry["digest"]), int(entry["size"])
    with registry.blob(digest) as raw:
        body = raw.read(contents.MOST)
    if "sha256:" + hashlib.sha256(body).hexdigest() != digest or len(body) != size:
        raise RefusedError(f"The configuration {digest} is not what its digest says. The registry "
                           "was tampered with, or its disk is broken; push the image again.")
    config = json.loads(body)
    if not isinstance(config, dict):
        raise ValueError("its configuration is no object")
    return config
