"""Which tags an image gets, and whether it may have them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from apexlab.build.publish.decide import APEX, Refusal
from apexlab.build.publish.packages import has
from apexlab.build.publish.subject import Subject
from apexlab.build.rows import Cell, Matrix, minor, numbers

LATEST = "latest"
BENCH = "apexlab-bench"


@dataclass(frozen=True)
class Tag:
    """One tag to give. One that does not move names this image for ever."""

    name: str
    moves: bool


@dataclass(frozen=True)
class Holder:
    """The image that has a tag now; `signed` by the key that would move it."""

    digest: str
    created: datetime | None
    signed: bool


def names(subject: Subject, cell: Cell, matrix: Matrix) -> tuple[Tag, ...]:
    """The tags of `subject`: first the one that stays, `latest` last.

    The date in the name is the image's own, so that a second run gives the same one; the digest's
    first digits tell two builds of one day apart.
    """
    record = subject.record
    slug = f"torch{minor(cell.torch)}-cuda{cell.cuda}"
    slug += "" if record.profile == "core" else f"-{_word(record.profile)}"
    slug += "" if has(subject.packages, BENCH) else "-runtime"
    slug += "" if record.source == APEX else f"-{_word(record.source)}"
    stays = f"{slug}-{subject.born:%Y%m%d}-{subject.image.digest.removeprefix('sha256:')[:8]}"
    plain = slug == f"torch{minor(cell.torch)}-cuda{cell.cuda}"
    latest = (Tag(LATEST, True),) if plain and cell == newest(matrix) else ()
    return (Tag(stays, False), Tag(slug, True), *latest)


def newest(matrix: Matrix) -> Cell:
    """The cell that `latest` means: the newest torch, with the newest CUDA that it comes for."""
    return max(matrix.cells, key=lambda cell: (numbers(cell.torch), numbers(cell.cuda)))


def refusals(tags: Iterable[Tag], holders: Mapping[str, Holder], subject: Subject,
             replaceable: Iterable[str]) -> tuple[Refusal, ...]:
    """Why a tag may not be given, for those that another image has now. `replaceable` are digests
    that a person looked at and gave up."""
    image, found = subject.image, []
    for tag in tags:
        holder = holders.get(tag.name)
        if holder is None or holder.digest == image.digest or holder.digest in replaceable:
            continue
        name = image.reference.tagged(tag.name)
        if not tag.moves:
            found.append(Refusal("tag-taken", f"{name} stays with one image, and {holder.digest} "
                                 "has it. Somebody moved it; find out who, and delete it."))
        elif not holder.signed:
            found.append(Refusal("tag-foreign", f"{name} is {holder.digest}, which this key or "
                                 "identity did not sign: somebody else put it there. If it may go, "
                                 f"add --replace {holder.digest}"))
        elif holder.created is not None and holder.created > image.created:
            found.append(Refusal("tag-newer", f"{name} is a newer image ({holder.digest}, made "
                                 f"{holder.created}). To go back to this one all the same, add "
                                 f"--replace {holder.digest}"))
    return tuple(found)


def _word(text: str) -> str:
    """`text` as part of a tag."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unknown"
