"""How much memory a step takes, in passes of its own after the blocks: nothing is asked of the
allocator while time is measured, and the optimizer's state is there by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from apexlab.bench.measure.data import Source
from apexlab.bench.model.graph import GraphStep

STEPS = 3
PEAKS = ("allocated", "reserved", "active")


def peaks(run: Callable[[int], Any], device: torch.device, retries_before: int | None,
          captured: Mapping[str, int | None] | None = None) -> dict[str, int | None]:
    """Peaks in bytes while `run(STEPS)` trains; `retries`: how often since `retries_before` the
    allocator had to empty its cache, which is slow. None for what a CPU does not tell.

    A replayed graph allocates nothing and works in what it got at its capture: `captured` is what
    was `read` then.
    """
    reset(device)
    run(STEPS)
    found = read(device)
    if captured:
        found |= {name: captured[name] for name in ("allocated", "active")}
    now = retries(device)
    since = None if now is None else now - (retries_before or 0)
    return {**found, "retries": since, "process": resident()}


def reset(device: torch.device) -> None:
    """Let the peaks begin anew."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)


def read(device: torch.device) -> dict[str, int | None]:
    """The peaks since `reset`."""
    if device.type != "cuda":
        return dict.fromkeys(PEAKS)
    torch.cuda.synchronize(device)
    stats = torch.cuda.memory_stats(device)
    return {name: int(stats[f"{name}_bytes.all.peak"]) for name in PEAKS}


def retries(device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    return int(torch.cuda.memory_stats(device)["num_alloc_retries"])


def optimizer_peak(step: Any, data: Source, device: torch.device) -> int | None:
    """Bytes allocated at the peak inside the update alone; None on a CPU and for a graph."""
    if device.type != "cuda" or isinstance(step, GraphStep):
        return None
    step.backward(step.forward(*data()))
    reset(device)
    step.update()
    return read(device)["allocated"]


def resident() -> int | None:
    """Bytes of this process in main memory, None where Linux does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), None)
