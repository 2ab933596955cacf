"""The reports of many nodes as one judgement. Pure, but for `collect`, which reads a folder."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.verify import summary
from apexlab.verify.errors import CANNOT, OK, CannotError, worst
from apexlab.verify.report import (
    ERROR,
    FALLBACK,
    INCOMPLETE,
    INFO,
    WARNING,
    Finding,
    Report,
)
from apexlab.verify.report_file import UnreadError, read_report

SCHEMA = "apexlab.verify-merge/1"
VERDICTS = ("broken", "fallback", "incomplete", "ok", "proven")  # the worst first
_SEVERITIES = (ERROR, FALLBACK, INCOMPLETE, WARNING, INFO)
# What ought to be the same on all nodes of a cluster.
_SAME: tuple[tuple[str, Callable[[Report], str]], ...] = (
    ("build", summary.source), ("image", lambda one: one.image or "not named"),
    ("torch", lambda one: one.environment.torch or "none"),
    ("GPUs", lambda one: summary.devices(one) or "none visible"),
    ("driver", lambda one: one.environment.driver or "unknown"),
    ("level asked for", lambda one: one.level_asked))


@dataclass(frozen=True)
class Node:
    """A report, and the name of its node: the file's, in the folder, without `.json`."""

    name: str
    report: Report


@dataclass(frozen=True)
class Shared:
    """A finding, and the nodes that have it."""

    finding: Finding
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """What is not the same on all nodes: each value with its nodes, the most frequent first."""

    what: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Merged:
    """All nodes. `unread` are files with why they are no report, `copies` files with the file that
    they repeat; `expected` how many nodes there should be, None where nobody said."""

    nodes: tuple[Node, ...]
    unread: tuple[tuple[str, str], ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    expected: int | None = None

    @property
    def exit_code(self) -> int:
        codes = [node.report.exit_code for node in self.nodes]
        return worst([*codes, CANNOT if self.unread or self.miscounted or not codes else OK])

    @property
    def verdict(self) -> str:
        """The worst of the nodes'; a node that nothing is known of makes it incomplete."""
        found = {node.report.verdict for node in self.nodes}
        if self.unread or self.miscounted or not found:
            found.add("incomplete")
        return next(word for word in VERDICTS if word in found)

    @property
    def miscounted(self) -> str:
        """What is wrong with the number of nodes; "" for nothing."""
        count = len(self.nodes)
        if self.expected is None or count == self.expected:
            return ""
        if count > self.expected:
            return (f"{count} reports are here and {self.expected} nodes were expected: the folder "
                    "also holds those of another run")
        return (f"{count} of {self.expected} nodes left a report that can be read: nothing is "
                "known of the others")

    @property
    def headline(self) -> str:
        """The sentence behind the verdict."""
        counted = [f"{sum(node.report.verdict == word for node in self.nodes)} {word}"
                   for word in VERDICTS if any(node.report.verdict == word for node in self.nodes)]
        unread = [f"{len(self.unread)} unreadable"] if self.unread else []
        count = f"{len(self.nodes)} node{'' if len(self.nodes) == 1 else 's'}"
        return f"{count}: {', '.join((*counted, *unread))}"

    @property
    def findings(self) -> tuple[Shared, ...]:
        """Each finding once, the gravest first."""
        nodes: dict[Finding, list[str]] = defaultdict(list)
        for node in self.nodes:
            for found in node.report.findings:
                nodes[found].append(node.name)
        order = sorted(nodes, key=lambda found: _grave(found.severity))
        return tuple(Shared(found, tuple(dict.fromkeys(nodes[found]))) for found in order)

    @property
    def differences(self) -> tuple[Difference, ...]:
        return tuple(_differences(self.nodes))

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values; the reports are in it, whole."""
        return {
            "schema": SCHEMA, "verdict": self.verdict, "exit_code": self.exit_code,
            "expected": self.expected, "miscounted": self.miscounted or None,
            "unread": [{"file": file, "reason": reason} for file, reason in self.unread],
            "copies": [{"file": file, "of": of} for file, of in self.copies],
            "differences": [
                {"what": one.what, "values": [{"value": value, "nodes": list(nodes)}
                                              for value, nodes in one.values]}
                for one in self.differences],
            "findings": [
                {"code": one.finding.code, "severity": one.finding.severity,
                 "message": one.finding.message, "fix": one.finding.fix, "nodes": list(one.nodes)}
                for one in self.findings],
            "nodes": [{"name": node.name, "report": node.report.to_dict()} for node in self.nodes],
        }  # fmt: skip


def _grave(severity: str) -> int:
    return _SEVERITIES.index(severity) if severity in _SEVERITIES else -1


def _differences(nodes: tuple[Node, ...]) -> Iterator[Difference]:
    for what, value_of in _SAME:
        names: dict[str, list[str]] = defaultdict(list)
        for node in nodes:
            names[value_of(node.report)].append(node.name)
        if len(names) > 1:
            by_count = sorted(names.items(), key=lambda one: -len(one[1]))
            yield Difference(what, tuple((value, tuple(who)) for value, who in by_count))


def collect(folder: Path, expected: int | None = None) -> Merged:
    """All `.json` files in `folder` and below. Raises CannotError where there is none."""
    unread: list[tuple[str, str]] = []
    files = sorted(_files(folder, unread))
    if not files and not unread:
        raise CannotError(f"There is no report (*.json) in {folder}. Write one there on each node: "
                          "apexlab verify --json > DIR/$(hostname).json")
    nodes: list[Node] = []
    copies: list[tuple[str, str]] = []
    seen: dict[bytes, str] = {}
    for path in files:
        name = path.relative_to(folder).as_posix()
        try:
            report = read_report(path)
        except UnreadError as error:
            unread.append((name, str(error)))
            continue
        # Two runs differ in their times at least; a copy may be indented in another way.
        first = seen.setdefault(hashlib.sha256(report.to_json().encode()).digest(), name)
        if first != name:
            copies.append((name, first))
        else:
            nodes.append(Node(name[:-len(".json")], report))
    return Merged(tuple(nodes), tuple(unread), tuple(copies), expected)


def _files(folder: Path, unread: list[tuple[str, str]]) -> Iterator[Path]:
    """What is named like a report; `unread` gets each folder that nobody may look into."""
    def refused(error: OSError) -> None:
        name = Path(error.filename).relative_to(folder).as_posix()
        unread.append((name, f"the folder cannot be opened: {error.strerror}"))

    for place, folders, files in os.walk(folder, onerror=refused):
        yield from (Path(place, name) for name in (*folders, *files)
                    if name.lower().endswith(".json") and not name.startswith("."))
