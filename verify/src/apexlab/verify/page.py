"""The report as one HTML page that needs no network and no script. Pure.

Built as a tree of elements, so that every name and message is escaped when it is written: they come
from the very files that are judged.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib import resources
from string import Template
from xml.etree import ElementTree as ET

from apexlab.verify import summary
from apexlab.verify.render import printable
from apexlab.verify.report import (
    ERROR,
    FALLBACK,
    INCOMPLETE,
    PROVEN,
    WARNING,
    WRONG,
    ExtensionReport,
    Finding,
    Kernel,
    ModelReport,
    Proof,
    Report,
)

_COLOURS = {
    "ok": "good", "proven": "good", "present": "good", "loaded": "good",
    "broken": "bad", "absent": "bad", ERROR: "bad", "wrong-numbers": "bad",
    FALLBACK: "mid", INCOMPLETE: "mid", WARNING: "mid", "blind": "mid",
}  # fmt: skip


def page(report: Report) -> str:
    """The whole page."""
    body = ET.Element("body")
    _verdict(body, report)
    _environment(body, report)
    _extensions(body, report)
    _findings(body, report.findings)
    if report.model is not None:
        _model(body, report.model)
    _record(body, report)
    _add(body, "footer", "Written by apexlab verify. The JSON report (--json) has all of it as "
                         "data.")
    template = resources.files("apexlab.verify") / "page.html"
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=html.escape(printable(f"{report.verdict.upper()}: {report.subject}")),
        body=str(ET.tostring(body, encoding="utf-8", method="html"), "utf-8"))


def _add(parent: ET.Element, tag: str, text: str = "", style: str = "", label: str = "",
         ) -> ET.Element:
    """A new element under `parent`; `style` is its class."""
    attributes = {"class": style, "data-label": label}
    new = ET.SubElement(parent, tag, {key: value for key, value in attributes.items() if value})
    new.text = printable(text) or None
    return new


def _verdict(body: ET.Element, report: Report) -> None:
    place = _add(body, "header", style=f"verdict {_COLOURS.get(report.verdict, 'soft')}")
    _add(place, "h1", report.verdict)
    _add(place, "p", summary.headline(report))
    took = "" if report.seconds is None else f", after {report.seconds:.1f} s"
    _add(place, "p", f"Level asked for: {report.level_asked}; reached: {report.level_reached}. "
                     f"Exit code {report.exit_code}{took}.")
    count = len(report.findings)
    if count:
        last = _add(place, "p")
        _add(last, "a", f"{count} finding{'' if count == 1 else 's'}").set("href", "#findings")


def _environment(body: ET.Element, report: Report) -> None:
    _add(body, "h2", "Environment")
    here = report.environment
    _pairs(body, (
        ("judged", f"{report.subject} ({report.kind})"), ("built from", summary.source(report)),
        ("GPU", summary.devices(report) or "none visible"),
        ("driver", here.driver or ("unknown" if here.devices else "none")),
        ("torch", here.torch or "none"), ("CUDA of torch", here.cuda or "none"),
        ("Python", here.python), ("instruments that see launches", ", ".join(here.instruments))))


def _pairs(parent: ET.Element, pairs: Iterable[tuple[str, str]]) -> None:
    """A list of names and values; what has no value is left out."""
    place = _add(parent, "dl")
    for name, value in pairs:
        if value:
            _add(place, "dt", name)
            _add(place, "dd", value)


def _table(parent: ET.Element, columns: tuple[str, ...], rows: Iterable[Iterable[ET.Element]],
           ) -> None:
    """A table of cells made by `_cell`; on a phone each row becomes a card with labels."""
    table = _add(parent, "table")
    head = _add(_add(table, "thead"), "tr")
    for column in columns:
        _add(head, "th", column, "number" if column in _NUMBERS else "")
    place = _add(table, "tbody")
    for cells in rows:
        row = _add(place, "tr")
        for column, cell in zip(columns, cells, strict=True):
            cell.set("data-label", column)
            if column in _BRIEF:
                cell.set("class", f"{cell.get('class', '')} brief".strip())
            row.append(cell)


_PROOF_COLUMNS = (
    "call", "type", "how", "GPU", "verdict", "error", "limit", "kernels that ran")
_NUMBERS = ("kernels", "error", "limit", "count", "launches", "time")
# On a phone these cells sit side by side.
_BRIEF = (*_NUMBERS, "status", "type", "GPU", "verdict", "used as", "from")


def _cell(text: str, style: str = "", tag: str = "") -> ET.Element:
    """A table cell; with `tag` its text sits in an element of its own."""
    cell = ET.Element("td", {"class": style} if style else {})
    if tag:
        _add(cell, tag, text)
    else:
        cell.text = printable(text) or None
    return cell


def _extensions(body: ET.Element, report: Report) -> None:
    if not report.extensions:
        return
    gpus = len(report.environment.devices)
    _add(body, "h2", "Extensions")
    _table(body, ("extension", "status", "kernels", "code for", "proof"), ((
        _cell(one.name, "name", "code"),
        _cell(one.status, f"status {_COLOURS.get(summary.style(report, one), 'soft')}"),
        _cell("" if one.kernels is None else str(one.kernels), "number"),
        _cell(" ".join((*one.targets, *one.ptx)), "targets"),
        _cell(summary.proofs(one, gpus), "proof-words"),
    ) for one in report.extensions))
    _add(body, "h2", "Evidence")
    for one in report.extensions:
        _evidence(body, one)


def _evidence(body: ET.Element, one: ExtensionReport) -> None:
    place = _add(body, "details")
    head = _add(place, "summary")
    _add(head, "code", one.name).tail = f" {printable(_count(one.proofs))}"
    _pairs(place, (
        ("expected", f"{'yes' if one.expected else 'no'}: {one.why}"), ("file", one.path or ""),
        ("sha256", one.sha256 or ""), ("needs", ", ".join(one.needed)),
        ("CUDA", str(one.cuda_major or "")), ("C++ ABI", one.cxx_abi if one.path else "")))
    if not one.proofs:
        return
    _table(place, _PROOF_COLUMNS, ((
        _cell(proof.api, "name"), _cell(proof.numerics.dtype), _cell(proof.condition),
        _cell(proof.device), _cell(proof.verdict, f"status {_COLOURS.get(proof.verdict, 'bad')}"),
        _cell(_error(proof), "number"), _cell(f"{proof.numerics.limit:g}", "number"),
        _kernels(proof)) for proof in one.proofs))


def _count(proofs: tuple[Proof, ...]) -> str:
    if not proofs:
        return "was not called"
    good = sum(proof.verdict == PROVEN for proof in proofs)
    return f"{good} of {len(proofs)} calls proven"


def _error(proof: Proof) -> str:
    compared = proof.numerics.max_error is not None or proof.verdict == WRONG
    return summary.error(proof.numerics.max_error) if compared else ""


def _kernels(proof: Proof) -> ET.Element:
    cell = _cell(proof.message)
    if proof.grade != "kernel" and not proof.kernels and not proof.message:
        cell.text = "called and right; its kind has no kernels of its own to see"
    if proof.kernels:
        place = _add(cell, "ul")
        for kernel in proof.kernels:
            item = _add(place, "li")
            _add(item, "code", kernel.name).tail = printable(_whose(kernel))
    return cell


def _whose(kernel: Kernel) -> str:
    also = f", by its name also in {', '.join(kernel.also_in)}" if kernel.also_in else ""
    return f" × {kernel.count}, {'the extension’s' if kernel.in_extension else 'not its own'}{also}"


def _findings(body: ET.Element, findings: Iterable[Finding]) -> None:
    _add(body, "h2", "Findings").set("id", "findings")
    found = None
    for found in findings:
        place = _add(body, "section", style=f"finding {_COLOURS.get(found.severity, 'soft')}")
        head = _add(place, "p")
        _add(head, "span", found.severity, "word").tail = " "
        _add(head, "code", found.code)
        _add(place, "p", found.message)
        if found.fix:
            _add(place, "p", f"fix: {found.fix}")
    if found is None:
        _add(body, "p", "None.")


def _model(body: ET.Element, model: ModelReport) -> None:
    _add(body, "h2", "Your model")
    _add(body, "p", f"{summary.model(model)}.")
    used = [(one, "norm") for one in model.norms]
    if model.optimizer is not None:
        used.append((model.optimizer, "optimizer"))
    if used:
        _table(body, ("class", "used as", "count", "from"), ((
            _cell(one.name, tag="code"), _cell(role), _cell(str(one.count), "number"),
            _cell("Apex" if one.apex else "not Apex")) for one, role in used))
    if model.kernels:
        _add(body, "p", f"The first {len(summary.top_kernels(model))} of {len(model.kernels)} "
                        "kernels of one training step:")
        _table(body, ("kernel", "launches", "time", "from"), ((
            _cell(one.name, tag="code"), _cell(str(one.count), "number"),
            _cell(summary.time_share(model, one), "number"),
            _cell(one.extension or "not Apex")) for one in summary.top_kernels(model)))


def _record(body: ET.Element, report: Report) -> None:
    _add(body, "h2", "Build record")
    if report.record is None:
        _add(body, "p", "There is none.")
        return
    place = _add(body, "details")
    _add(place, "summary", f"{summary.source(report)}, from {report.record_path or 'the caller'}")
    # JSON escapes control characters itself, and its line breaks are wanted.
    _add(place, "pre").text = json.dumps(asdict(report.record), indent=2)
