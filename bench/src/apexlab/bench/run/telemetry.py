"""What a GPU did while a process measured: judged here, sampled in nvml.py. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from apexlab.bench.planning.rounds import Cause

# NVML's bits of the reasons for which clocks are lower than they could be.
REASONS = {
    0x1: "gpu-idle", 0x2: "applications-clocks-setting", 0x4: "sw-power-cap", 0x8: "hw-slowdown",
    0x10: "sync-boost", 0x20: "sw-thermal-slowdown", 0x40: "hw-thermal-slowdown",
    0x80: "hw-power-brake-slowdown", 0x100: "display-clock-setting"}
CAUSES: dict[str, Cause] = {
    "sw-thermal-slowdown": "thermal-slowdown", "hw-thermal-slowdown": "thermal-slowdown",
    "hw-slowdown": "hardware-slowdown", "hw-power-brake-slowdown": "hardware-slowdown",
    "sw-power-cap": "power-cap"}
MEASURES = ("sm_clock", "memory_clock", "power_watts", "temperature")


@dataclass(frozen=True)
class Sample:
    """One look at one GPU, at `time` (CLOCK_MONOTONIC, seconds). Clocks in MHz, temperature in
    degrees Celsius, `energy_joules` a counter that only grows, `processes` the numbers of those
    that compute there; None for what this GPU does not tell."""

    time: float
    sm_clock: float | None = None
    memory_clock: float | None = None
    power_watts: float | None = None
    temperature: float | None = None
    throttle: int = 0
    energy_joules: float | None = None
    processes: frozenset[int] = frozenset()


def sliced(gpus: Sequence[Sequence[Sample]], window: Sequence[float], own: int,
           ) -> dict[str, Any] | None:
    """What the GPUs of a run did in its window: their energy added up, everything else over all of
    them. `own`: how many of the processes on them belong to the run. None without a sample."""
    start, end = window
    inside = [sample for samples in gpus for sample in samples if start <= sample.time <= end]
    if not inside:
        return None
    energies = [energy(samples, start, end) for samples in gpus]
    # At each moment, for a process of ours may be another one later.
    processes = max((len(frozenset[int]().union(*(each.processes for each in moment)))
                     for moment in zip(*gpus, strict=False) if start <= moment[0].time <= end),
                    default=0)
    bits = 0
    for sample in inside:
        bits |= sample.throttle
    return {
        "samples": len(inside), **{name: _spread(inside, name) for name in MEASURES},
        "throttle": names(bits),
        "energy_joules": None if None in energies else sum(e for e in energies if e is not None),
        "other_processes": max(0, processes - own)}


def names(bits: int) -> list[str]:
    """The reasons in words; a bit that no table has, by its value."""
    known = [name for bit, name in REASONS.items() if bits & bit]
    rest = bits & ~sum(REASONS)
    return [*known, *([f"unknown-{rest:#x}"] if rest else [])]


def energy(samples: Sequence[Sample], start: float, end: float) -> float | None:
    """Joules between two times, with the counter interpolated between its samples; None where it
    was not read before the one and after the other."""
    read = [(s.time, s.energy_joules) for s in samples if s.energy_joules is not None]
    first, last = _counter(read, start), _counter(read, end)
    # It starts anew when the driver is reloaded.
    return last - first if first is not None and last is not None and last >= first else None


def _counter(read: Sequence[tuple[float, float]], time: float) -> float | None:
    for (t0, e0), (t1, e1) in pairwise(read):
        if t0 <= time <= t1 and t1 > t0:
            return e0 + (e1 - e0) * (time - t0) / (t1 - t0)
    return None


def _spread(samples: Sequence[Sample], name: str) -> dict[str, float] | None:
    values = [value for sample in samples if (value := getattr(sample, name)) is not None]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)} \
        if values else None


def causes(found: Mapping[str, Any] | None) -> frozenset[Cause]:
    """What of it disturbs a measurement."""
    if found is None:
        return frozenset()
    contended: set[Cause] = {"contended"} if found["other_processes"] else set()
    return frozenset({CAUSES[name] for name in found["throttle"] if name in CAUSES} | contended)
