"""What a result says of one scenario. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apexlab.bench.planning.preset import Preset
from apexlab.bench.planning.scenario import Scenario, Step
from apexlab.bench.result import figures, stats
from apexlab.bench.result.counted import Counted, Row, ending, why
from apexlab.bench.result.flags import flags
from apexlab.bench.result.labels import label_of, proof_of, relabelled, title_of

TOP_KERNELS = 10
TF32 = "torch-tf32"


@dataclass(frozen=True)
class Setting:
    """What all scenarios of a run share. `speed` compares two of them by name, None where they
    share no round; `parity` is the verdict on a look's losses."""

    plan: Row
    preset: Preset
    counted: Counted
    apex: Row
    speed: Callable[[str, str], stats.Comparison | None]
    parity: Callable[[str], dict[str, Any]]

    @property
    def gpus(self) -> int:
        return int(self.plan["gpus"])


def entry(scenario: Scenario, step: Step, at: Setting) -> dict[str, Any]:
    """The scenario's part of the result. Fields that could not be measured are None."""
    name, counted = scenario.name, at.counted
    rows = _rows(name, counted)
    seen = _seen(counted, name)
    look = seen["result"] if seen else None
    proof = proof_of(scenario, [*([seen] if seen else []), *rows])
    state, reason = _state(name, counted, bool(rows))
    label = label_of(scenario, proof, at.apex) if rows or look else None
    found = {
        "name": name, "settings": scenario.switches, "role": step.role, "against": step.against,
        "changes": list(step.changes), "shows": relabelled(step.shows, at.apex["label"]),
        "state": state, "why": reason, "title": _title(scenario, proof, label, rows, at),
        "label": label, "proof": proof,
        **figures.times(rows, at.preset, at.gpus), **figures.resources(rows, at.preset, at.gpus),
        **figures.rate(scenario, rows, look, at.preset), **_looked(seen, label),
        "parity": at.parity(name), "losses": ((look or {}).get("parity") or {}).get("losses"),
        "gpus": figures.scaling(rows, at.preset, at.gpus)}
    found |= _compared(scenario, step, found, at)
    told = flags(scenario, found, rows, look, at.apex["label"], counted.finished)
    return {**found, "flags": told}


def _rows(name: str, counted: Counted) -> list[Row]:
    """The runs whose times are shown: those that count, and while no round does, the last one."""
    rows = list(counted.sound(name).values())
    if rows or counted.finished:
        return rows
    return [row for row in counted.spare if row["scenario"] == name and not row["control"]
            and ending(row) == "finished"][-1:]


def _title(scenario: Scenario, proof: Row, label: str | None, rows: list[Row],
           at: Setting) -> str:
    """Without a figure there is nothing to prove, and the name says what was to be measured."""
    if rows:
        return title_of(scenario, proof, label)
    here = at.apex["label"]
    return title_of(scenario, proof, here) if here else scenario.name


def _seen(counted: Counted, name: str) -> Row | None:
    """The row of a look that came to its end."""
    row = counted.looks.get(name)
    return row if row and row["result"]["ending"] == "finished" else None


def _state(name: str, counted: Counted, measured: bool) -> tuple[str, str]:
    """`measured` in all rounds that count, `partial` in some, else why there is nothing."""
    rows = [row for run, of in counted.runs.items() if run.scenario == name and not run.control
            for row in of.values()]
    bad = [row for row in rows if ending(row) != "finished"]
    if measured and not bad:
        alone = counted.finished > 0
        return ("measured", "") if alone else ("partial", "Its only round was interrupted.")
    if measured and bad:
        at = ", ".join(str(row["round"] + 1) for row in bad)
        return "partial", f"It failed in round {at}: {why(bad[0])}"
    bad += [row for row in counted.spare if row["scenario"] == name and ending(row) != "finished"]
    if look := counted.looks.get(name):
        bad += [look] if look["result"]["ending"] != "finished" else []
    if not bad:
        return "partial", "The run was interrupted before it was timed."
    missing = all(row["result"]["ending"] == "unavailable" for row in bad)
    worst = next(row for row in bad if missing or row["result"]["ending"] != "unavailable")
    return ("not-available" if missing else "failed"), why(worst)


def _looked(row: Row | None, label: str | None) -> dict[str, Any]:
    look = row["result"] if row else {}
    keys = ("phases", "gpu_busy", "kernels_per_step", "attention", "norm_dtypes",
            "optimizer_state", "syncs", "warnings")
    return {**{key: look.get(key) for key in keys},
            "apex_share": row.get("apex_share") if row and label else None,
            "top_kernels": list((row or {}).get("owners") or ())[:TOP_KERNELS]}


def _compared(scenario: Scenario, step: Step, found: Row, at: Setting) -> dict[str, Any]:
    """No ratio where the losses are wrong, on either side. TF32 is the second baseline: the first
    one is as slow as it is because it uses no tensor cores."""
    def against(other: str | None) -> dict[str, Any] | None:
        if other in (None, scenario.name) or other not in at.plan["scenarios"]:
            return None
        if "fail" in (found["parity"]["verdict"], at.parity(str(other))["verdict"]):
            return None
        return comparison(at.speed(str(other), scenario.name))

    return {"speedup": against(at.plan["baseline"]), "speedup_over_tf32": against(TF32),
            "step": against(step.against)}


def comparison(found: stats.Comparison | None) -> dict[str, Any] | None:
    """A comparison as it is written down; an interval that there is not is None twice."""
    if found is None:
        return None
    span = found.interval
    return {"ratio": found.ratio, "low": span and span.low, "high": span and span.high,
            "verdict": found.verdict, "margin": found.margin, "floor": found.floor,
            "rounds": list(found.rounds)}
