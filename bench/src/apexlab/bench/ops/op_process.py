"""The process of one operation as its parent sees it: started, listened to, started again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apexlab.bench.ops.cases import Case
from apexlab.bench.ops.providers import providers
from apexlab.bench.ops.request import Request
from apexlab.bench.run.launch import last_words
from apexlab.bench.run.station import variables
from apexlab.verify import process

SILENCE = 300.0  # seconds until the next answer; torch compiles meanwhile
RESTARTS = 3


@dataclass
class OpProcess:
    """The process of one operation; a process.Task. What crashes it is left out, and a new process
    goes on. `lacks`: why Apex cannot do this operation here; `add` takes each finished point."""

    request: Request
    op: str
    folder: Path
    library: Path | None
    lacks: str
    add: Callable[[dict[str, Any]], None]
    say: Callable[[str], None]
    begun: dict[str, Any] = field(default_factory=dict)
    done: int = 0
    at: str = ""
    skip: dict[str, str] = field(default_factory=dict)
    restarts: int = 0
    failed: str = ""
    kept: list[dict[str, Any]] = field(default_factory=list)

    def command(self) -> Sequence[str]:
        return (sys.executable, "-m", "apexlab.bench.ops.worker")

    def job(self) -> Mapping[str, Any]:
        asked = self.request
        return {"op": self.op, "preset": asdict(asked.preset), "device": asked.device,
                "quick": asked.quick, "rounds": asked.rounds, "seed": asked.seed,
                "done": self.done, "skip": self.skip, "lacks": self.lacks,
                "interposer": str(self.library) if self.library else None}

    def environ(self) -> Mapping[str, str]:
        return variables(self.request.device, self.library)

    def folders(self) -> tuple[Path, Path]:
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        return empty, self.folder / f"{self.op}.log"

    def seconds(self) -> float:
        return SILENCE

    def answered(self, answer: dict[str, Any]) -> None:
        kind = answer.pop("kind", None)
        if kind == "start":
            self.begun = self.begun or answer
        elif kind == "at":
            self.at = str(answer["provider"])
            self.say(self.at or "timing")
        elif kind == "point":
            self.kept.append(answer)
        elif kind == "setting":
            self._finish(self.kept)

    def _finish(self, points: Iterable[dict[str, Any]]) -> None:
        for point in points:
            self.add(point)
        self.kept, self.at, self.done = [], "", self.done + 1

    def ended(self, how: dict[str, Any]) -> bool:
        settings = self.request.settings(self.op)
        if self.done == len(settings):
            return False
        end = how.get("ended")
        words = process.how_it_ended(how) if end is None else \
            f"ended ({process.spelt(end) if isinstance(end, int) else end})"
        why = f"its process {words}"
        log = self.folders()[1]
        if log.exists() and (words := last_words(log.read_bytes())):
            why = f"{why}. It said last: {words}"
        self.failed = why
        if not self.begun:
            return False
        self.restarts += 1
        if self.at and self.restarts <= RESTARTS:
            self.skip[self.at] = why
        else:
            self._finish(failed_points(settings[self.done], why))
        while self.restarts > RESTARTS and self.done < len(settings):
            self._finish(failed_points(settings[self.done], why))
        self.kept, self.at = [], ""
        return self.done < len(settings)


def failed_points(group: Iterable[Case], why: str) -> Iterator[dict[str, Any]]:
    """The points of cases whose process ended while all of them were timed."""
    for case in group:
        for provider in providers(case):
            yield {"op": case.op, "case": case.name, "dtype": case.dtype,
                   "autocast": case.autocast, "direction": case.direction,
                   "provider": provider.name, "state": "failed", "why": why, "us": {},
                   "control": None, "version": None, "least_bytes": case.least_bytes(),
                   "moment": None, "error": None, "compile_seconds": None, "clock_why": "",
                   "launches": {}, "files": {}}
