"""Steps by the clock: a warm-up, then blocks of K steps.

Inside a block the host only calls steps: losses and events stay on the device and are read behind
it, nothing is printed, and nothing waits but the two synchronizations around the whole.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from apexlab.bench.errors import MeasureError
from apexlab.bench.measure.data import Source
from apexlab.bench.measure.ranks import Ranks
from apexlab.bench.planning.plan import Timing

VOID = 5  # blocks that may be measured again, in one run
Tell = Callable[[str, int], None]


class Training:
    """A step with its data. `done` counts its steps, from which a loss that is not a number gets
    its place; `first` and `last` are losses."""

    def __init__(self, step: Any, data: Source, device: torch.device) -> None:
        self.step, self.data, self.device = step, data, device
        self.done, self.first, self.last = 0, math.nan, math.nan

    def run(self, count: int, events: list[Any] | None = None) -> float:
        """Seconds for `count` steps. `events`: one more than steps, recorded around each."""
        self.synchronize()
        start = time.perf_counter()
        losses = self.steps(count, events) if events else self.bare_steps(count)
        self.synchronize()
        seconds = time.perf_counter() - start
        self.note(losses)
        return seconds

    def steps(self, count: int, events: list[Any]) -> list[Tensor]:
        step, data, losses = self.step, self.data, []
        events[0].record()
        for number in range(1, count + 1):
            losses.append(step(*data()))
            events[number].record()
        return losses

    def bare_steps(self, count: int) -> list[Tensor]:
        step, data = self.step, self.data
        return [step(*data()) for _ in range(count)]

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def scale(self) -> dict[str, Any]:
        """The scaler's state, read from the device; empty without a scaler."""
        scaler = getattr(self.step, "scaler", None)
        return {} if scaler is None else scaler.state_dict()

    def note(self, on_device: list[Tensor]) -> None:
        """Count steps by their losses. Raises MeasureError for one that is NaN or infinite."""
        losses = torch.stack(on_device).tolist()
        for number, loss in enumerate(losses, self.done + 1):
            if not math.isfinite(loss):
                raise MeasureError(f"The loss is {loss} at step {number}, so what ran is no "
                                   "training, and its times are not reported.")
        self.first = self.first if self.done else losses[0]
        self.last = losses[-1]
        self.done += len(losses)


def skipped(before: dict[str, Any], after: dict[str, Any], steps: int) -> bool:
    """Whether the scaler left an optimizer step out. If not, the scale grew each time that the
    count of good steps was full; so one that grew and shrank again in between is found, too."""
    if not before:
        return False
    grown = (before["_growth_tracker"] + steps) // before["growth_interval"]
    return bool(after["scale"] != before["scale"] * before["growth_factor"] ** grown)


@dataclass
class Warm:
    """What the warm-up came to; `seconds` of a step at its end."""

    steady: bool
    seconds: float


def warm_up(training: Training, timing: Timing, ranks: Ranks, tell: Tell) -> Warm:
    """Trains until the last two windows agree and the scaler skipped nothing in them."""
    windows: list[tuple[float, bool]] = []
    size = max(1, timing.least_warmup // 2)
    while True:
        before = training.scale()
        seconds = training.run(size) / size
        windows.append((seconds, skipped(before, training.scale(), size)))
        tell("warm-up", training.done)
        steady = ranks.highest(float(not agreed(windows[-2:], timing.agree))) == 0
        if ((steady and training.done >= timing.least_warmup)
                or training.done + size > timing.most_warmup):
            return Warm(steady, ranks.highest(seconds))


def agreed(windows: list[tuple[float, bool]], within: float) -> bool:
    """Whether two windows, as (seconds a step, steps were skipped), are as good as equal."""
    if len(windows) < 2 or any(skips for _, skips in windows):
        return False
    times = [seconds for seconds, _ in windows]
    return max(times) - min(times) <= within * min(times)


@dataclass
class Blocks:
    """`seconds` per iteration, a number for each block; `steps`: milliseconds of each step by the
    GPU's own clock; `ran`: all steps inside `window`, those of void blocks as well."""

    per_block: int
    seconds: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    void: int = 0
    waited: float | None = None
    window: tuple[float, float] = (0.0, 0.0)

    @property
    def ran(self) -> int:
        return self.per_block * (len(self.seconds) + self.void)


def measure(training: Training, timing: Timing, seconds: float, ranks: Ranks,
            tell: Tell) -> Blocks:
    """The blocks of a training whose step takes `seconds`. Raises MeasureError when blocks with
    skipped steps do not end."""
    count = max(1, math.ceil(timing.block_seconds / seconds))
    found, events = Blocks(count), make_events(training.device, count)
    # What is there by now is no garbage, and looking through it would take a block by surprise.
    gc.collect()
    gc.freeze()
    waited, begin = training.data.waited, time.monotonic()
    while len(found.seconds) < timing.blocks:
        before = training.scale()
        ranks.highest(0)  # all begin together
        took = training.run(count, events)
        if ranks.highest(float(skipped(before, training.scale(), count))):
            found.void += 1
            give_up_after(found.void)
            continue
        found.seconds.append(took / count)
        found.steps += between(events)
        tell("block", training.done)
    found.window = begin, time.monotonic()
    if training.data.waited is not None and waited is not None:
        found.waited = (training.data.waited - waited) / found.ran
    return found


def give_up_after(void: int) -> None:
    if void > VOID:
        raise MeasureError(
            f"The loss scaler skipped optimizer steps in {void} blocks, and it does not end. A "
            "skipped step is faster than a real one, so no time is reported: this training "
            "overflows in FP16. Take BF16 for it.")


def make_events(device: torch.device, count: int) -> list[Any] | None:
    """One event more than steps; each is recorded once, for that makes it."""
    if device.type != "cuda":
        return None
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    for event in events:
        event.record()
    return events


def between(events: list[Any] | None) -> list[float]:
    """Milliseconds from each event to the next."""
    return [round(one.elapsed_time(other), 4) for one, other in pairwise(events or ())]
