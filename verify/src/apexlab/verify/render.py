"""The report for people: the verdict first, then the evidence, then what to do.

Gives lines of plain text with a style name for each; colours are put on only for a terminal.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import StringIO

from apexlab.verify import summary
from apexlab.verify.extensions import BY_NAME
from apexlab.verify.report import INFO, ExtensionReport, Finding, ModelReport, Report

_STYLES = {
    "ok": "bold green", "proven": "bold green", "broken": "bold red", "error": "bold red",
    "fallback": "bold yellow", "incomplete": "bold yellow", "warning": "yellow", "info": "dim",
    "present": "green", "loaded": "green", "absent": "bold red", "not-requested": "dim",
}  # fmt: skip
_WIDTH = 100
_GAP = "  "
# Of the column for the proofs; where it is comfortable, the kernels are counted beside it.
_NARROWEST, _COMFORTABLE = 32, 60


@dataclass(frozen=True)
class Line:
    """`mark` is the word at the start that carries the style."""

    mark: str
    text: str
    style: str = ""


def lines(report: Report, seconds: float | None = None) -> Iterator[Line]:
    """The report, line by line. `seconds` is for a report that does not know its own."""
    seconds = report.seconds if seconds is None else seconds
    took = "" if seconds is None else f"   {seconds:.1f} s"
    yield Line(report.verdict.upper(), f"   {summary.headline(report)}{took}", report.verdict)
    yield Line("", summary.environment(report))
    if any(one.path for one in report.extensions):
        yield Line("", "")
        yield from _table(report)
    for found in report.findings:
        yield Line("", "")
        yield from _finding(found)
    if report.model is not None:
        yield Line("", "")
        yield from _model(report.model)


def _table(report: Report) -> Iterator[Line]:
    """A row for each extension. Names and targets are never cut: where they leave no room for the
    proofs, these go below their row."""
    rows = [_cells(one) for one in report.extensions]
    head = ("extension", "status", "kernels", "code for")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    left = _WIDTH - sum(widths) - len(_GAP) * len(head)
    proven = any(one.proofs for one in report.extensions)
    beside = proven and left + widths[2] + len(_GAP) >= _NARROWEST
    counted = not beside or left >= _COMFORTABLE
    start = _WIDTH - left - (0 if counted else widths[2] + len(_GAP)) if beside else 4

    def columns(name: str, status: str, kernels: str, code: str) -> tuple[str, str]:
        """The part that is marked, and the rest."""
        count = f"{kernels:>{widths[2]}}{_GAP}" if counted else ""
        return f"{name:{widths[0]}}{_GAP}{status:{widths[1]}}", f"{_GAP}{count}{code}"

    mark, rest = columns(*head)
    yield Line("", f"{mark}{rest}".ljust(start) + ("proof" if beside else ""), "head")
    for one, cells in zip(report.extensions, rows, strict=True):
        mark, rest = columns(*cells)
        proofs = list(_proofs(one, len(report.environment.devices), _WIDTH - start))
        if beside and proofs:
            rest = rest.ljust(start - len(mark)) + proofs.pop(0)
        yield Line(mark, rest, summary.style(report, one))
        yield from (Line("", " " * start + text) for text in proofs)


def _cells(one: ExtensionReport) -> tuple[str, str, str, str]:
    code = " ".join((*one.targets, *one.ptx)) or ("-" if one.path else "")
    return printable(one.name), one.status, _kernels(one), printable(code)


def _proofs(one: ExtensionReport, gpus: int, width: int) -> Iterator[str]:
    """The proofs in lines of `width`, broken between the pieces where that is possible."""
    for pieces in summary.outcomes(one, gpus):
        line = ""
        for piece in map(printable, pieces):
            whole = f"{line}{summary.SEPARATOR}{piece}" if line else piece
            if len(whole) > width:
                *full, whole = [*filter(None, (line,)), *wrap(piece, width)]
                yield from full
            line = whole
        yield line


def _kernels(one: ExtensionReport) -> str:
    """The number of kernels, or in a word why there is none to count."""
    known = BY_NAME.get(one.name)
    if one.sha256 is None:
        return ""
    if known is not None and not one.kernels and known.device_code != "kernels":
        return "cuBLAS" if known.device_code == "empty" else "-"
    return "?" if one.kernels is None else str(one.kernels)


def _finding(found: Finding) -> Iterator[Line]:
    mark = found.severity
    text = wrap(f"{mark}  {found.code}: {found.message}", _WIDTH, indent="  ")
    yield Line(mark, text[0].removeprefix(mark), found.severity)
    for rest in text[1:]:
        yield Line("", rest)
    if found.fix and found.severity != INFO:
        # Never wrapped: it is there to be copied.
        yield Line("", f"  fix: {found.fix}")


def wrap(text: str, width: int = _WIDTH, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def _model(model: ModelReport) -> Iterator[Line]:
    """What a training step of the user's own model used. Long kernel names come last in a row."""
    yield Line("model", f"  {summary.model(model)}", "head")
    used = [*((one, "norm") for one in model.norms),
            *((one, "optimizer") for one in (model.optimizer,) if one is not None)]
    yield Line("", f"{'count':>5}  {'from':8}  {'used as':9}  class")
    for one, role in used:
        yield Line("", f"{one.count:>5}  {'Apex' if one.apex else 'not Apex':8}  {role:9}  "
                       f"{one.name}")
    if not used:
        yield Line("", "    0  neither a norm nor an optimizer")
    if not model.kernels:
        return
    top = summary.top_kernels(model)
    owners = [one.extension or "not Apex" for one in top]
    width = max(map(len, ("from", *owners)))
    yield Line("", f"{'time':>7}  {'launches':>8}  {'from':{width}}  kernel of one step")
    for kernel, owner in zip(top, owners, strict=True):
        yield Line("", f"{summary.time_share(model, kernel):>7}  {kernel.count:>8}  "
                       f"{owner:{width}}  {kernel.name}")
    rest = len(model.kernels) - len(top)
    if rest:
        yield Line("", f"         and {rest} more kernels")


def text(report: Report, seconds: float | None, colour: bool | None) -> str:
    """The whole report. `colour` None means: as stdout is."""
    return shown(lines(report, seconds), colour)


def shown(made: Iterable[Line], colour: bool | None,
          styles: Mapping[str, str] = _STYLES) -> str:
    """Lines as they are printed, with nothing in them that moves the cursor. `styles`: rich's, by
    the style of a line."""
    wanted = sys.stdout is not None and sys.stdout.isatty() if colour is None else colour
    safe = [replace(line, text=printable(line.text), mark=printable(line.mark)) for line in made]
    if not wanted:
        return "".join(f"{line.mark}{line.text}".rstrip() + "\n" for line in safe)
    # Late: importing rich takes as long as judging half of the extensions.
    from rich.console import Console
    from rich.text import Text
    whole = StringIO()
    console = Console(file=whole, force_terminal=True, soft_wrap=True, highlight=False)
    for line in safe:
        console.print(Text.assemble((line.mark, styles.get(line.style, "")), line.text))
    return whole.getvalue()


def printable(text: str) -> str:
    """The text with its control characters spelt out: names and messages come from the very
    files that are judged, and must not move the cursor or paint over the verdict."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    # At the start of a line, blanks or not, GitHub Actions takes this for a command.
    return shown.replace(":", r"\x3a", 1) if shown.lstrip().startswith("::") else shown
