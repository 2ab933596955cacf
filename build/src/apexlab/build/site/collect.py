"""The records of all cells, from the registry: what a consumer can check there, and no more.

A tag is believed only as far as its digest is signed and attested. What is written down is what the
signed statements say, so that no run of the publisher has to be at hand.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path

from apexlab.build.errors import RefusedError
from apexlab.build.publish import consumer, evidence, tags
from apexlab.build.publish.consumer import Checked
from apexlab.build.publish.contents import Layer
from apexlab.build.publish.evidence import Measured, Verified
from apexlab.build.publish.packages import Package
from apexlab.build.publish.registry import Registry
from apexlab.build.publish.sign import Cosign
from apexlab.build.publish.subject import Subject, look
from apexlab.build.publish.tags import Tag
from apexlab.build.rows import Cell, Matrix
from apexlab.build.site import records
from apexlab.build.site.published import describe, slug_of
from apexlab.build.site.records import Shown
from apexlab.verify.errors import UsageError
from apexlab.verify.record import parse_record
from apexlab.verify.report import LEVELS, LOAD

_BEFORE_ALL = datetime.fromtimestamp(0, timezone.utc)


def collect(registry: Registry, cosign: Cosign, matrix: Matrix, repository: str | None,
            show: Callable[[str], None]) -> tuple[Shown, ...]:
    """The record of each cell that has a tag there. Raises RefusedError with every cell that does
    not pass, once all were looked at."""
    found, wrong = [], []
    for cell in matrix.cells:
        slug = slug_of(cell)
        try:
            one = _one(registry, cosign, matrix, cell, repository)
        except RefusedError as error:
            wrong.append(f"\n- {slug}: {error}")
            show(f"{slug}  refused")
            continue
        show(f"{slug}  {f'level {one.verified.level}' if one else 'not published'}")
        found += [one] if one else []
    if wrong:
        raise RefusedError(f"{registry.reference.name} has {len(wrong)} tag(s) that nobody should "
                           f"pull, so no record was written:{''.join(wrong)}\nPublish those cells "
                           "again, or delete their tags.")
    return tuple(found)


def _one(registry: Registry, cosign: Cosign, matrix: Matrix, cell: Cell,
         repository: str | None) -> Shown | None:
    slug = slug_of(cell)
    manifest = registry.manifest(slug)
    if manifest is None:
        return None
    here = registry.of(registry.reference.at(manifest.digest))
    checked = consumer.check(here, cosign, LOAD)
    best = max(checked.reports, key=lambda one: (LEVELS.index(one.level),
                                                 one.created or _BEFORE_ALL))
    subject, layers = _subject(here, checked, best)
    asked = tags.names(subject, cell, matrix)
    if Tag(slug, True) not in asked:
        other = ", ".join(tag.name for tag in asked if tag.moves)
        raise RefusedError(f"It is signed, and belongs under {other}: somebody moved the tag.")
    held = [tag for tag in asked if tag.name == slug or _names(registry, tag, manifest.digest)]
    published = describe(subject, layers, cell, held, best.level, cosign.trust, repository)
    shown = Shown(slug, published, best, _newest(checked))
    records.judge(shown, cell, "The signed statements")
    return shown


def _subject(registry: Registry, checked: Checked, report: Verified,
             ) -> tuple[Subject, tuple[Layer, ...]]:
    """The image as its statements describe it: its layers, gigabytes of them, are not read."""
    image, layers = look(registry)
    record = parse_record(json.dumps(report.document["record"]), f"in {report.where}")
    return Subject(image, record, tuple(_packages(checked))), layers


def _packages(checked: Checked) -> Iterable[Package]:
    """Python's, of the signed list."""
    for statement in checked.statements["SBOM"]:
        parts = statement.predicate.get("components") if isinstance(statement.predicate, dict) \
            else None
        for one in parts if isinstance(parts, list) else ():
            if isinstance(one, dict) and str(one.get("purl", "")).startswith("pkg:pypi/"):
                yield Package("pypi", str(one.get("name")), str(one.get("version")))


def _names(registry: Registry, tag: Tag, digest: str) -> bool:
    manifest = registry.manifest(tag.name)
    return manifest is not None and manifest.digest == digest


def _newest(checked: Checked) -> Measured | None:
    results = [evidence.measured(one.predicate, f"the signed benchmark {number}")
               for number, one in enumerate(checked.statements["benchmark"], 1)]
    return max(results, key=lambda one: one.created or _BEFORE_ALL, default=None)


def check(out: Path) -> None:
    """Raise UsageError where records of another time could stay between the new ones."""
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} has files in it, and records are all of one time. Name a new "
                         "folder.")


def write(out: Path, found: Iterable[Shown]) -> None:
    """A folder for each cell, all of them or none."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        for one in found:
            (new / one.slug).mkdir()
            for name, text in one.files().items():
                (new / one.slug / name).write_text(text, encoding="utf-8")
        new.replace(out)
