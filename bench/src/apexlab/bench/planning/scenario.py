"""Scenarios and ladders: what they are, and how they are found by name.

The rows are in scenario_table.py, and scenario_checks.py holds what must be true of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, Literal

from apexlab.bench.model.settings import Settings
from apexlab.verify.errors import UsageError

Role = Literal["rung", "own-part", "left-out", "control"]


@dataclass(frozen=True)
class Scenario:
    """One training configuration by name."""

    name: str
    settings: Settings

    @property
    def switches(self) -> dict[str, Any]:
        """Every switch with its value, nothing left to a default: for the result and its hash."""
        numbers = self.settings.numbers
        return {
            "dtype": numbers.weights, "autocast": numbers.autocast, "scaler": numbers.scaler,
            "tf32": numbers.tf32, "optimizer": self.settings.optimizer,
            # a captured step needs an optimizer that counts on the GPU, whoever wrote it
            "capturable": self.settings.graph or self.settings.optimizer == "apex-capturable",
            "norm": self.settings.norm, "compile": self.settings.compile,
            "graph": self.settings.graph, "clip": self.settings.clip,
            "adamw": asdict(self.settings.adamw),
        }

    @property
    def apex(self) -> tuple[str, ...]:
        """The parts of Apex that have to be proven before this scenario may carry its name."""
        return tuple(part for part in ("optimizer", "norm")
                     if getattr(self.settings, part).startswith("apex"))

    @property
    def gpu_only(self) -> tuple[str, ...]:
        """What of it is not available on a CPU; nothing when it can run there."""
        numbers = self.settings.numbers
        return tuple(what for what, used in (
            ("FP16", "float16" in (numbers.weights, numbers.autocast)), ("TF32", numbers.tf32),
            ("Apex", bool(self.apex)), ("a CUDA graph", self.settings.graph)) if used)


@dataclass(frozen=True)
class Step:
    """One scenario in a ladder. `against`: what it is read against, None for the baseline;
    `changes`: the settings in which the two differ, which are the causes of their ratio."""

    scenario: str
    role: Role
    against: str | None
    changes: tuple[str, ...]
    shows: str


@dataclass(frozen=True)
class Ladder:
    """Its first step is the baseline, which every round runs twice.

    Roles: `rung`; `own-part`, a rung with torch's own fused part; `left-out`, the top without one
    of its parts; `control`, without which the rungs cannot be read.
    """

    name: str
    steps: tuple[Step, ...]


@cache
def scenarios() -> dict[str, Scenario]:
    """Every scenario by name. Raises ValueError when the table contradicts itself."""
    from apexlab.bench.planning import scenario_table as table
    from apexlab.bench.planning.scenario_checks import check

    if findings := check(table.SCENARIOS, table.LADDERS):
        raise ValueError(" ".join(findings))
    return {scenario.name: scenario for scenario in table.SCENARIOS}


@cache
def ladders() -> dict[str, Ladder]:
    """The ladders by name; `all` holds each scenario once, as the first ladder has it."""
    from apexlab.bench.planning import scenario_table as table

    scenarios()
    merged: dict[str, Step] = {}
    for ladder in table.LADDERS:
        for step in ladder.steps:
            merged.setdefault(step.scenario, step)
    every = Ladder("all", tuple(merged.values()))
    return {ladder.name: ladder for ladder in (*table.LADDERS, every)}


def find_ladder(name: str) -> Ladder:
    """Raises UsageError for a name that no ladder has."""
    if name not in ladders():
        raise UsageError(unknown("ladder", name, ladders()))
    return ladders()[name]


def of_ladder(name: str) -> tuple[Scenario, ...]:
    """The scenarios of a ladder, its baseline first. Raises UsageError."""
    return find_scenarios(step.scenario for step in find_ladder(name).steps)


def find_scenarios(names: Iterable[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, in their order. Raises UsageError for a name that no scenario
    has, one that is given twice, or none at all."""
    wanted, known = list(names), scenarios()
    for name in wanted:
        if name not in known:
            raise UsageError(unknown("scenario", name, known))
        if wanted.count(name) > 1:
            raise UsageError(f"The scenario {name} is named twice. Name each once; the baseline is "
                             "run a second time by itself.")
    if not wanted:
        raise UsageError("No scenario is named. Name at least one, or choose a ladder.")
    return tuple(known[name] for name in wanted)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`There is no ladder 'clasic'. Did you mean classic? There are classic, ...`"""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"There is no {what} {name!r}.{meant} There are {', '.join(names)}."


def differing(one: Scenario, other: Scenario) -> tuple[str, ...]:
    """The settings in which two scenarios differ, in the order of the fields."""
    return tuple(field.name for field in fields(Settings)
                 if getattr(one.settings, field.name) != getattr(other.settings, field.name))
