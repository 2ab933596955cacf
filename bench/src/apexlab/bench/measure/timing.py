"""The kind `time`: one scenario from the start of its process to its memory."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apexlab.bench.errors import MeasureError
from apexlab.bench.measure import launches, memory
from apexlab.bench.measure.blocks import Blocks, Tell, Training, measure, warm_up
from apexlab.bench.measure.compiler import Compiler
from apexlab.bench.measure.data import source
from apexlab.bench.measure.ranks import Ranks, every_rank
from apexlab.bench.model import weights
from apexlab.bench.model.graph import GraphStep
from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import make_step
from apexlab.bench.model.text import check_text
from apexlab.bench.planning.plan import Timing


class Timed:
    """One scenario, taken apart: `build`, `begin`, `settle`, `measure`, each once, in this order.
    `training` is there after `build`."""

    def __init__(self, task: dict[str, Any], shape: Shape, settings: Settings, ranks: Ranks,
                 tell: Tell) -> None:
        self.task, self.shape, self.settings, self.ranks = task, shape, settings, ranks
        self.tell, self.timing = tell, Timing(**task["timing"])
        self.found: dict[str, Any] = {}

    def build(self) -> None:
        self.compiler = Compiler()
        data = source(self.task["data"], self.shape, self.task["batch"], self.ranks)
        begin = time.perf_counter()
        step = make_step(self.shape, self.settings, str(self.ranks.device), self.task["seed"],
                         self.ranks.wrap)
        self.training = Training(step, data, self.ranks.device)
        self.training.synchronize()
        self.found["build_seconds"] = time.perf_counter() - begin
        model = (step.step if isinstance(step, GraphStep) else step).model
        begin = time.perf_counter()
        self.found["weights"] = weights.digest(model)
        self._digesting = time.perf_counter() - begin

    def begin(self, age: Callable[[], float]) -> None:
        """The first step, which compiles and loads, and one step that is watched. `age`: gives
        the seconds since the process was started."""
        training, before = self.training, launches.steps_before(self.settings)
        training.run(1)
        self.found["first_step_seconds"] = age() - self._digesting
        self.tell("first-step", training.done)
        if before > 1:
            training.run(before - 1)
        memory.reset(self.ranks.device)
        self.found["launches"] = self._watched()  # a graph is captured here
        self._captured = memory.read(self.ranks.device) if self.settings.graph else None
        self.found["files"] = launches.loaded_files()

    def _watched(self) -> dict[str, Any]:
        training, losses = self.training, []

        def run() -> None:
            losses.append(training.step(*training.data()))

        if self.ranks.rank == 0:
            seen = launches.watch_step(run, self.task["interposer"], self.ranks.device,
                                       training.scale)
        else:
            seen = launches.unwatched(run, training.scale)
        training.note(losses)
        return seen

    def settle(self) -> float:
        """The warm-up; gives the seconds of a step. From here on no warning is shown: all were
        shown once by now, and what each costs at every call is not the step's own time."""
        warnings.simplefilter("ignore")
        warm = warm_up(self.training, self.timing, self.ranks, self.tell)
        self.found.update(warmup_steps=self.training.done, steady=warm.steady)
        return warm.seconds

    def measure(self, seconds: float) -> None:
        training, ranks, device = self.training, self.ranks, self.ranks.device
        retries = memory.retries(device)
        blocks = measure(training, self.timing, seconds, ranks, self.tell)
        self.compiler.check()
        self.found.update(figures(blocks, ranks))
        self.found["losses"] = {"first": training.first, "last": training.last}
        self.found["memory"] = memory.peaks(training.run, device, retries, self._captured)
        self.found["optimizer_peak"] = memory.optimizer_peak(training.step, training.data, device)
        self.found["data"] = training.data.about
        self._check_text()

    def _check_text(self) -> None:
        """Behind all that is timed, for a long text takes seconds to read."""
        data = self.task["data"]
        if data["kind"] == "text" and self.ranks.rank == 0 \
                and check_text(Path(data["path"]), self.shape) != data["sha256"]:
            raise MeasureError(f"The data file {data['path']} was changed while it was read, so "
                               "the scenarios did not train on the same text. Leave it alone and "
                               "measure again.")


def figures(blocks: Blocks, ranks: Ranks) -> dict[str, Any]:
    """The part of a result that the blocks give. Several GPUs are as fast as the slowest."""
    rows = every_rank(ranks, blocks.seconds)
    slowest = [max(row) for row in zip(*(each["blocks"] for each in rows), strict=True)] \
        if rows else blocks.seconds
    return {"window": list(blocks.window), "steps_per_block": blocks.per_block, "blocks": slowest,
            "steps": blocks.steps, "skipped": 0, "void_blocks": blocks.void,
            "data_wait": blocks.waited, "ranks": rows}
