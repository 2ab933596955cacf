"""What publishing left behind for the page, `apexlab.published/1`: the image's name, digest and
tags, its size, and whose signature to look for. `apexlab publish --json` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from apexlab.build.publish.subject import look
from apexlab.build.rows import Cell, minor

if TYPE_CHECKING:
    from apexlab.build.publish.promote import Promotion

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
        "bytes": {"type": ["integer", "null"], "minimum": 1},
        "created": _TEXT, "published": _TEXT,
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
    image, trust = promotion.subject.image, promotion.cosign.trust
    _, layers = look(promotion.registry)
    keyless = trust.key is None
    return {
        "schema": SCHEMA, "cell": slug_of(cell), "image": image.reference.name,
        "digest": image.digest,
        "tags": [{"name": tag.name, "moves": tag.moves} for tag in promotion.tags],
        "source": promotion.subject.record.source, "record": promotion.subject.record_hash,
        "level": level, "bytes": sum(layer.size for layer in layers) or None,
        "created": promotion.subject.born.isoformat(timespec="seconds"),
        "published": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "trust": {"identity": trust.identity if keyless else None,
                  "issuer": trust.issuer if keyless else None,
                  "repository": environ.get("GITHUB_REPOSITORY") if keyless else None},
    }
