"""The merged reports as one HTML page that needs no network and no script. Pure."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from apexlab.verify import summary
from apexlab.verify.cards import COLOURS, add_cards, add_finding, finished, make_cell
from apexlab.verify.html.elements import add, pairs
from apexlab.verify.merge import Merged, Node, Shared
from apexlab.verify.merge_text import lacking


def page(merged: Merged) -> str:
    """The whole page."""
    body = ET.Element("body")
    main = add(body, "main")
    place = add(main, "header", style=f"verdict {COLOURS.get(merged.verdict, 'soft')}")
    add(place, "h1", merged.verdict)
    add(place, "p", f"{merged.headline}.")
    add(place, "p", f"Exit code {merged.exit_code}.")
    _lacking(main, merged)
    _nodes(main, merged)
    _findings(main, merged.findings)
    if merged.nodes:
        add(main, "h2", "Each node")
    for node in merged.nodes:
        _node(main, node)
    add(body, "footer", "Written by apexlab verify merge. With --json it gives all of this, and "
                        "the reports themselves, as data.")
    return finished(f"{merged.verdict.upper()}: {merged.headline}", body)


def _lacking(body: ET.Element, merged: Merged) -> None:
    """What nothing is known of, before anything else."""
    for severity, text in lacking(merged):
        place = add(body, "section", style=f"finding {COLOURS[severity]}")
        head = add(place, "p")
        add(head, "span", severity, "word").tail = " "
        add(head, "span", text)


def _nodes(body: ET.Element, merged: Merged) -> None:
    if not merged.nodes:
        return
    add(body, "h2", "Nodes")
    add_cards(body, "Nodes", ("node", "verdict", "driver", "GPUs", "what was found"), ((
        make_cell(node.name, "name", "code"),
        make_cell(node.report.verdict, f"status {COLOURS.get(node.report.verdict, 'soft')}"),
        make_cell(node.report.environment.driver or ""),
        make_cell(summary.devices(node.report) or "none visible"),
        make_cell(summary.headline(node.report))) for node in merged.nodes))


def _findings(body: ET.Element, findings: tuple[Shared, ...]) -> None:
    add(body, "h2", "Findings", id="findings")
    if not findings:
        add(body, "p", "None.")
    for shared in findings:
        found = shared.finding
        add_finding(body, found.severity, found.code, (
            f"On {', '.join(shared.nodes)}.", found.message, found.fix and f"fix: {found.fix}"))


def _node(body: ET.Element, node: Node) -> None:
    report = node.report
    place = add(body, "details")
    head = add(place, "summary")
    add(head, "code", node.name)
    add(head, "span", f" {report.verdict}")
    pairs(place, (
        ("judged", f"{report.subject} ({report.kind})"), ("image", report.image or ""),
        ("built from", summary.source(report)), ("torch", report.environment.torch or "none"),
        ("Python", report.environment.python), ("made", report.created or ""),
        ("level", f"asked for {report.level_asked}, reached {report.level_reached}")))
    if report.extensions:
        gpus = len(report.environment.devices)
        add_cards(place, "Extensions", ("extension", "status", "code for", "proof"), ((
            make_cell(one.name, "name", "code"),
            make_cell(one.status, f"status {COLOURS.get(summary.style(report, one), 'soft')}"),
            make_cell(" ".join((*one.targets, *one.ptx)), "targets"),
            make_cell(summary.proofs(one, gpus), "proof-words")) for one in report.extensions))
