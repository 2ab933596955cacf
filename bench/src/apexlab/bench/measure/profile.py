"""A trace of a few steps, for people: torch's profiler, NVTX ranges, and the capture range that
`nsys profile --capture-range=cudaProfilerApi` waits for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from apexlab.bench.model.graph import GraphStep
from apexlab.bench.model.step import Step

STEPS = 3
MOST_BYTES = 64 << 20
Batch = Callable[[], tuple[Tensor, Tensor]]


def write_trace(step: Step | GraphStep, data: Batch, device: torch.device, path: Path,
                ) -> tuple[str, list[Tensor]]:
    """The trace's path, with the ending that says how it is packed, and the losses. Chrome's
    format, for ui.perfetto.dev. Raises OSError, also for one that is too large to be opened."""
    activities = torch.profiler.ProfilerActivity
    wanted = [activities.CPU, *([activities.CUDA] if device.type == "cuda" else [])]
    with _captured(device), torch.profiler.profile(activities=wanted) as profile:
        losses = [_one(step, data, device, number) for number in range(STEPS)]
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    target = path if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    unfinished = target.with_name(f".{target.name}")
    # torch packs what ends like this, whatever stands before.
    profile.export_chrome_trace(str(unfinished))
    size = unfinished.stat().st_size
    if size > MOST_BYTES:
        unfinished.unlink()
        raise OSError(f"the trace has {size} bytes, and more than {MOST_BYTES} are not kept")
    os.replace(unfinished, target)  # noqa: PTH105
    return str(target), losses


def _one(step: Step | GraphStep, data: Batch, device: torch.device, number: int) -> Tensor:
    """One step in named ranges; a replayed graph is one range."""
    batch = data()
    with _range(f"step {number}", device):
        if isinstance(step, GraphStep):
            return step(*batch)
        with _range("forward", device):
            loss = step.forward(*batch)
        with _range("backward", device):
            step.backward(loss)
        with _range("optimizer", device):
            step.update()
        return loss.detach()


@contextlib.contextmanager
def _range(name: str, device: torch.device) -> Iterator[None]:
    """The same name for torch's profiler and for NVTX."""
    nvtx: Any = torch.cuda.nvtx.range(name) if device.type == "cuda" else contextlib.nullcontext()
    with torch.profiler.record_function(name), nvtx:
        yield


@contextlib.contextmanager
def _captured(device: torch.device) -> Iterator[None]:
    if device.type != "cuda":
        yield
        return
    torch.cuda.synchronize(device)
    torch.cuda.profiler.start()
    try:
        yield
    finally:
        torch.cuda.synchronize(device)
        torch.cuda.profiler.stop()
