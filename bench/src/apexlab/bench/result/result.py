"""The result of a training comparison, `apexlab.bench/1`: from a run's rows to what they say. Pure.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from apexlab.bench.model.shape import Shape
from apexlab.bench.planning.preset import Preset
from apexlab.bench.planning.scenario import Scenario, Step, differing, find_ladder, find_scenarios
from apexlab.bench.result import advice, stats
from apexlab.bench.result.counted import Counted, Row, count, paired
from apexlab.bench.result.scenario_result import Setting, entry
from apexlab.bench.result.verdicts import parity_verdicts
from apexlab.bench.result.warn import warnings

SCHEMA = "apexlab.bench/1"


def make_result(plan: Row, rows: Sequence[Row], apex: Row, record: Row | None) -> dict[str, Any]:
    """The whole document. `apex`: what is here of Apex; `record`: its build record.

    The same rows give the same result, whenever and wherever it is made.
    """
    counted = count(plan, rows)
    scenarios = find_scenarios(plan["scenarios"])
    noise = _noise(plan, counted)
    speed = _speeds(plan, counted, noise)
    at = Setting(plan, _preset(plan), counted, apex, speed,
                 parity_verdicts(plan, scenarios, counted))
    steps = steps_of(plan, scenarios)
    entries = [entry(scenario, step, at) for scenario, step in zip(scenarios, steps, strict=True)]
    found = {
        "schema": SCHEMA, "kind": "train", "version": plan["version"],
        "created": rows[-1].get("time") or plan["created"] if rows else plan["created"],
        "state": "complete" if counted.finished == plan["rounds"] else "partial",
        "configuration": plan["configuration"],
        "configuration_hash": plan["configuration_hash"], "plan": _plan(plan, counted),
        "environment": environment(plan, rows, apex, record), "record": record,
        "noise": noise, "scenarios": entries}
    found["warnings"] = warnings(found, rows)
    answers = advice.answers(found, speed)
    found["advice"] = advice.advice(answers)
    found["headline"] = advice.headline(answers, found)
    return dict(finite(found))


def steps_of(plan: Row, scenarios: Sequence[Scenario]) -> list[Step]:
    """How each scenario is read. Those that were named one by one are read as the ladder of all
    has them, and against the baseline where that would need one that is not there."""
    steps = {step.scenario: step for step in find_ladder(plan["ladder"] or "all").steps}
    names = {scenario.name for scenario in scenarios}
    baseline, = find_scenarios([plan["baseline"]])
    found = []
    for scenario in scenarios:
        step = steps[scenario.name]
        if step.against is not None and step.against not in names:
            step = Step(scenario.name, step.role, baseline.name, differing(scenario, baseline),
                        "against the baseline")
        found.append(step)
    return found


def finite(value: Any) -> Any:
    """The document with None for each number that JSON cannot hold: a loss can be NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def _preset(plan: Row) -> Preset:
    given = plan["preset"]
    return Preset(given["name"], Shape(**given["shape"]), given["batch"], 0)


def _noise(plan: Row, counted: Counted) -> dict[str, Any]:
    """The baseline against itself."""
    base, again = (counted.blocks(plan["baseline"], control) for control in (False, True))
    one, other = stats.shared_rounds(base, again)
    if not one:
        return {"noise": "unknown", "floor": None, "ratio": None, "low": None, "high": None}
    found = stats.control(one, other, plan["seed"])
    span = found.comparison.interval
    return {"noise": found.noise, "floor": found.floor if span else None,
            "ratio": found.comparison.ratio, "low": span and span.low, "high": span and span.high}


def _speeds(plan: Row, counted: Counted, noise: Row) -> advice.Speed:
    """Compares two scenarios by name. Without a known noise floor nothing is FAST or SLOW."""
    floor = math.inf if noise["floor"] is None else noise["floor"]

    @cache
    def speed(base: str, new: str) -> stats.Comparison | None:
        return paired(counted.blocks(base), counted.blocks(new), plan["seed"], plan["margin"],
                      floor)
    return speed


def _plan(plan: Row, counted: Counted) -> dict[str, Any]:
    keys = ("ladder", "scenarios", "baseline", "rounds", "seed", "margin", "quick", "preset",
            "gpus", "device", "timing", "data")
    return {**{key: plan[key] for key in keys}, "rounds_finished": counted.finished}


def environment(plan: Row, rows: Sequence[Row], apex: Row, record: Row | None) -> dict[str, Any]:
    """Of the baseline's last run, else of any process that said where it was."""
    here: dict[str, Any] = {}
    driver = image = None
    for row in rows:
        driver, image = row.get("driver") or driver, row.get("image") or image
        said = (row.get("result") or {}).get("environment") or {}
        if said and (not here or row.get("scenario") == plan["baseline"]):
            here = said
    uuid = here.get("uuid")
    keys = ("python", "torch", "cuda", "device", "capability", "cpu", "cores", "variables")
    base = ((record or {}).get("images") or {}).get("base")
    return {**{key: here.get(key) for key in keys}, "driver": driver or here.get("driver"),
            "gpu_id": hashlib.sha256(str(uuid).encode()).hexdigest()[:16] if uuid else None,
            "image": image or (base.get("digest") if isinstance(base, dict) else base),
            "apex": dict(apex)}
