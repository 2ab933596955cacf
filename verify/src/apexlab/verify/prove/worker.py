"""The process that makes the calls on one GPU; run.py starts it and reads its answers.

Answers go to a pipe of their own, one JSON document a line: {"kind": "controls"} before the first
task and after the last, {"kind": "answer"} for each task in order, {"kind": "failed"} where nothing
can be called at all.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any

_LONGEST_TEXT = 2000
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Bench:
    """What every call needs: the job, torch, the GPU and the instruments."""

    job: dict[str, Any]
    torch: Any
    device: Any
    instruments: Any

    def usable(self) -> bool:
        """Whether the GPUs' contexts still work: some errors leave one broken for good."""
        try:
            for index in {self.device.index, *self.others}:
                self.torch.cuda.synchronize(index)
        except Exception:
            return False
        return True

    @property
    def others(self) -> set[int]:
        """The other GPUs that are the current device for some calls."""
        return {task["current"] for task in self.job["tasks"] if task.get("current") is not None}

    def loaded(self, extension: str) -> list[str]:
        """The files that the extension may have come from in this process."""
        if self.job["layouts"].get(extension) == "library":
            files = list(self.torch.ops.loaded_libraries)
        else:
            files = [getattr(sys.modules.get(extension), "__file__", None)]
        return [os.path.realpath(file) for file in files if file]


def main(job: dict[str, Any]) -> None:
    """The job: fd, paths, prepend, index, layouts, library, tasks (see run.py)."""
    with contextlib.suppress(OSError, AttributeError):
        # The system ends this process when its parent is gone, however that ended.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job["paths"]:
        sys.path[:] = job["paths"]
    sys.path[:0] = job["prepend"]
    with os.fdopen(job["fd"], "w", encoding="utf-8") as report:
        try:
            bench = begin(job)
        except BaseException as error:
            tell(report, {"kind": "failed", "text": f"{type(error).__name__}: {error}"})
            return
        control(report, bench)
        for task in job["tasks"]:
            answer = attempt(bench, task)
            tell(report, {"kind": "answer", **answer})
            if answer.get("error") and not bench.usable():
                leave()  # the parent starts another process for the rest
        control(report, bench)
    leave()


def begin(job: dict[str, Any]) -> Bench:
    """Raises whatever hinders torch, the GPU or the instruments."""
    import torch

    if torch.version.cuda is None:
        raise RuntimeError(f"torch {torch.__version__} is built without CUDA")
    if not any(task["kind"] == "model" for task in job["tasks"]):
        # The references are small, and each GPU has a process: more threads only hinder each other.
        torch.set_num_threads(1)
    device = torch.device("cuda", job["index"])
    torch.cuda.set_device(device)
    torch.ones(1, device=device)
    torch.cuda.synchronize(device)
    from .instruments import Instruments

    return Bench(job, torch, device, Instruments(torch, job["library"]))


def control(report: Any, bench: Bench) -> None:
    from .instruments import controls

    tell(report, {"kind": "controls", **controls(bench.instruments, bench.device)})


def attempt(bench: Bench, task: dict[str, Any]) -> dict[str, Any]:
    """One task, whatever becomes of it."""
    from .case import Unsupported

    try:
        return DO[task["kind"]](bench, task)
    except Unsupported as reason:
        return {"unsupported": str(reason) or "this ref has no such call", "phases": []}
    except BaseException as error:  # an extension may raise anything, SystemExit too
        traceback.print_exc()
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"error": {"kinds": kinds, "text": str(error)[:_LONGEST_TEXT]}, "phases": []}


def case(bench: Bench, task: dict[str, Any]) -> dict[str, Any]:
    from .table import CALLS

    call = CALLS[task["call"]]
    current = task["current"]
    with bench.torch.cuda.device(bench.device.index if current is None else current):
        answer = called(bench, call.function, task["dtype"], task["call"], call.options)
    return {**answer, "loaded": bench.loaded(call.extension)}


def fallback(bench: Bench, task: dict[str, Any]) -> dict[str, Any]:
    from .table import FALLBACKS

    return called(bench, FALLBACKS[task["fallback"]].function, "fp32", task["fallback"], {})


def called(bench: Bench, name: str, dtype: str, seed: int, options: dict[str, Any],
           ) -> dict[str, Any]:
    from .case import Case, function

    made = Case(bench.torch, bench.device, dtype, bench.instruments, bench.job["layouts"], seed)
    function(name)(made, **options)
    return {"phases": made.phases}


def model(bench: Bench, task: dict[str, Any]) -> dict[str, Any]:
    from .model import examine

    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
    return dict(examine(task["factory"], bench.instruments, bench.device))


DO = {"case": case, "fallback": fallback, "model": model}


def tell(report: Any, answer: dict[str, Any]) -> None:
    report.write(json.dumps(answer) + "\n")
    report.flush()


def leave() -> None:
    """Leave without destructors: those of a broken context may hang."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)
