"""From what the profiler shows on the GPU's lane to a time for each call. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

# What is shown there and is no kernel.
NO_KERNELS = ("Memset ", "Memcpy ", "Stream Wait Event", "Event Sync", "Context Sync",
              "Stream Sync")


@dataclass(frozen=True)
class Ran:
    """One thing that the GPU ran: when it began, and for how long, in microseconds."""

    name: str
    start: float
    us: float


def split(lane: Iterable[Ran], mark: str, ignored: Collection[str]) -> list[float]:
    """The kernel time of each call: all between two marks, without the kernels that are `ignored`.
    What ran before the first mark belongs to no call."""
    totals: list[float] = []
    for one in sorted(lane, key=lambda one: one.start):
        if one.name == mark:
            totals.append(0.0)
        elif totals and one.name not in ignored:
            totals[-1] += one.us
    return totals
