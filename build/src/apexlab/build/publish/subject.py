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
from apexlab.build.publish.reference import DIGEST, Reference
from apexlab.build.publish.registry import Manifest, Registry
from apexlab.verify import strict
from apexlab.verify.record import Record, parse_record

_FRACTION = re.compile(r"\.\d+")


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
        return time.astimezone(timezone.utc) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def look(registry: Registry) -> tuple[Image, tuple[Layer, ...]]:
    """The image under the reference's digest, without its layers' content. Raises RefusedError."""
    reference = registry.reference
    manifest = _manifest(registry, reference.digest)
    content = manifest.content
    try:
        if "manifests" in content:
            content = _only_platform(registry, content).content
        layers = tuple(_layer(one) for one in content["layers"])
        config = _config(registry, _layer(content["config"]))
        labels = _texts((config.get("config") or {}).get("Labels"))
        annotations = {**_texts(content.get("annotations")),
                       **_texts(manifest.content.get("annotations"))}
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


def _only_platform(registry: Registry, index: Mapping[str, Any]) -> Manifest:
    """The one image in an index; attestations of BuildKit lie beside it, for no platform."""
    images = [one for one in index["manifests"]
              if (one.get("platform") or {}).get("os") != "unknown"]
    if len(images) != 1:
        raise RefusedError(f"{registry.reference.by_digest} is an index of {len(images)} images, "
                           "and a report speaks for one. Publish an index with one image, or the "
                           "image itself.")
    found = registry.manifest(_layer(images[0]).digest)
    if found is None:
        raise ValueError("the image in the index is not there")
    return found


def _layer(entry: Mapping[str, Any]) -> Layer:
    """The digest and the size in what a manifest says of a blob."""
    if not DIGEST.fullmatch(entry["digest"]):
        raise ValueError(f"{entry['digest']!r} is no digest")
    return Layer(entry["digest"], int(entry["size"]))


def _texts(found: Mapping[str, str] | None) -> dict[str, str]:
    texts = dict((found or {}).items())
    if not all(isinstance(value, str) for value in texts.values()):
        raise ValueError("its labels or annotations are no texts")
    return texts


def _config(registry: Registry, entry: Layer) -> dict[str, Any]:
    with registry.blob(entry.digest) as raw:
        body = raw.read(contents.MOST)
    found = "sha256:" + hashlib.sha256(body).hexdigest()
    if found != entry.digest or len(body) != entry.size:
        raise RefusedError(f"The configuration {entry.digest} is not what its digest says. The "
                           "registry was tampered with, or its disk is broken; push the image "
                           "again.")
    config = strict.loads(body)
    if not isinstance(config, dict):
        raise ValueError("its configuration is no object")
    return config
