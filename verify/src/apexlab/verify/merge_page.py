"""The merged reports as one HTML page that needs no network and no script. Pure."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from apexlab.verify import summary
from apexlab.verify.elements import COLOURS, add, add_pairs, add_table, document, make_cell
from apexlab.verify.merge import Merged, Node, Shared
from apexlab.verify.merge_text import names


def page(merged: Merged) -> str:
    """The whole page."""
    body = ET.Element("body")
    place = add(body, "header", style=f"verdict {COLOURS.get(merged.verdict, 'soft')}")
    add(place, "h1", merged.verdict)
    add(place, "p", f"{merged.headline}.")
    add(place, "p", f"Exit code {merged.exit_code}.")
    _lacking(body, merged)
    _nodes(body, merged)
    _findings(body, merged.findings)
    if merged.nodes:
        add(body, "h2", "Each node")
    for node in merged.nodes:
        _node(body, node)
    add(body, "footer", "Written by apexlab verify merge. With --json it gives all of this, and "
                        "the reports themselves, as data.")
    return document(f"{merged.verdict.upper()}: {merged.headline}", body)


def _lacking(body: ET.Element, merged: Merged) -> None:
    """What nothing is known of, before anything else."""
    said = [(merged.miscounted, "incomplete")] if merged.miscounted else []
    said += [(f"{file} cannot be read: {reason}", "incomplete") for file, reason in merged.unread]
    said += [(f"{file} is {first} once more, byte for byte, so it counts as no node of its own",
              "warning") for file, first in merged.copies]
    for difference in merged.differences:
        parts = "; ".join(f"{value} on {names(who)}" for value, who in difference.values)
        said.append((f"The nodes differ in their {difference.what}: {parts}", "warning"))
    for text, severity in said:
        place = add(body, "section", style=f"finding {COLOURS[severity]}")
        head = add(place, "p")
        add(head, "span", severity, "word").tail = " "
        add(head, "span", f"{text}.")


def _nodes(body: ET.Element, merged: Merged) -> None:
    if not merged.nodes:
        return
    add(body, "h2", "Nodes")
    add_table(body, ("node", "verdict", "driver", "GPUs", "what was found"), ((
        make_cell(node.name, "name", "code"),
        make_cell(node.report.verdict, f"status {COLOURS.get(node.report.verdict, 'soft')}"),
        make_cell(node.report.environment.driver or ""),
        make_cell(summary.devices(node.report) or "none visible"),
        make_cell(summary.headline(node.report))) for node in merged.nodes))


def _findings(body: ET.Element, findings: tuple[Shared, ...]) -> None:
    add(body, "h2", "Findings").set("id", "findings")
    if not findings:
        add(body, "p", "None.")
    for shared in findings:
        found = shared.finding
        place = add(body, "section", style=f"finding {COLOURS.get(found.severity, 'soft')}")
        head = add(place, "p")
        add(head, "span", found.severity, "word").tail = " "
        add(head, "code", found.code)
        add(place, "p", f"On {', '.join(shared.nodes)}.")
        add(place, "p", found.message)
        if found.fix:
            add(place, "p", f"fix: {found.fix}")


def _node(body: ET.Element, node: Node) -> None:
    report = node.report
    place = add(body, "details")
    head = add(place, "summary")
    add(head, "code", node.name)
    add(head, "span", f" {report.verdict}")
    add_pairs(place, (
        ("judged", f"{report.subject} ({report.kind})"), ("image", report.image or ""),
        ("built from", summary.source(report)), ("torch", report.environment.torch or "none"),
        ("Python", report.environment.python), ("made", report.created or ""),
        ("level", f"asked for {report.level_asked}, reached {report.level_reached}")))
    if report.extensions:
        gpus = len(report.environment.devices)
        add_table(place, ("extension", "status", "code for", "proof"), ((
            make_cell(one.name, "name", "code"),
            make_cell(one.status, f"status {COLOURS.get(summary.style(report, one), 'soft')}"),
            make_cell(" ".join((*one.targets, *one.ptx)), "targets"),
            make_cell(summary.proofs(one, gpus), "proof-words")) for one in report.extensions))
