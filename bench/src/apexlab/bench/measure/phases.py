"""How a step's time splits, in a pass of its own: marks between its parts cost a little.

forward: the loss, in autocast. backward: the gradients. optimizer: `optimizer.step()`, with the
unscaling where the optimizer brings its own; without a scaler also clipping and dropping the
gradients. scaler: scaling the loss, and all of the update that is not `optimizer.step()`: the
unscaling pass over the gradients, its check for infinities, waiting for the answer, the new scale.

On a GPU its own clock counts: where the host is late, its delay falls where the GPU waited.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from apexlab.bench.model.step import Step

STEPS, LEAST, SECONDS = 10, 3, 1.5
NAMES = ("forward", "backward", "optimizer", "scaler")
Batch = Callable[[], tuple[Tensor, Tensor]]


class Clock(Protocol):
    """`mark` a moment; then the seconds between two marks."""

    def mark(self) -> Any: ...
    def between(self, one: Any, other: Any) -> float: ...


class HostClock:
    def mark(self) -> float:
        return time.perf_counter()

    def between(self, one: float, other: float) -> float:
        return other - one


class GpuClock:
    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, one: Any, other: Any) -> float:
        return float(one.elapsed_time(other)) / 1000


class Phases:
    """The parts of a step by the clock of its device. `losses` are those of all its steps."""

    def __init__(self, step: Step, data: Batch) -> None:
        self.step, self.data = step, data
        self.clock: Clock = GpuClock() if step.device.type == "cuda" else HostClock()
        self.losses: list[Tensor] = []
        self._inside: list[Any] = []

    def medians(self, seconds: float) -> dict[str, Any]:
        """{"phases", "step_seconds"}: medians over as many steps as fit in a moment, where a step
        takes about `seconds`. Steps that the scaler skipped are left out."""
        count = max(LEAST, min(STEPS, math.ceil(SECONDS / max(seconds, 1e-6))))
        hooks = (self.step.optimizer.register_step_pre_hook(self._note),
                 self.step.optimizer.register_step_post_hook(self._note))
        try:
            marks = [self._one() for _ in range(count)]
            if self.step.device.type == "cuda":
                torch.cuda.synchronize(self.step.device)
        finally:
            for hook in hooks:
                hook.remove()
        rows = [self._split(one) for one in marks if len(one["optimizer"]) == 2]
        if not rows:
            return {"phases": None, "step_seconds": None}
        found = {name: statistics.median(row[name] for row in rows) for name in (*NAMES, "whole")}
        phases: dict[str, float | None] = {name: found[name] for name in NAMES}
        if self.step.scaler is None:
            phases["scaler"] = None
        return {"phases": phases, "step_seconds": found["whole"]}

    def _note(self, *_: Any) -> None:
        self._inside.append(self.clock.mark())

    def _one(self) -> dict[str, Any]:
        """One step, and its marks."""
        step, mark = self.step, self.clock.mark
        batch, self._inside = self.data(), []
        begin = mark()
        loss = step.forward(*batch)
        forward = mark()
        # What Step.backward does, with a mark in its middle.
        scaled = loss if step.scaler is None else step.scaler.scale(loss)
        ready = mark()
        scaled.backward()
        backward = mark()
        step.update()
        end = mark()
        self.losses.append(loss.detach())
        return {"outside": (begin, forward, ready, backward, end), "optimizer": self._inside}

    def _split(self, marks: dict[str, Any]) -> dict[str, float]:
        between = self.clock.between
        begin, forward, ready, backward, end = marks["outside"]
        optimizer = between(*marks["optimizer"])
        rest = between(forward, ready) + between(backward, end) - optimizer
        if self.step.scaler is None:
            optimizer, rest = optimizer + rest, 0.0
        return {"forward": between(begin, forward), "backward": between(ready, backward),
                "optimizer": optimizer, "scaler": rest, "whole": between(begin, end)}
