"""The kind `look`: what a scenario does, in a process in which nothing is timed for the rounds.

Everything that would disturb times is done here: the profiler, hooks, counters, the parity pass.
A probe that fails leaves None and a warning; no memory, or a loss that is no number, ends the task.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from apexlab.bench.errors import MeasureError
from apexlab.bench.measure import launches, parity, phases, profile
from apexlab.bench.measure.blocks import Tell, Training
from apexlab.bench.measure.compiler import Compiler
from apexlab.bench.measure.data import source
from apexlab.bench.measure.endings import no_memory, one_line
from apexlab.bench.measure.ranks import join
from apexlab.bench.measure.task import parts
from apexlab.bench.model.graph import GraphStep
from apexlab.bench.model.probes import attention_backends, product_error
from apexlab.bench.model.step import make_step
from apexlab.verify.errors import CannotError
from apexlab.verify.prove.instruments import Instruments, Seen, controls

LONGEST_WARNING = 300
_SYNC = "synchronizing CUDA operation"  # torch's words for a wait that it counted
_DEBUG_MODE = "Synchronization debug mode"


def look(task: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The fields of a look's result. Raises what make_step does, MeasureError and OutOfMemory."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # the profiler's own talk
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        looked = Look(task, tell)
        found = looked.everything()
        texts = [str(one.message) for one in heard]
    return {**found, "warnings": distinct([*looked.failures, *texts])}


def distinct(texts: Iterable[str]) -> list[str]:
    """Each text once, on one line, shortened; those that our own probes cause are left out."""
    short = (one_line(text, LONGEST_WARNING) for text in texts
             if _SYNC not in text and _DEBUG_MODE not in text)
    return list(dict.fromkeys(short))


class Look:
    """The scenario's training, and what is asked of it, in an order that matters: a CUDA graph is
    captured by the watched step."""

    def __init__(self, task: dict[str, Any], tell: Tell) -> None:
        self.task, self.tell = task, tell
        self.shape, self.settings = parts(task)
        self.failures: list[str] = []
        self.compiler = Compiler()
        ranks = join(task["device"], 1, self.settings)
        self.device = ranks.device
        step = make_step(self.shape, self.settings, str(self.device), task["seed"])
        data = source(task["data"], self.shape, task["batch"], ranks)
        self.training = Training(step, data, self.device)
        self.eager = step.step if isinstance(step, GraphStep) else step

    def everything(self) -> dict[str, Any]:
        self.training.run(1)
        self.tell("first-step", self.training.done)
        found = {**self.seen(), "files": launches.loaded_files()}
        found["attention"] = self.tried("the attention backend", self.attention) or []
        found["norm_dtypes"] = self.tried("the norm's types", self.norm_dtypes)
        found["syncs"] = self.tried("waits of the host", self.syncs)
        warnings.simplefilter("ignore")  # what a repeated one costs is not the step's own time
        found.update(self.tried("the parts of a step", self.phases)
                     or {"phases": None, "step_seconds": None})
        found["gpu_busy"] = busy(found["kernels"], found["step_seconds"])
        found["optimizer_state"] = self.tried(
            "the optimizer's state", lambda: optimizer_state(self.eager.optimizer))
        found["product_error"] = self.tried(
            "the precision of products", lambda: product_error(str(self.device)))
        found["trace"] = self.tried("the trace", self.trace) if self.task["trace"] else None
        self.compiler.check()
        self.tell("block", self.training.done)
        return {**found, **self.parity()}

    def tried(self, what: str, probe: Callable[[], Any]) -> Any:
        """The probe's answer; None, and a warning, for one that failed."""
        try:
            return probe()
        except Exception as error:
            if isinstance(error, (MeasureError, CannotError)) or no_memory(error):
                raise
            self.failures.append(f"{what} could not be seen: {type(error).__name__}: {error}")
            return None

    # --- kernels ----------------------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """{"launches", "kernels", "kernels_per_step"} of a step."""
        before = launches.steps_before(self.settings)
        if before > self.training.done:
            self.training.run(before - self.training.done)
        none: dict[str, Any] = {"launches": launches.nothing_seen(), "kernels": [],
                                "kernels_per_step": None}
        if self.device.type != "cuda":
            return none
        return self.tried("kernels", self._kernels) or none

    def _kernels(self) -> dict[str, Any]:
        tools = Instruments(torch, self.task["interposer"])
        before = controls(tools, self.device)

        def watched() -> Seen:
            return launches.watched(tools, self.device, lambda: self.training.run(1))

        seen = launches.until_whole(watched, self.training.scale)
        shown = watched() if self.settings.graph else seen  # the replay, not the capture before it
        told = launches.told(seen, [before, controls(tools, self.device)])
        kernels = with_files(shown.profiler or [], told["step"])
        count = sum(one["count"] for one in kernels)
        if not kernels:
            self.failures.append("torch's profiler shows no kernel here, so nothing is said about "
                                 "where the GPU's time goes")
        return {"launches": told, "kernels": kernels, "kernels_per_step": count or None}

    def attention(self) -> list[str]:
        batch = self.training.data()
        return list(attention_backends(lambda: self.eager.forward(*batch)))

    def norm_dtypes(self) -> dict[str, str]:
        """The types of the first norm's input, weight and result, in the model as it is written:
        compiling it does not change them."""
        found: dict[str, str] = {}

        def hook(module: Any, given: Any, result: Any) -> None:
            for name, tensor in (("input", given[0]), ("weight", module.weight),
                                 ("output", result)):
                found[name] = plain(tensor.dtype)

        handle = self.eager.model.blocks[0].attention_norm.register_forward_hook(hook)
        compiled, self.eager.run = self.eager.run, self.eager.model
        try:
            with torch.no_grad():
                self.eager.forward(*self.training.data())
        finally:
            self.eager.run = compiled
            handle.remove()
        return found

    # --- time -------------------------------------------------------------------------------------

    def syncs(self) -> int | None:
        """How often a step makes the host wait for the GPU, as far as torch notices."""
        if self.device.type != "cuda":
            return None
        batch = self.training.data()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                loss = self.training.step(*batch)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            count = sum(_SYNC in str(one.message) for one in heard)
        self.training.note([loss])
        return count

    def phases(self) -> dict[str, Any]:
        start = time.perf_counter()
        self.training.run(1)
        seconds = time.perf_counter() - start
        if self.settings.graph:
            steps = max(1, min(phases.STEPS, int(phases.SECONDS / seconds)))
            return {"phases": None, "step_seconds": self.training.run(steps) / steps}
        split = phases.Phases(self.eager, self.training.data)
        found = split.medians(seconds)
        self.training.note(split.losses)
        return found

    def trace(self) -> str:
        path, losses = profile.write_trace(self.training.step, self.training.data, self.device,
                                           Path(self.task["trace"]))
        self.training.note(losses)
        return path

    # --- numbers ----------------------------------------------------------------------------------

    def parity(self) -> dict[str, Any]:
        """{"parity", "seeds"}, on a small model of the same kind, after the large one is gone."""
        asked, done = self.task["parity"], self.training.done
        del self.training, self.eager
        gc.collect()
        if self.settings.compile:
            # Else the other shape would count as one more of this model, with dynamic sizes.
            torch._dynamo.reset()
        found = self.tried("parity", lambda: parity.parity(
            self.settings, self.shape.kind, str(self.device), self.task["seed"], asked["steps"],
            asked["baseline"], lambda: self.tell("block", done)))
        self.compiler.check()
        if found is None:
            return {"parity": None}
        seeds = found.pop("seeds", None)
        return {"parity": found, **({"seeds": seeds} if asked["baseline"] else {})}


def with_files(kernels: list[dict[str, Any]], launched: Iterable[dict[str, Any]],
               ) -> list[dict[str, Any]]:
    """The profiler's kernels, the longest first, each with the file that the interposer knows for
    its name, if that is one."""
    files: dict[str, set[str | None]] = defaultdict(set)
    for one in launched:
        files[one["name"]].add(one["file"])
    told = [{**one, "file": next(iter(files[one["name"]]))
             if len(files[one["name"]]) == 1 else None} for one in kernels]
    return sorted(told, key=lambda one: -(one["us"] or 0.0))


def busy(kernels: Iterable[dict[str, Any]], seconds: float | None) -> float | None:
    """The share of a step in which a kernel ran; kernels that ran side by side make no more of
    it than all."""
    total = sum(one["us"] or 0.0 for one in kernels)
    return min(1.0, total / 1e6 / seconds) if total and seconds else None


def optimizer_state(optimizer: Any) -> dict[str, Any]:
    """{"dtypes": of each tensor that is kept for a parameter, "bytes": of all together}."""
    dtypes: dict[str, str] = {}
    total = 0
    masters = [{"master": p} for group in getattr(optimizer, "param_groups_master", None) or ()
               for p in group["params"]]
    for state in (*optimizer.state.values(), *masters):
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                dtypes.setdefault(name, plain(value.dtype))
                total += value.numel() * value.element_size()
    return {"dtypes": dtypes, "bytes": total}


def plain(dtype: torch.dtype) -> str:
    """`float32` of torch.float32."""
    return str(dtype).removeprefix("torch.")
