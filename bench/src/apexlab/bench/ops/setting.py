"""One setting: its providers made ready, checked and warmed up, then timed in shuffled rounds."""

from __future__ import annotations

import gc
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch

from apexlab.bench.draws import Draws
from apexlab.bench.measure.compiler import Compiler
from apexlab.bench.measure.environment import version
from apexlab.bench.measure.launches import nothing_seen, watch_step
from apexlab.bench.ops import check
from apexlab.bench.ops.cases import Case
from apexlab.bench.ops.entry import Entry, WrongError
from apexlab.bench.ops.measure import Cpu, Gpu, Watched, call_times, host_times
from apexlab.bench.ops.operands import OPERANDS, Call, Work
from apexlab.bench.ops.providers import Provider, left_out, providers
from apexlab.bench.ops.questions import CONTROL
from apexlab.verify.errors import CannotError

WARMUP = 3  # calls after the first, which makes state and takes memory
# What one provider may take in one round, in seconds, and how many calls at least and at most.
KERNEL, HOST, BLOCK = (0.02, 2, 10), (0.01, 2, 10), (0.005, 1, 1000)
BLOCKS = 3
KINDS = ("cold", "hot", "host", "call")


class Setting:
    """`say` is told the provider whose first calls are to come, and "" when all were made."""

    def __init__(self, cases: tuple[Case, ...], job: dict[str, Any], place: Gpu | Cpu,
                 say: Callable[[str], None]) -> None:
        self.cases, self.job, self.place, self.say = cases, job, place, say
        self.device = job["device"]
        self.operands: Any = None
        self.compiler = Compiler()
        self.entries = [Entry(provider) for provider in providers(cases[0])]
        self.control = Entry(next(entry.provider for entry in self.entries
                                  if entry.provider.name == CONTROL[cases[0].op]), control=True)

    def points(self) -> Iterator[dict[str, Any]]:
        """A point for each direction and provider."""
        with self.compiler, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Apex and torch warn on every call, which takes time
            for entry in (*self.entries, self.control):
                self._attempt(entry, self._ready)
            self.say("")
            self.compiler.settle()
            for case in self.cases:
                for number in range(self.job["rounds"]):
                    self._round(case, number)
        yield from (self._point(case, entry) for case in self.cases for entry in self.entries)
        self.operands = None
        self.entries.clear()
        self.control.calls = {}
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def _attempt(self, entry: Entry, act: Callable[[Entry], None]) -> None:
        try:
            act(entry)
            return
        except Exception as error:
            entry.give_up(error)
        if self.device == "cuda":  # only now nothing holds the tensors of what failed
            torch.cuda.synchronize()  # raises, and ends the process, if its context is gone
            torch.cuda.empty_cache()

    def _ready(self, entry: Entry) -> None:
        """Made, checked, warmed up, and watched if its kernels have to be proven. The control is
        made anew as well, for where its memory lies is part of the noise."""
        self._refuse(entry.provider)
        self.say(entry.provider.name)
        if not (entry.provider.compiled or entry.control):
            entry.error = check.check(self.cases, entry.provider, self.device)
        if self.operands is None:
            self.operands = OPERANDS[self.cases[0].op](self.cases[0], self.device)
        work = self.operands.work(entry.provider)
        if entry.provider.compiled:
            self._compile(entry, work)
        if entry.error is not None and entry.error.wrong:
            raise WrongError(f"its {entry.error.what} are off by {entry.error.error} units in the "
                             f"last place, and {entry.error.limit:g} are allowed")
        for case in self.cases:
            self._warm(entry, case.direction, work.calls[case.direction])
        entry.moment, entry.calls = work.moment(), work.calls

    def _refuse(self, provider: Provider) -> None:
        """CannotError for what is not to be measured here."""
        if why := self.job["skip"].get(provider.name):
            raise RuntimeError(why)
        if why := left_out(self.cases[0], provider, self.device, self.job["quick"]):
            raise CannotError(why)
        if self.device == "cpu" and provider.package != "torch":
            raise CannotError("Apex needs a GPU." if provider.package == "apex"
                              else "its kernels run on a GPU alone")
        if provider.package == "apex" and self.job["lacks"]:
            raise CannotError(self.job["lacks"])

    def _compile(self, entry: Entry, work: Work) -> None:
        torch._dynamo.reset()
        started = time.perf_counter()
        entry.error = check.check_first(self.cases[0], self.operands, work)
        self.place.wait()
        entry.compile_seconds = round(time.perf_counter() - started, 3)

    def _warm(self, entry: Entry, direction: str, call: Call) -> None:
        call()
        self.place.wait()
        times = []
        for _ in range(WARMUP):
            started = time.perf_counter()
            call()
            self.place.wait()
            times.append(time.perf_counter() - started)
        entry.once[direction] = min(times)
        if entry.provider.extension and self.device == "cuda":
            entry.launches[direction] = watch_step(call, self.job["interposer"], self.device)

    def _round(self, case: Case, number: int) -> None:
        """Every provider once; each second round mirrors the one before, so that a drift that is
        even in time cancels out of the two."""
        live = [entry for entry in (*self.entries, self.control) if entry.calls]
        purpose = f"apexlab.ops/1/{'/'.join(map(str, case.setting))}/{case.direction}/{number // 2}"
        order = Draws(self.job["seed"], purpose).shuffled(live)[::-1 if number % 2 else 1]
        for entry in order:
            self._attempt(entry, lambda entry: self._clocks(entry, case.direction))
        alive = [entry for entry in order if entry.calls]
        try:
            self._kernels(alive, case.direction)
        except Exception:  # of one of them: each by itself then
            for entry in alive:
                self._attempt(entry, lambda entry: self._kernels([entry], case.direction))
        if why := self.compiler.changed():
            for entry in live:
                if entry.provider.compiled:
                    entry.give_up(WrongError(why))

    def _clocks(self, entry: Entry, direction: str) -> None:
        call, once = entry.calls[direction], entry.once[direction]
        call()
        if self.device == "cuda":
            entry.samples(direction, "host").append(
                host_times(self.place, call, fitting(once, HOST)))
        entry.samples(direction, "call").append(
            call_times(self.place, call, BLOCKS, fitting(once, BLOCK)))

    def _kernels(self, order: list[Entry], direction: str) -> None:
        """Of all providers under one profiler, whose start takes as long as many calls."""
        if not isinstance(self.place, Gpu) or not order:
            return
        plan: list[tuple[Entry, str]] = []
        for entry in order:
            count = fitting(entry.once[direction], KERNEL)
            plan += [(entry, "cold")] * count + [(entry, "hot")] * (count + 1)
        calls = [Watched(entry.calls[direction], kind == "cold") for entry, kind in plan]
        times = self.place.kernel_times(calls)
        for entry in order:
            own = [(kind, us) for (one, kind), us in zip(plan, times, strict=True) if one is entry]
            entry.samples(direction, "cold").append([us for kind, us in own if kind == "cold"])
            # The first hot call comes after a cold one, and warms the cache for the others.
            entry.samples(direction, "hot").append([us for kind, us in own if kind == "hot"][1:])

    def _point(self, case: Case, entry: Entry) -> dict[str, Any]:
        def kept(of: Entry) -> dict[str, Any]:
            us = of.us.get(case.direction, {}) if of.state == "measured" else {}
            return {kind: us.get(kind) or None for kind in KINDS}

        own = entry.provider is self.control.provider
        return {
            "op": case.op, "case": case.name, "dtype": case.dtype, "autocast": case.autocast,
            "direction": case.direction, "provider": entry.provider.name, "state": entry.state,
            "why": entry.why, "us": kept(entry),
            "control": kept(self.control) if own else None,
            "version": _version(entry.provider.package),
            "least_bytes": case.least_bytes(entry.moment), "moment": entry.moment
            if case.op == "adam" else None,
            "error": asdict(entry.error) if entry.error else None,
            "compile_seconds": entry.compile_seconds, "clock_why": self.place.why,
            "launches": entry.launches.get(case.direction, nothing_seen()),
        }


def _version(package: str) -> str | None:
    """Of what comes from a package that no part of the result names: neither torch nor Apex."""
    if package in ("torch", "apex"):
        return None
    # One that runs from a checkout is no distribution, and still says which it is.
    return version(package) or getattr(sys.modules.get(package), "__version__", None)


def fitting(once: float, budget: tuple[float, int, int]) -> int:
    """How many calls of `once` seconds fit into a budget."""
    seconds, least, most = budget
    return max(least, min(most, math.floor(seconds / max(once, 1e-9))))
