"""What GitHub Actions shows of a report: annotations at the log, and the step's summary. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from apexlab.verify import summary
from apexlab.verify.render import printable
from apexlab.verify.report import ERROR, FALLBACK, INCOMPLETE, INFO, WARNING, Finding, Report

MOST = 10  # annotations of a kind; GitHub drops what a step has beyond these
SUMMARY_BYTES = 1 << 20  # of a step's summary; GitHub drops all of a longer one
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~&@:$\"']")


def workflow_commands(report: Report) -> str:
    """The annotations, one a line: what makes the step fail is an error."""
    groups: dict[str, list[Finding]] = {"error": [], "warning": [], "notice": []}
    for found in report.findings:
        groups[_kind(report, found.severity)].append(found)
    return "".join(f"{line}\n" for kind, group in groups.items() for line in _lines(kind, group))


def _kind(report: Report, severity: str) -> str:
    if severity == INCOMPLETE:
        return "error" if report.exit_code else "warning"
    return {ERROR: "error", FALLBACK: "error", WARNING: "warning", INFO: "notice"}[severity]


def _lines(kind: str, group: list[Finding]) -> Iterator[str]:
    shown = group if len(group) <= MOST else group[:MOST - 1]
    for found in shown:
        text = "\n".join(filter(None, (
            printable(found.message), found.fix and f"fix: {printable(found.fix)}")))
        yield _command(kind, f"apexlab verify: {found.code}", text)
    rest = group[len(shown):]
    if rest:
        codes = ", ".join(dict.fromkeys(found.code for found in rest))
        yield _command(kind, f"apexlab verify: {len(rest)} more", f"Also found: {codes}.")


def _command(kind: str, title: str, text: str) -> str:
    named = _data(printable(title)).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={named}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def step_summary(report: Report, room: int) -> str:
    """Markdown of at most `room` bytes; "" where not even the verdict has room."""
    head = "".join(_head(report))
    table = "".join(_table(report))
    findings = "".join(_findings(report.findings))
    for text in (head + table + findings, head + table + _more("findings"),
                 head + _more("extensions and findings")):
        if len(text.encode()) <= room:
            return text
    return ""


def _head(report: Report) -> Iterator[str]:
    yield f"### apexlab verify: {report.verdict.upper()}\n\n"
    yield f"{escaped(summary.headline(report))}\n\n{escaped(summary.environment(report))}\n\n"
    if report.model is not None:
        yield f"{escaped(summary.model(report.model))}\n\n"


def _more(what: str) -> str:
    return f"\nThe {what} are too long for this page; the step's log has them.\n"


def _table(report: Report) -> Iterator[str]:
    if not report.extensions:
        return
    yield "| extension | status | code for | proof |\n| --- | --- | --- | --- |\n"
    for one in report.extensions:
        cells = (_code(one.name), escaped(one.status), escaped(" ".join((*one.targets, *one.ptx))),
                 escaped(summary.proofs(one, len(report.environment.devices))))
        yield f"| {' | '.join(cells)} |\n"


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    for found in findings:
        yield f"\n- **{escaped(found.severity)}** {_code(found.code)} {escaped(found.message)}"
        yield f"<br>fix: {escaped(found.fix)}" if found.fix else ""
    yield "\n"


def _code(text: str) -> str:
    return f"<code>{escaped(text)}</code>"


def escaped(text: str) -> str:
    """The text as Markdown that shows it and does nothing else: an entity never marks up."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text))
