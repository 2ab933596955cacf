"""Whether an image may be published. Pure: every rule is a function that yields what is wrong.

The rules hold against mistakes and against an image that was changed: a report speaks for one
digest, and it must agree with what is in that digest. Who may run this is the registry's and the
key's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from apexlab.build.image_labels import OURS, disagreements
from apexlab.build.publish.evidence import Measured, Verified
from apexlab.build.publish.subject import Image, Subject
from apexlab.build.rows import Cell, Matrix, minor
from apexlab.verify.arch import parse_archs
from apexlab.verify.record import Record
from apexlab.verify.report import LEVELS, LOAD, RUN

APEX = "apex"
SKEW = timedelta(minutes=5)  # between the clocks of two machines
# What a cell asks for: one that is called proven has to be proven again in each new image.
LEVEL_OF = {"none": LOAD, "reported": LOAD, "built": LOAD, "proven": RUN}
_STAYS = re.compile(r"-\d{8}-([0-9a-f]{8})$")  # the end of a tag that never moves
GOOD = {"load": {"loaded", "proven"}, "run": {"proven"}}


@dataclass(frozen=True)
class Refusal:
    """One reason not to publish; `code` is stable."""

    code: str
    message: str


@dataclass(frozen=True)
class Rules:
    """What is asked for beyond the cell: `level` may only raise it; `now` is the time here."""

    now: datetime
    level: str | None = None
    allow_stand_in: bool = False


def cell_of(record: Record, matrix: Matrix) -> Cell | None:
    """The cell that the record's torch and CUDA belong to."""
    torch, cuda = str(record.torch.get("version", "")).partition("+")[0], record.torch.get("cuda")
    return next((cell for cell in matrix.cells
                 if cell.torch == torch and minor(cell.cuda) == minor(str(cuda))), None)


def level_of(cell: Cell | None, rules: Rules) -> str:
    """The level that a report has to reach."""
    asked = [LEVEL_OF[cell.evidence] if cell else LOAD, rules.level or LOAD]
    return max(asked, key=LEVELS.index)


def refusals(subject: Subject, reports: Iterable[Verified], results: Iterable[Measured],
             cell: Cell | None, rules: Rules) -> tuple[Refusal, ...]:
    """Everything that speaks against publishing, the image's own faults first."""
    reports = tuple(reports)
    level = level_of(cell, rules)
    return (
        *_image(subject),
        *_identity(subject, cell, rules),
        *(one for report in reports for one in _bound(subject, report, rules)),
        *(one for report in reports for one in _verdict(subject.record, report)),
        *_reached(subject, reports, level),
        *(one for result in results for one in _bench(subject, result)),
    )


def _image(subject: Subject) -> Iterator[Refusal]:
    """The image agrees with itself: labels and annotations with the record inside."""
    image = subject.image
    if wrong := disagreements(image.labels, subject.record):
        yield Refusal("labels", f"The image's labels say something else than the build record "
                      f"inside ({'; '.join(wrong)}). Build it with `apexlab image`.")
    for key, value in image.annotations.items():
        if image.labels.get(key, value) != value and key.startswith((OURS, "org.opencontainers")):
            yield Refusal("annotations", f"The manifest's annotation {key} says {value!r}, and the "
                          f"image's label {image.labels[key]!r}. Annotate it from its labels.")
    if subject.born.year < 2000:
        yield Refusal("no-time", "Neither the image nor its record says when it was made, so no "
                      "report can be told from an older one. Build it with `apexlab image`.")


def _identity(subject: Subject, cell: Cell | None, rules: Rules) -> Iterator[Refusal]:
    """It is what its tags will say: a cell's torch, CUDA, commit and architectures."""
    record = subject.record
    torch, cuda = record.torch.get("version"), record.torch.get("cuda")
    if cell is None:
        yield Refusal("no-cell", f"torch {torch} with CUDA {cuda} is no cell of the matrix, so "
                      "there is no tag for it. `apexlab matrix` lists the cells.")
        return
    if record.source != APEX:
        if not rules.allow_stand_in:
            yield Refusal("stand-in", f"This is not Apex: the build record calls its source "
                          f"{record.source!r}. For a trial in a registry of your own there is "
                          "--allow-stand-in; its tags then carry that name.")
        return  # what follows is said of Apex
    if record.apex.get("commit") != cell.ref or record.apex.get("dirty"):
        changed = " with changes" if record.apex.get("dirty") else ""
        yield Refusal("other-commit", f"It holds Apex {record.apex.get('commit')}{changed}, and "
                      f"the cell promises {cell.ref}. Build the cell without --apex-ref and from a "
                      "clean source.")
    if missing := sorted({str(one) for one in cell.archs}
                         - {str(one) for one in parse_archs(";".join(record.archs))}):
        yield Refusal("architectures", f"It was not built for {', '.join(missing)}, which the cell "
                      "promises. Build it without --archs.")


def _bound(subject: Subject, report: Verified, rules: Rules) -> Iterator[Refusal]:
    """The report was made in this very image."""
    where, digest = report.where, subject.image.digest
    if report.image is None:
        yield Refusal("no-digest", f"{where} does not say in which image it was made. Run verify "
                      f"in it again: docker run {subject.image.reference.by_digest} verify "
                      f"--image-digest {digest} --json")
    elif report.image != digest:
        yield Refusal("other-digest", f"{where} was made in {report.image}, not in {digest}. Run "
                      "verify in this one.")
    if report.kind != "site":
        yield Refusal("no-site", f"{where} judges a {report.kind} and not the installation in the "
                      "image. Run verify without --wheel.")
    if report.record != subject.record_hash:
        what = "no build record" if report.record is None else "another build record"
        yield Refusal("other-record", f"{where} was judged against {what} than the one in the "
                      f"image ({subject.record_hash}). Run verify in this image, without --record.")
    yield from _in_time(subject, report, rules)
    if report.torch != subject.record.torch.get("version"):
        yield Refusal("other-torch", f"{where} saw torch {report.torch}, and the image was built "
                      f"for {subject.record.torch.get('version')}. Build it again.")
    built = {one.name: one.sha256 for one in subject.record.built}
    if other := sorted(name for name, value in report.files.items()
                       if name in built and value != built[name]):
        yield Refusal("other-files", f"{where} judged other files than the build left, for "
                      f"{', '.join(other)}. Run verify in this image.")


def _in_time(subject: Subject, report: Verified, rules: Rules) -> Iterator[Refusal]:
    if report.created is None:
        yield Refusal("no-time", f"{report.where} does not say when it was made. Run verify again.")
    elif report.created < subject.born:
        yield Refusal("older", f"{report.where} is older than the image ({report.created} and "
                      f"{subject.born}), so it is about another one. Run verify again.")
    elif report.created > rules.now + SKEW:
        yield Refusal("future", f"{report.where} is from the future ({report.created}). Set the "
                      "clocks right, and run verify again.")


def _verdict(record: Record, report: Verified) -> Iterator[Refusal]:
    """The report is a good one, for every extension that was asked for."""
    if report.exit_code != 0 or report.verdict not in ("ok", "proven"):
        yield Refusal("not-ok", f"{report.where} says {report.verdict} (exit code "
                      f"{report.exit_code}). Repair what it names, build and verify again.")
        return
    if report.grave or (report.level == RUN and not report.gpus):
        what = f"it found {', '.join(report.grave)}" if report.grave else "ran on no GPU"
        yield Refusal("contradiction", f"{report.where} says {report.verdict}, and yet {what}. "
                      "Somebody changed it; run verify again.")
    wanted = GOOD.get(report.level, GOOD["load"])
    bad = [f"{name} is {report.statuses.get(name, 'not named')}" for name in record.requested
           if report.statuses.get(name) not in wanted]
    if bad and report.level != "static":
        yield Refusal("extensions", f"{report.where} says {report.verdict}, and yet "
                      f"{', '.join(bad)}. Run verify again, with this version of apexlab.")


def _reached(subject: Subject, reports: tuple[Verified, ...], level: str) -> Iterator[Refusal]:
    if any(LEVELS.index(one.level) >= LEVELS.index(level) for one in reports):
        return
    have = ", ".join(f"{one.where} reached {one.level}" for one in reports) or "there is no report"
    gpus = "--gpus all " if level == RUN else ""
    yield Refusal("level", f"This image needs a report at the level {level}, and {have}. Run: "
                  f"docker run {gpus}{subject.image.reference.by_digest} verify --image-digest "
                  f"{subject.image.digest} --level {level} --json")


def _bench(subject: Subject, result: Measured) -> Iterator[Refusal]:
    if result.record != subject.record_hash:
        yield Refusal("other-bench", f"{result.where} was measured with another build record than "
                      "the one in the image. Leave it out, or measure in this image.")
    if result.created is not None and result.created < subject.born:
        yield Refusal("older-bench", f"{result.where} is older than the image ({result.created} "
                      f"and {subject.born}). Leave it out, or measure in this image.")
    if not result.complete:
        yield Refusal("part-bench", f"{result.where} is a part of a benchmark. Finish it with "
                      "`apexlab bench train --resume`, or leave it out.")


def consumer_refusals(image: Image, reports: Iterable[Verified], level: str) -> tuple[Refusal, ...]:
    """What speaks against an image that was pulled, by its signed reports and its labels alone."""
    reports = tuple(reports)
    found: list[Refusal] = []
    for report in reports:
        if report.image != image.digest:
            found.append(Refusal("other-digest", f"{report.where} was made in {report.image}."))
        if report.exit_code != 0:
            found.append(Refusal("not-ok", f"{report.where} says {report.verdict}."))
    if not any(LEVELS.index(one.level) >= LEVELS.index(level) for one in reports):
        found.append(Refusal("level", f"No signed report reached the level {level}."))
    return (*found, *_labels_of(image.labels, reports), *_tag_of(image))


def _tag_of(image: Image) -> Iterator[Refusal]:
    """A tag can be moved by whoever may write to the registry, to another image that is signed."""
    tag, torch = image.reference.tag, image.labels.get(f"{OURS}.torch", "")
    cell = f"torch{minor(torch)}-cuda{image.labels.get(f'{OURS}.cuda')}"
    stays = _STAYS.search(tag)
    if (tag.startswith("torch") and not f"{tag}-".startswith(f"{cell}-")) or (
            stays and not image.digest.startswith(f"sha256:{stays[1]}")):
        yield Refusal("other-tag", f"It is signed as {cell}, and {tag} means another image: "
                      "somebody moved the tag.")


def _labels_of(labels: Mapping[str, str], reports: Iterable[Verified]) -> Iterator[Refusal]:
    for report in reports:
        if report.build is None:
            yield Refusal("other-record", f"{report.where} knows no build record.")
        elif wrong := disagreements(labels, report.build):
            yield Refusal("labels", f"The image's labels say something else than the record in "
                          f"{report.where} ({'; '.join(wrong)}).")
