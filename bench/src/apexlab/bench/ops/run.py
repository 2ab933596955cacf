"""The parent's side: one process for each operation, and what became of it, point by point."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from apexlab.bench.ops.op_process import OpProcess
from apexlab.bench.ops.providers import PROVIDERS, Provider, providers
from apexlab.bench.ops.request import Request
from apexlab.bench.ops.result import point_key
from apexlab.bench.run.apex import NEEDED, Subject, find_subject, subject_of
from apexlab.bench.run.nvml import Watch
from apexlab.bench.run.progress import Progress, progress
from apexlab.bench.run.proof import of_part
from apexlab.bench.run.station import refuse_others, refuse_vanished, terminated_as_interrupted
from apexlab.bench.run.store import Store
from apexlab.bench.run.telemetry import causes, sliced
from apexlab.verify import device, interposer, process
from apexlab.verify.errors import CannotError
from apexlab.verify.scratch import scratch

PARTS = {"adam": "optimizer", "layernorm": "norm", "rmsnorm": "norm", "clip": "clip"}


def run(request: Request, store: Store, shared: bool, seconds: float) -> None:
    """Measure what was asked for, into the store. `shared`: other programs may use the GPU;
    `seconds`: what one operation aims to take.

    Raises CannotError; the points that were finished are on disk then.
    """
    watch = Watch(1) if request.device == "cuda" else None
    with contextlib.closing(progress(seconds)) as shown, scratch("ops") as folder, \
            terminated_as_interrupted():
        if watch is not None and watch.why_none:
            shown.say(f"Clocks, power and temperature are not recorded: {watch.why_none}.")
        library = interposer.path(folder) if request.device == "cuda" else None
        Runner(request, store, find_subject(), shown, watch, folder, library, shared).run()


@dataclass(frozen=True)
class Runner:
    """Measures what was asked for, into the store."""

    request: Request
    store: Store
    subject: Subject
    progress: Progress
    watch: Watch | None
    folder: Path
    library: Path | None
    shared: bool

    def run(self) -> None:
        """Run what is left. Raises CannotError, and UsageError where the run was begun with another
        Apex; the points that were finished are on disk then."""
        if not self.store.rows:
            self._add({"row": "request", **self.request.document()})
        subject = {"row": "subject", "apex": self.subject.document(),
                   "record": self.subject.record_document()}
        subject_of([*self.store.rows, subject])
        self._add(subject)
        if self.subject.present and self.request.device == "cuda":
            _ = self.subject.registered  # read now, and not beside a process that is timed
        left = [op for op in self.request.ops if not self._finished(op)]
        for number, op in enumerate(left):
            refuse_others(self.watch, self.shared)
            self.progress.begin(op, [("ops", each) for each in left[number:]])
            self._one(op)

    def _finished(self, op: str) -> bool:
        """All its settings, and what its process had to say of itself."""
        return self._done(op) == len(self.request.settings(op)) and any(
            row["row"] == "process" and row["op"] == op for row in self.store.rows)

    def _done(self, op: str) -> int:
        """How many settings were finished before: each is measured as a whole, all its rounds in
        one process, for the pairs of one that was cut would span the pause."""
        known = {point_key(row) for row in self.store.rows if row["row"] == "point"}
        whole = [all((case.op, *case.key, provider.name) in known
                     for case in group for provider in providers(case))
                 for group in self.request.settings(op)]
        return whole.index(False) if False in whole else len(whole)

    def _one(self, op: str) -> None:
        task = OpProcess(self.request, op, self.folder, self.library, self._lacks(op),
                         lambda point: self._add({"row": "point", **self._proven(point)}),
                         lambda words: self.progress.heard({"at": words}), done=self._done(op))
        started = time.monotonic()
        if self.watch is not None:
            self.watch.start()
        try:
            process.attend([task])
        finally:
            samples = self.watch.stop() if self.watch is not None else []
            ended = time.monotonic()
            telemetry = sliced(samples, (started, ended), 1) if samples else None
            if task.begun:
                self._add({"row": "process", "op": op, "copy_gbps": task.begun["copy_gbps"],
                           "result": {"environment": task.begun["environment"]},
                           "telemetry": telemetry, "causes": sorted(causes(telemetry))})
        self.progress.done("ops", op, ended - started)
        if task.failed:
            refuse_vanished(self.watch.lost if self.watch else "", task.failed)
        if not task.begun:
            raise CannotError(f"Nothing could be measured: {task.failed.rstrip('.')}. `apexlab "
                              "verify` says what is wrong with this torch or this GPU.")

    def _lacks(self, op: str) -> str:
        """Why Apex cannot do it here; "" where only a call can tell."""
        part = PARTS[op]
        if part in NEEDED or not self.subject.present:
            return self.subject.lacks([part if part in NEEDED else "optimizer"])
        return ""

    def _proven(self, point: dict[str, Any]) -> dict[str, Any]:
        """The point with its proof in place of the launches that were seen."""
        seen = {"launches": point.pop("launches"), "files": point.pop("files")}
        provider = provider_of(point)
        needed = provider.extension if point["state"] == "measured" else None
        found = of_part(PARTS[point["op"]], needed, seen, self.subject.registered) \
            if needed else None
        return {**point, "proof": found}

    def _add(self, row: dict[str, Any]) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.store.append({**row, "time": now, "driver": device.driver_version()})


def provider_of(point: Mapping[str, Any]) -> Provider:
    """The provider that a point names."""
    return next(one for one in PROVIDERS
                if one.name == point["provider"] and point["op"] in one.ops)
