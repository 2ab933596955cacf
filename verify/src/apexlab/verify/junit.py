"""The report as JUnit XML, for CI that reads nothing else. Pure.

It is red exactly when the command does not end with 0: what is broken or fell back is a failure,
what could not be checked an error, and skipped is what was allowed to stay unchecked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from apexlab.verify import summary
from apexlab.verify.render import printable
from apexlab.verify.report import (
    ERROR,
    FALLBACK,
    INCOMPLETE,
    ExtensionReport,
    Finding,
    Report,
)

CLASS = "apexlab.verify"


@dataclass(frozen=True)
class _Case:
    """One testcase; `outcome` is "failure", "error", "skipped" or "" for a pass."""

    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""
    details: str = ""


def junit(report: Report) -> str:
    """The XML document."""
    cases = [*(_extension(report, one) for one in report.extensions if one.expected),
             *(_whole(report, found) for found in _others(report))]
    if report.exit_code and not any(case.outcome in ("failure", "error") for case in cases):
        cases.append(_Case("verdict", "error", report.verdict, summary.headline(report)))
    counts = {kind: str(sum(case.outcome == word for case in cases)) for kind, word in (
        ("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))}
    time = f"{report.seconds or 0:.3f}"
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", {
        "name": CLASS, "tests": str(len(cases)), **counts, "time": time})
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(report):
        ET.SubElement(properties, "property", {"name": name, "value": printable(value)})
    for case in cases:
        _add(suite, case)
    ET.SubElement(suite, "system-out").text = "\n".join(
        map(printable, (f"{report.verdict}: {summary.headline(report)}",
                        summary.environment(report))))
    ET.indent(root)
    return str(ET.tostring(root, encoding="utf-8", xml_declaration=True), "utf-8") + "\n"


def _properties(report: Report) -> Iterable[tuple[str, str]]:
    yield from (("verdict", report.verdict), ("exit_code", str(report.exit_code)),
                ("level_asked", report.level_asked), ("level_reached", report.level_reached),
                ("subject", report.subject), ("source", summary.source(report)),
                ("python", report.environment.python),
                ("torch", report.environment.torch or "none"),
                ("gpus", summary.devices(report) or "none"))


def _add(suite: ET.Element, case: _Case) -> None:
    place = ET.SubElement(suite, "testcase", {
        "classname": CLASS, "name": printable(case.name), "time": "0"})
    details = "\n".join(map(printable, case.details.splitlines()))
    if case.outcome:
        ET.SubElement(place, case.outcome, {
            "type": case.kind, "message": printable(case.message)}).text = details or None
    elif details:
        ET.SubElement(place, "system-out").text = details


def _extension(report: Report, one: ExtensionReport) -> _Case:
    """The worst that is known of it decides; a pass takes the level that was asked for."""
    shared = (each for each in report.findings if one.name in each.extensions)
    found = {each.code: each for each in (*shared, *one.findings)}
    details = "\n".join(filter(None, (
        one.path, summary.proofs(one, len(report.environment.devices)),
        *(_said(each) for each in found.values()))))
    for severity in (ERROR, FALLBACK, INCOMPLETE):
        for each in found.values():
            if each.severity == severity:
                return _Case(one.name, _outcome(report, severity), each.code, each.message, details)
    if one.status in ("broken", "absent"):
        return _Case(one.name, "failure", one.status, f"{one.name} is {one.status}.", details)
    if not summary.reached(report, one):
        return _Case(one.name, "skipped", one.status,
                     f"{one.name} is {one.status}; asked for was the level {report.level_asked}.",
                     details)
    return _Case(one.name, details=details)


def _others(report: Report) -> Iterable[Finding]:
    """The findings that no testcase of an expected extension has."""
    expected = {one.name for one in report.extensions if one.expected}
    return (found for found in report.findings if not expected & set(found.extensions))


def _whole(report: Report, found: Finding) -> _Case:
    outcome = _outcome(report, found.severity)
    if not outcome:
        return _Case(f"{found.code} ({found.severity})", details=_said(found))
    return _Case(found.code, outcome, found.code, found.message, _said(found))


def _outcome(report: Report, severity: str) -> str:
    if severity in (ERROR, FALLBACK):
        return "failure"
    if severity == INCOMPLETE:
        return "error" if report.exit_code else "skipped"
    return ""


def _said(found: Finding) -> str:
    fix = f"\nfix: {found.fix}" if found.fix else ""
    return f"{found.severity}: {found.code}: {found.message}{fix}"
