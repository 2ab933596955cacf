"""The report as one HTML page that needs no network and no script. Pure.

Built as a tree of elements, so that every name and message is escaped when it is written: they come
from the very files that are judged.
"""

from __future__ import annotations

from dataclasses import asdict
from xml.etree import ElementTree as ET

from apexlab.verify import summary
from apexlab.verify.cards import COLOURS, add_cards, add_finding, finished, make_cell
from apexlab.verify.html.elements import add, data, link, pairs
from apexlab.verify.render import printable
from apexlab.verify.report import (
    PROVEN,
    WRONG,
    ExtensionReport,
    Finding,
    Kernel,
    ModelReport,
    Proof,
    Report,
)


def page(report: Report) -> str:
    """The whole page."""
    body = ET.Element("body")
    main = add(body, "main")
    _verdict(main, report)
    _environment(main, report)
    _extensions(main, report)
    _findings(main, report.findings)
    if report.model is not None:
        _model(main, report.model)
    _record(main, report)
    add(body, "footer", "Written by apexlab verify. The JSON report (--json) has all of it as "
                        "data.")
    return finished(f"{report.verdict.upper()}: {report.subject}", body)


def _verdict(body: ET.Element, report: Report) -> None:
    place = add(body, "header", style=f"verdict {COLOURS.get(report.verdict, 'soft')}")
    add(place, "h1", report.verdict)
    add(place, "p", summary.headline(report))
    took = "" if report.seconds is None else f", after {report.seconds:.1f} s"
    add(place, "p", f"Level asked for: {report.level_asked}; reached: {report.level_reached}. "
                    f"Exit code {report.exit_code}{took}.")
    count = len(report.findings)
    if count:
        link(add(place, "p"), f"{count} finding{'' if count == 1 else 's'}", "#findings")


def _environment(body: ET.Element, report: Report) -> None:
    add(body, "h2", "Environment")
    here = report.environment
    pairs(body, (
        ("judged", f"{report.subject} ({report.kind})"), ("built from", summary.source(report)),
        ("GPU", summary.devices(report) or "none visible"),
        ("driver", here.driver or ("unknown" if here.devices else "none")),
        ("torch", here.torch or "none"), ("CUDA of torch", here.cuda or "none"),
        ("Python", here.python), ("instruments that see launches", ", ".join(here.instruments))))


_PROOF_COLUMNS = (
    "call", "type", "how", "GPU", "verdict", "error", "limit", "kernels that ran")


def _extensions(body: ET.Element, report: Report) -> None:
    if not report.extensions:
        return
    gpus = len(report.environment.devices)
    add(body, "h2", "Extensions")
    add_cards(body, "Extensions", ("extension", "status", "kernels", "code for", "proof"), ((
        make_cell(one.name, "name", "code"),
        make_cell(one.status, f"status {COLOURS.get(summary.style(report, one), 'soft')}"),
        make_cell("" if one.kernels is None else str(one.kernels), "number"),
        make_cell(" ".join((*one.targets, *one.ptx)), "targets"),
        make_cell(summary.proofs(one, gpus), "proof-words"),
    ) for one in report.extensions))
    add(body, "h2", "Evidence")
    for one in report.extensions:
        _evidence(body, one)


def _evidence(body: ET.Element, one: ExtensionReport) -> None:
    place = add(body, "details")
    head = add(place, "summary")
    add(head, "code", one.name).tail = f" {printable(_count(one.proofs))}"
    pairs(place, (
        ("expected", f"{'yes' if one.expected else 'no'}: {one.why}"), ("file", one.path or ""),
        ("sha256", one.sha256 or ""), ("needs", ", ".join(one.needed)),
        ("CUDA", str(one.cuda_major or "")), ("C++ ABI", one.cxx_abi if one.path else "")))
    if not one.proofs:
        return
    add_cards(place, "Calls", _PROOF_COLUMNS, ((
        make_cell(proof.api, "name"), make_cell(proof.numerics.dtype), make_cell(proof.condition),
        make_cell(proof.device),
        make_cell(proof.verdict, f"status {COLOURS.get(proof.verdict, 'bad')}"),
        make_cell(_error(proof), "number"), make_cell(f"{proof.numerics.limit:g}", "number"),
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
    cell = make_cell(proof.message)
    if proof.grade != "kernel" and not proof.kernels and not proof.message:
        cell.text = "called and right; its kind has no kernels of its own to see"
    if proof.kernels:
        place = add(cell, "ul")
        for kernel in proof.kernels:
            item = add(place, "li")
            add(item, "code", kernel.name).tail = printable(_whose(kernel))
    return cell


def _whose(kernel: Kernel) -> str:
    also = f", by its name also in {', '.join(kernel.also_in)}" if kernel.also_in else ""
    return f" × {kernel.count}, {'the extension’s' if kernel.in_extension else 'not its own'}{also}"


def _findings(body: ET.Element, findings: tuple[Finding, ...]) -> None:
    add(body, "h2", "Findings", id="findings")
    for found in findings:
        add_finding(body, found.severity, found.code,
                    (found.message, found.fix and f"fix: {found.fix}"))
    if not findings:
        add(body, "p", "None.")


def _model(body: ET.Element, model: ModelReport) -> None:
    add(body, "h2", "Your model")
    add(body, "p", f"{summary.model(model)}.")
    used = [(one, "norm") for one in model.norms]
    if model.optimizer is not None:
        used.append((model.optimizer, "optimizer"))
    if used:
        add_cards(body, "Norms and optimizer", ("class", "used as", "count", "from"), ((
            make_cell(one.name, tag="code"), make_cell(role), make_cell(str(one.count), "number"),
            make_cell("Apex" if one.apex else "not Apex")) for one, role in used))
    if model.kernels:
        add(body, "p", f"The first {len(summary.top_kernels(model))} of {len(model.kernels)} "
                       "kernels of one training step:")
        add_cards(body, "Kernels of a training step", ("kernel", "launches", "time", "from"), ((
            make_cell(one.name, tag="code"), make_cell(str(one.count), "number"),
            make_cell(summary.time_share(model, one), "number"),
            make_cell(one.extension or "not Apex")) for one in summary.top_kernels(model)))


def _record(body: ET.Element, report: Report) -> None:
    add(body, "h2", "Build record")
    if report.record is None:
        add(body, "p", "There is none.")
        return
    data(body, f"{summary.source(report)}, from {report.record_path or 'the caller'}",
         asdict(report.record))
