"""The tasks that a process is given, as JSON: the worker's whole knowledge of the plan."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from apexlab.bench.planning.plan import PARITY_STEPS, Plan
from apexlab.bench.planning.scenario import Scenario


def time_task(plan: Plan, scenario: Scenario, interposer: Path | None = None,
              gpus: int = 1) -> dict[str, Any]:
    """Measure: warm-up, blocks, memory."""
    return _task("time", plan, scenario, interposer, gpus)


def look_task(plan: Plan, scenario: Scenario, interposer: Path | None = None,
              trace: Path | None = None) -> dict[str, Any]:
    """Look at all that is not timed, and follow the loss."""
    return {**_task("look", plan, scenario, interposer, 1),
            "parity": {"steps": PARITY_STEPS[plan.device, plan.quick],
                       "baseline": scenario.name == plan.baseline},
            "trace": _text(trace)}


def _task(kind: str, plan: Plan, scenario: Scenario, interposer: Path | None,
          gpus: int) -> dict[str, Any]:
    return {
        "kind": kind, "scenario": scenario.name, "settings": asdict(scenario.settings),
        "shape": asdict(plan.preset.shape), "batch": plan.preset.batch, "seed": plan.seed,
        "data": dict(plan.data), "device": plan.device, "gpus": gpus,
        "timing": asdict(plan.timing), "interposer": _text(interposer), "trace": None}


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
