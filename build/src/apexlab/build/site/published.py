"""What the page knows of a published image, `apexlab.published/1`: its name, digest and tags, its
size, and whose signature to look for. `apexlab publish --json` prints it for the image that it
published, and `apexlab publish records` for all that the registry has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from apexlab.build.publish.subject import look
from apexlab.build.rows import Cell, minor

if TYPE_CHECKING:
    from apexlab.build.publish.contents import Layer
    from apexlab.build.publish.promote import Promotion
    from apexlab.build.publish.sign import Trust
    from apexlab.build.publish.subject import Subject
    from apexlab.build.publish.tags import Tag

SCHEMA = "apexlab.published/1"
PUBLIC_KEY = "cosign.pub"  # how the page names the public half of a key that signed
_TEXT = {"type": "string", "minLength": 1, "maxLength": 500}
_DIGEST = {"type": "string", "pattern": r"\Asha256:[0-9a-f]{64}\Z"}
SHAPE: dict[str, Any] = {
    "type": "object",
    "required": ["schema", "cell", "image", "digest", "tags", "source", "record", "level", "bytes",
                 "created", "published", "trust"],
    "properties": {
        "schema": {"const": SCHEMA}, "cell": _TEXT, "image": _TEXT, "digest": _DIGEST,
        "tags": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["name", "moves"],
            "properties": {"name": {"type": "string", "pattern": r"\A\w[\w.-]{0,127}\Z"},
                           "moves": {"type": "boolean"}}}},
        "source": _TEXT, "record": _DIGEST, "level": {"enum": ["load", "run"]},
        "bytes": {"type": ["integer", "null"], "minimum": 1, "maximum": 10**15},
        "created": _TEXT, "published": {"anyOf": [_TEXT, {"type": "null"}]},
        "trust": {"type": "object", "required": ["identity", "issuer", "repository"],
                  "properties": {name: {"type": ["string", "null"], "maxLength": 500}
                                 for name in ("identity", "issuer", "repository")}},
    },
}  # fmt: skip


def slug_of(cell: Cell) -> str:
    """The name of a cell in tags, folders and links."""
    return f"torch{minor(cell.torch)}-cuda{cell.cuda}"


def document(promotion: Promotion, cell: Cell, level: str, environ: Mapping[str, str],
             ) -> dict[str, Any]:
    """What a promotion that is done leaves behind."""
    _, layers = look(promotion.registry)
    made = describe(promotion.subject, layers, cell, promotion.tags, level,
                    promotion.cosign.trust, environ.get("GITHUB_REPOSITORY"))
    return {**made, "published": datetime.now(timezone.utc).isoformat(timespec="seconds")}


def describe(subject: Subject, layers: Iterable[Layer], cell: Cell, tags: Iterable[Tag],
             level: str, trust: Trust, repository: str | None) -> dict[str, Any]:
    """An image that has these tags. When it got them, the registry does not say."""
    keyless = trust.key is None
    return {
        "schema": SCHEMA, "cell": slug_of(cell), "image": subject.image.reference.name,
        "digest": subject.image.digest,
        "tags": [{"name": tag.name, "moves": tag.moves} for tag in tags],
        "source": subject.record.source, "record": subject.record_hash,
        "level": level, "bytes": sum(layer.size for layer in layers) or None,
        "created": subject.born.isoformat(timespec="seconds"), "published": None,
        "trust": {"identity": trust.identity if keyless else None,
                  "issuer": trust.issuer if keyless else None,
                  "repository": repository if keyless else None},
    }
