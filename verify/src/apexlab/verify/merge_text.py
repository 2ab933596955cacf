"""The merged reports for people: the verdict, a row for each node, then what was found where."""

from __future__ import annotations

from collections.abc import Iterator

from apexlab.verify import render, summary
from apexlab.verify.merge import Merged
from apexlab.verify.report import INFO

MOST_NAMES = 6
_HEAD = ("node", "verdict", "driver", "GPUs")


def lines(merged: Merged) -> Iterator[render.Line]:
    """The text, line by line."""
    yield render.Line(merged.verdict.upper(), f"   {merged.headline}", merged.verdict)
    yield from _table(merged)
    for mark, text in lacking(merged):
        yield from _said(mark, text)
    for shared in merged.findings:
        found = shared.finding
        yield from _said(found.severity, f"{found.code} on {names(shared.nodes)}: {found.message}")
        if found.fix and found.severity != INFO:
            yield render.Line("", f"  fix: {found.fix}")


def lacking(merged: Merged) -> Iterator[tuple[str, str]]:
    """(severity, sentence): what nothing is known of, and what should be alike and is not."""
    if merged.miscounted:
        yield "incomplete", f"{merged.miscounted}."
    for file, reason in merged.unread:
        yield "incomplete", f"{file} cannot be read: {reason}."
    for file, first in merged.copies:
        yield "warning", f"{file} is {first} once more, so it counts as no node of its own."
    for difference in merged.differences:
        parts = "; ".join(f"{value} on {names(who)}" for value, who in difference.values)
        yield "warning", f"The nodes differ in their {difference.what}: {parts}."


def names(nodes: tuple[str, ...]) -> str:
    """Some of the names, and how many more there are."""
    shown = ", ".join(nodes[:MOST_NAMES])
    return f"{shown} and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else shown


def _table(merged: Merged) -> Iterator[render.Line]:
    rows = [tuple(map(render.printable, (
        node.name, node.report.verdict, node.report.environment.driver or "-",
        summary.devices(node.report) or "none visible"))) for node in merged.nodes]
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    yield render.Line("", "")
    for style, row in (("head", _HEAD), *((row[1], row) for row in rows)):
        name, verdict, *rest = (f"{text:{width}}" for text, width in zip(row, widths, strict=True))
        yield render.Line("", f"{name}  {verdict}  {'  '.join(rest)}".rstrip(), style)


def _said(mark: str, text: str) -> Iterator[render.Line]:
    yield render.Line("", "")
    first, *rest = render.wrap(f"{mark}  {render.printable(text)}", indent="  ")
    yield render.Line(mark, first.removeprefix(mark), mark)
    yield from (render.Line("", line) for line in rest)
