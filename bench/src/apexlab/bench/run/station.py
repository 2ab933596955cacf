"""Where processes are measured: one at a time, watched, on a GPU that is theirs alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from apexlab.bench.planning.plan import SHARED_CORES, VARIABLES, Plan
from apexlab.bench.run import launch
from apexlab.bench.run.ahead import LEAST_CORES, Ahead
from apexlab.bench.run.launch import Launcher, Start
from apexlab.bench.run.nvml import Watch
from apexlab.bench.run.progress import Progress
from apexlab.bench.run.telemetry import sliced
from apexlab.verify import interposer
from apexlab.verify.errors import CannotError
from apexlab.verify.scratch import scratch

# Seconds without a sign of life: at least, and for each one that a scenario aims to take.
SILENCE = (600.0, 20.0)
_LEAVING_SECONDS = 5.0  # until the GPU has forgotten a process that ended
# What CUDA says of a GPU that is not there any more, in a run that had one.
VANISHED = ("no cuda-capable device", "no cuda gpus are available", "device is lost",
            "fallen off the bus", "devices are busy or unavailable",
            "cuda driver initialization failed", "unable to determine the device handle")


class VanishedError(CannotError):
    """The GPU is gone; `said` is what told it."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


@dataclass(frozen=True)
class Ran:
    """What a process gave, and how long it took; `why`: why there is no telemetry."""

    result: dict[str, Any]
    telemetry: dict[str, Any] | None
    why: str
    seconds: float


@dataclass(frozen=True)
class Station:
    """`watch` is None without a GPU; `library`: the counter of kernel launches; `shared`: whether
    other processes may use the GPU."""

    launcher: Launcher
    progress: Progress
    watch: Watch | None
    library: Path | None
    shared: bool

    def run(self, given: Mapping[str, Any], words: str,
            left: Sequence[tuple[str, str]]) -> Ran:
        """Run one process, the first of those that are `left`. CannotError when the GPU is in other
        hands, VanishedError when it is gone."""
        refuse_others(self.watch, self.shared)
        self.progress.begin(words, left)
        started = time.monotonic()
        if self.watch is not None:
            self.watch.start()
        try:
            result = self.launcher.run(given, self.progress.heard)
        finally:
            samples = self.watch.stop() if self.watch is not None else []
        seconds = time.monotonic() - started
        self.progress.done(*left[0], seconds)
        if self.watch is None:
            return Ran(result, None, "", seconds)
        if result["ending"] != "finished":
            refuse_vanished(self.watch.lost, result["why"])
        why = self.watch.why_none or _another(result, self.watch.uuids())
        found = None
        if samples and "window" in result and not why:
            found = sliced(samples, result["window"], given["gpus"])
        return Ran(result, found, why, seconds)


def refuse_others(watch: Watch | None, shared: bool) -> None:
    """Raises CannotError when the GPU is in other hands, unless it may be `shared`."""
    if watch is None or shared:
        return
    until = time.monotonic() + _LEAVING_SECONDS
    while others := watch.others():
        if time.monotonic() > until:
            raise CannotError(
                f"Another program uses the GPU: {', '.join(others[:3])}. Times beside it mean "
                "little: wait for it, choose another GPU with CUDA_VISIBLE_DEVICES, or "
                "measure all the same with --allow-shared-gpu.")
        time.sleep(0.2)


def refuse_vanished(lost: str, why: str) -> None:
    """Raises VanishedError when NVML lost the GPU, or a process ended as if it were gone."""
    if lost or any(word in why.lower() for word in VANISHED):
        raise VanishedError(lost or why)


def _another(result: Mapping[str, Any], sampled: Sequence[str]) -> str:
    """Why what was sampled is not the GPU of this process."""
    used = str((result.get("environment") or {}).get("uuid") or "").lower()
    if not used or any(used.endswith(uuid) for uuid in sampled):
        return ""
    return "another GPU was used than the one that NVML was asked about"


@contextmanager
def station(plan: Plan, progress: Progress, shared: bool, start: Start = launch.worker,
            silence: float | None = None) -> Iterator[Station]:
    """A station for a plan, with a folder for a while. `start`: how a process is started;
    `silence`: how long it may be silent, by default what its preset lets expect."""
    watch = Watch(plan.gpus) if plan.device == "cuda" else None
    if watch is not None and watch.why_none:
        progress.say(f"Clocks, power and temperature are not recorded: {watch.why_none}.")
    if silence is None:
        silence = max(SILENCE[0], SILENCE[1] * plan.preset.seconds)
    with scratch("bench") as folder:
        library = interposer.path(folder) if plan.device == "cuda" else None
        launcher = Launcher(folder, variables(plan.device, library, plan.gpus), silence, start)
        if plan.device == "cuda" and start is launch.worker and cores() >= LEAST_CORES:
            launcher = replace(launcher, ahead=Ahead(launcher.waiting))
        try:
            yield Station(launcher, progress, watch, library, shared)
        finally:
            launcher.close()


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def variables(place: str, library: Path | None, gpus: int = 1) -> dict[str, str]:
    """The same for every process of a run. Of several GPUs, each process gets its share of the
    cores, and the run on one GPU no more than that: torchrun would give one, with a warning."""
    shared = {SHARED_CORES: str(max(1, cores() // gpus))} if gpus > 1 else {}
    environ = {**VARIABLES[place], **shared, **os.environ}
    if library is not None:
        before = os.environ.get("LD_PRELOAD", "")
        environ["LD_PRELOAD"] = f"{library} {before}".strip()
    return environ


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """`docker stop` and a terminal that goes away end a run as Ctrl-C does, so that no process is
    left on the GPU."""
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may take signals
        return
    # Under nohup, a hangup is ignored, and stays so.
    before = {number: old for number in (signal.SIGTERM, signal.SIGHUP)
              if (old := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
