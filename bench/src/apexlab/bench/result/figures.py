"""The figures of one scenario, from the runs that count. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from apexlab.bench.planning.preset import Preset
from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.result import stats
from apexlab.bench.result.counted import Row, usable
from apexlab.bench.result.peaks import dtype_used, find_peak, mfu

MEMORY = ("allocated", "reserved", "active", "retries", "process")


def times(rows: Sequence[Row], preset: Preset, gpus: int) -> dict[str, Any]:
    """Over all blocks of all rounds."""
    if not rows:
        return dict.fromkeys(("time", "tokens_per_second", "samples_per_second"))
    blocks = [block for row in rows for block in row["result"]["blocks"]]
    found = stats.summary(blocks)
    rounds = [{"round": row["round"], "median": statistics.median(row["result"]["blocks"]),
               "blocks": list(row["result"]["blocks"])} for row in rows]
    samples = preset.batch * gpus / found.median
    times = {**asdict(found), "rounds": sorted(rounds, key=lambda each: each["round"])}
    return {"time": times, "tokens_per_second": samples * preset.shape.context,
            "samples_per_second": samples}


def resources(rows: Sequence[Row], preset: Preset, gpus: int) -> dict[str, Any]:
    """Peaks are the largest of all runs; the rest is the median of them."""
    results = [row["result"] for row in rows]
    memory = {key: _most((each.get("memory") or {}).get(key) for each in results)
              for key in MEMORY} if rows else None
    warm = _most(each.get("warmup_steps") for each in results)
    return {"memory": memory, "optimizer_peak": _most(map(_get("optimizer_peak"), results)),
            "energy": _energy(rows, preset.tokens * gpus), "telemetry": _telemetry(rows),
            "first_step_seconds": _middle(map(_get("first_step_seconds"), results)),
            "warmup_steps": warm, "data_wait": _middle(map(_get("data_wait"), results))}


def _energy(rows: Sequence[Row], tokens: int) -> dict[str, float] | None:
    """Of a whole step, over all GPUs; void blocks lie within the window as well."""
    steps = []
    for row in rows:
        result, joules = row["result"], (row.get("telemetry") or {}).get("energy_joules")
        blocks = len(result["blocks"]) + (result.get("void_blocks") or 0)
        if usable(joules):
            steps.append(joules / (blocks * result["steps_per_block"]))
    if not steps:
        return None
    joules = statistics.median(steps)
    return {"joules_per_step": joules, "joules_per_token": joules / tokens,
            "tokens_per_joule": tokens / joules}


def _telemetry(rows: Sequence[Row]) -> dict[str, Any] | None:
    all_ = [row["telemetry"] for row in rows if row.get("telemetry")]
    if not all_:
        return None
    found: dict[str, Any] = {"samples": sum(each.get("samples") or 0 for each in all_)}
    for key in ("sm_clock", "memory_clock", "power_watts", "temperature"):
        ranges = [each[key] for each in all_ if each.get(key)]
        found[key] = {"median": _middle(map(_get("median"), ranges)),
                      "min": min(map(_get("min"), ranges)),
                      "max": max(map(_get("max"), ranges))} if ranges else None
    joules = [each["energy_joules"] for each in all_ if each.get("energy_joules") is not None]
    return {**found, "throttle": sorted({name for each in all_ for name in each["throttle"]}),
            "energy_joules": sum(joules) if joules else None,
            "other_processes": max(each.get("other_processes") or 0 for each in all_)}


def rate(scenario: Scenario, rows: Sequence[Row], look: Row | None, preset: Preset,
         ) -> dict[str, Any]:
    """MFU, against the peak of the dtype that ran."""
    if not rows:
        return {"mfu": None, "mfu_peak": None}
    dtype = dtype_used(scenario.settings.precision, (look or {}).get("product_error"))
    peak = find_peak(rows[-1]["result"]["environment"].get("device"), dtype)
    seconds = statistics.median(block for row in rows for block in row["result"]["blocks"])
    return {"mfu": mfu(preset, seconds, peak), "mfu_peak": peak}


def scaling(rows: Sequence[Row], preset: Preset, gpus: int) -> dict[str, Any] | None:
    """Of a run on several: each step is one batch on each GPU, so that perfect scaling keeps the
    time of a step, and `efficiency` is its time on one GPU over that on all."""
    if gpus < 2 or not rows:
        return None
    by_rank: dict[int, list[float]] = {}
    ratios = []
    for row in rows:
        for rank in row["result"].get("ranks") or ():
            by_rank.setdefault(rank["rank"], []).extend(rank["blocks"])
        single = (row.get("single") or {}).get("blocks")
        if single:
            ratios.append(statistics.median(single) / statistics.median(row["result"]["blocks"]))
    ranks = [{"rank": rank, "seconds": statistics.median(blocks)}
             for rank, blocks in sorted(by_rank.items())]
    seconds = statistics.median(block for row in rows for block in row["result"]["blocks"])
    return {"per_gpu_tokens_per_second": preset.tokens / seconds,
            "efficiency": statistics.geometric_mean(ratios) if ratios else None,
            "slowest_rank": max(ranks, key=lambda each: each["seconds"])["rank"]
            if ranks else None, "ranks": ranks}


def _get(key: str) -> Callable[[Any], Any]:
    return lambda mapping: mapping.get(key)


def _most(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def _middle(values: Iterable[Any]) -> Any:
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
