"""Times of single calls, each kind apart: on the GPU with a cold and a hot cache, on the host, and
back to back.

Kernel times are what the GPU's lane of the profiler shows for a call, summed: they hold no launch
latency, which CUDA events around a short call mostly measure. Between the calls stands a mark, a
kernel on one number of a dtype that nothing else here has, so that each call has a time of its own.
A cold call finds nothing of its tensors in the cache, for all of it was overwritten before.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from apexlab.bench.ops.lane import NO_KERNELS, Ran, split

FLUSH_BYTES = 2**28  # at least; a cache of four times less is surely overwritten
_LANE = "CUDA"
_ROW = 4096
Call = Callable[[], Any]


@dataclass(frozen=True)
class Watched:
    """One call that is to be timed, with the cache emptied before it or not."""

    call: Call
    cold: bool


class Gpu:
    """`kernel_times` uses the profiler where it shows what it should, else CUDA events; `why` says
    then what hindered it."""

    def __init__(self, device: Any) -> None:
        self.device = torch.device(device)
        cache = getattr(torch.cuda.get_device_properties(self.device), "L2_cache_size", 0)
        size = max(FLUSH_BYTES, 4 * cache)
        self._buffer = torch.empty(size // _ROW, _ROW, dtype=torch.uint8, device=self.device)
        self._read = torch.empty(size // _ROW, dtype=torch.uint8, device=self.device)
        self._one = torch.zeros(1, dtype=torch.int16, device=self.device)
        self._mark_name, self._flush_names = "", frozenset[str]()
        self.why = self._learn()

    def flush(self) -> None:
        """Empties the cache: written, and read again so that nothing is left to be written back
        while the next call is timed."""
        self._buffer.fill_(1)
        torch.amax(self._buffer, 1, out=self._read)

    def mark(self) -> None:
        self._one.fill_(1)

    def _learn(self) -> str:
        """How the profiler calls the mark and the flush; why it cannot be used, or ""."""
        for one in (self.mark, self.flush):  # the first time loads them
            one()
        marks, flushes = ({one.name for one in self._profiled(run)}
                          for run in (self.mark, self.flush))
        if not marks or not flushes:
            return "the profiler shows no kernels here"
        if len(marks) != 1 or marks & flushes:
            return "the profiler's names do not tell this bench's own kernels apart"
        self._mark_name, = marks
        self._flush_names = frozenset(flushes)
        return ""

    def kernel_times(self, calls: Sequence[Watched]) -> list[float]:
        """Microseconds on the GPU of each call, in their order."""
        for _ in range(0 if self.why else 2):
            lane = self._profiled(lambda: self._run(calls))
            groups = split(lane, self._mark_name, self._flush_names)
            if len(groups) == len(calls) and all(groups):
                return groups
        self.why = self.why or "the profiler lost kernels"
        return [self._by_events(one) for one in calls]

    def _run(self, calls: Sequence[Watched]) -> None:
        for one in calls:
            if one.cold:
                self.flush()
            self.mark()
            one.call()

    def _profiled(self, run: Call) -> list[Ran]:
        """All kernels that the profiler shows; none where it cannot work."""
        activity = torch.profiler.ProfilerActivity.CUDA
        if activity not in torch.profiler.supported_activities():
            return []
        torch.cuda.synchronize(self.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                profile = torch.profiler.profile(activities=[activity])
                profile.start()
            except Exception:  # another profiler may hold the GPU, or the driver refuse
                return []
            try:
                run()
                torch.cuda.synchronize(self.device)
            finally:
                profile.stop()
            return [Ran(str(one.name), float(one.time_range.start),
                        float(one.time_range.elapsed_us())) for one in profile.events()
                    if one.device_type.name == _LANE
                    and not getattr(one, "is_user_annotation", False)
                    and not str(one.name).startswith(NO_KERNELS)]

    def _by_events(self, one: Watched) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if one.cold:
            self.flush()
        start.record()
        one.call()
        end.record()
        end.synchronize()
        return 1e3 * float(start.elapsed_time(end))

    def wait(self) -> None:
        torch.cuda.synchronize(self.device)

    def copy_gbps(self, seconds: float) -> float:
        """What a large copy moves, read and written, in 10^9 bytes a second: the median of copies
        of an eighth of the free memory, at most 1 GiB."""
        free, _ = torch.cuda.mem_get_info(self.device)
        size = min(2**30, free // 8)
        source, target = (torch.ones(size, dtype=torch.uint8, device=self.device)
                          for _ in range(2))
        times: list[float] = []
        until = time.monotonic() + seconds
        while len(times) < 5 or time.monotonic() < until:
            times.append(self._by_events(Watched(lambda: target.copy_(source), False)))
        return 2 * float(size) / (1e3 * sorted(times)[len(times) // 2])


class Cpu:
    """The same place to stand on for a CPU, which has neither kernels nor a queue."""

    why = "a CPU runs no kernels"

    def wait(self) -> None:
        """Calls are done when they return."""


def host_times(place: Gpu | Cpu, call: Call, count: int) -> list[float]:
    """Microseconds until the call returns, with nothing waiting in the GPU's queue before it."""
    times = []
    for _ in range(count):
        place.wait()
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e3)
    place.wait()
    return times


def call_times(place: Gpu | Cpu, call: Call, blocks: int, count: int) -> list[float]:
    """Microseconds of one call among others, with no wait between them; one for each block of
    `count` calls."""
    times = []
    for _ in range(blocks):
        place.wait()
        start = time.perf_counter_ns()
        for _ in range(count):
            call()
        place.wait()
        times.append((time.perf_counter_ns() - start) / 1e3 / count)
    return times
