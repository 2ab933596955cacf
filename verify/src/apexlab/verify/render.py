"""The report for people: the verdict first, then the evidence, then what to do.

Gives lines of plain text with a style name for each; colours are put on only for a terminal.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import StringIO

from apexlab.verify.extensions import BY_NAME
from apexlab.verify.report import INFO, LOAD, ExtensionReport, Finding, Report

_STYLES = {
    "ok": "bold green", "proven": "bold green", "broken": "bold red", "error": "bold red",
    "fallback": "bold yellow", "incomplete": "bold yellow", "warning": "yellow", "info": "dim",
    "present": "green", "loaded": "green", "absent": "bold red", "not-requested": "dim",
}  # fmt: skip
_WIDTH = 100


@dataclass(frozen=True)
class Line:
    """`mark` is the word at the start that carries the style."""

    mark: str
    text: str
    style: str = ""


def lines(report: Report, seconds: float | None = None) -> Iterator[Line]:
    """The report, line by line."""
    took = "" if seconds is None else f"  ({seconds:.1f} s)"
    yield Line(report.verdict.upper(), f"   {_headline(report)}{took}", report.verdict)
    yield Line("", _versions(report))
    if any(one.path for one in report.extensions):
        yield Line("", "")
        yield from _table(report.extensions)
    for found in report.findings:
        yield Line("", "")
        yield from _finding(found)


def _headline(report: Report) -> str:
    expected = [one for one in report.extensions if one.expected]
    good = [one for one in expected if one.status in ("present", "loaded", "proven")]
    what = ("are there and were imported" if report.level_reached == LOAD
            else "are there and fit, as far as their files tell")
    counted = f"{len(good)} of {len(expected)} extensions asked for {what}"
    if report.errors:
        first = " ".join(report.errors[0].message.split(". ")[0].split()).rstrip(".")
        more = len(report.errors) - 1
        return f"{first}; {more} more below" if more else first
    if report.verdict == "incomplete":
        return f"{counted}; not everything asked for could be checked"
    return counted


def _versions(report: Report) -> str:
    here = report.environment
    parts = [f"torch {here.torch}" if here.torch else "no torch"]
    # The source's own name: what was not built from Apex must never read as Apex.
    source = report.record.short_source if report.record else "no build record"
    other = report.record is not None and report.record.source != "apex"
    parts.append(f"{source} (this is not NVIDIA Apex)" if other else source)
    if report.kind == "wheel":
        parts.append(report.subject)
    elif here.devices:
        names = dict.fromkeys(f"{one.name} ({one.capability})" for one in here.devices)
        parts += [", ".join(names), f"driver {here.driver}" if here.driver else "driver unknown"]
    else:
        parts.append("no GPU visible")
    return " · ".join(parts)


def _table(extensions: tuple[ExtensionReport, ...]) -> Iterator[Line]:
    name_width = max(len(one.name) for one in extensions)
    yield Line("", f"{'extension':{name_width}}  {'status':13}  {'kernels':>7}  code for", "head")
    for one in extensions:
        code = " ".join((*one.targets, *one.ptx)) or ("-" if one.path else "")
        kernels = _kernels(one)
        yield Line(f"{one.name:{name_width}}  {one.status:13}", f"  {kernels:>7}  {code}",
                   one.status)


def _kernels(one: ExtensionReport) -> str:
    """The number of kernels, or in a word why there is none to count."""
    known = BY_NAME.get(one.name)
    if one.sha256 is None:
        return ""
    if known is not None and not one.kernels and known.device_code != "kernels":
        return "cuBLAS" if known.device_code == "empty" else "-"
    return "?" if one.kernels is None else str(one.kernels)


def _finding(found: Finding) -> Iterator[Line]:
    text = textwrap.wrap(f"{found.code}: {found.message}", _WIDTH, subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)
    mark = found.severity
    yield Line(mark, f"  {text[0]}", found.severity)
    for rest in text[1:]:
        yield Line("", rest)
    if found.fix and found.severity != INFO:
        # Never wrapped: it is there to be copied.
        yield Line("", f"  fix: {found.fix}")


def text(report: Report, seconds: float | None, colour: bool | None) -> str:
    """The whole report. `colour` None means: as stdout is."""
    wanted = sys.stdout is not None and sys.stdout.isatty() if colour is None else colour
    shown = [replace(line, text=printable(line.text), mark=printable(line.mark))
             for line in lines(report, seconds)]
    if not wanted:
        return "".join(f"{line.mark}{line.text}".rstrip() + "\n" for line in shown)
    # Late: importing rich takes as long as judging half of the extensions.
    from rich.console import Console
    from rich.text import Text
    whole = StringIO()
    console = Console(file=whole, force_terminal=True, soft_wrap=True, highlight=False)
    for line in shown:
        console.print(Text.assemble((line.mark, _STYLES.get(line.style, "")), line.text))
    return whole.getvalue()


def printable(text: str) -> str:
    """The text with its control characters spelt out: names and messages come from the very
    files that are judged, and must not move the cursor or paint over the verdict."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
