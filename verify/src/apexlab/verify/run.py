"""The level `run`: each GPU gets a process that makes the calls, one after another.

After a crash, a hang or an error that leaves the GPU's context unusable, a new process goes on with
the next call. The parent touches no GPU.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from apexlab.verify import interposer, process
from apexlab.verify.found import Found
from apexlab.verify.proofs import Ran
from apexlab.verify.prove.table import CALLS, FALLBACKS
from apexlab.verify.scratch import scratch
from apexlab.verify.site import Subject

SECONDS = 60.0  # for one call; a healthy one takes milliseconds
START_SECONDS = 300.0  # importing torch, and the GPU's context
MODEL_SECONDS = 1800.0  # two steps of a user's own model
RESTARTS = 20
LOSSES = 2  # processes that calls of one API may cost; each takes seconds to start

# Makes the folder of the worker a package in a Python that need not have apexlab.
_BOOT = """
import importlib, importlib.util, json, sys
job = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "apexlab_prove", job["package"] + "/__init__.py", submodule_search_locations=[job["package"]])
module = importlib.util.module_from_spec(spec)
sys.modules["apexlab_prove"] = module
spec.loader.exec_module(module)
importlib.import_module("apexlab_prove.worker").main(job)
"""


@dataclass
class _Worker:
    """One GPU's process, and the work that is left; a process.Task."""

    subject: Subject
    files: Mapping[str, Found]
    index: int
    folder: Path
    library: Path | None
    todo: deque[dict[str, Any]]
    result: Ran
    starts: int = 0
    ready: bool = False
    moved: bool = False
    last: dict[str, Any] = field(default_factory=dict)
    losses: Counter[str] = field(default_factory=Counter)

    def command(self) -> Sequence[str]:
        return (str(self.subject.python.executable), "-c", _BOOT)

    def job(self) -> Mapping[str, Any]:
        self.starts += 1
        self.ready = self.moved = False
        return {
            "package": str(resources.files("apexlab.verify") / "prove"),
            "paths": self.subject.paths, "prepend": self.subject.prepend, "index": self.index,
            "layouts": {name: found.layout for name, found in self.files.items()},
            "library": str(self.library) if self.library else None, "tasks": list(self.todo)}

    def environ(self) -> Mapping[str, str]:
        if self.library is None:
            return os.environ
        before = os.environ.get("LD_PRELOAD", "")
        return {**os.environ, "LD_PRELOAD": f"{self.library} {before}".strip()}

    def folders(self) -> tuple[Path, Path]:
        cwd = self.folder / "empty"
        cwd.mkdir(exist_ok=True)
        # A user's own model lies where the user stands.
        own = any(task["kind"] == "model" for task in self.todo)
        return Path.cwd() if own else cwd, self.folder / f"log{self.index}"

    def seconds(self) -> float:
        if not self.ready:
            return START_SECONDS
        return MODEL_SECONDS if self.todo and self.todo[0]["kind"] == "model" else SECONDS

    def answered(self, answer: dict[str, Any]) -> None:
        kind = answer.pop("kind", None)
        if kind == "failed":
            self.result.failed = str(answer["text"])
            self.todo.clear()
        elif kind == "controls":
            self.ready = True
            self.result.controls.append(answer)
        elif kind == "answer" and self.todo:
            self._keep(answer)

    def _keep(self, answer: dict[str, Any]) -> None:
        task = self.todo.popleft()
        self.moved = True
        self.last = task
        if task["kind"] == "model":
            self.result.model = answer
        else:
            kept = self.result.cases if task["kind"] == "case" else self.result.fallbacks
            kept.append((task, answer))

    def ended(self, how: dict[str, Any]) -> bool:
        if not self.todo:
            return False
        if not self.ready:
            self.result.failed = (f"making the GPU ready {process.how_it_ended(how)}. "
                                  f"{self._last_words()}")
            self.todo.clear()
            return False
        # After an answer it may ask for a new process; any other end is the next call's doing.
        if how.get("code") != 0 or not self.moved:
            self._keep({**how, "output": self._last_words()})
        self._give_up()
        return bool(self.todo)

    def _give_up(self) -> None:
        """Leave out what would most likely cost one more process."""
        kind, bearable = _kind(self.last)
        self.losses[kind] += 1
        left = list(self.todo)
        for task in left:
            if self.starts > RESTARTS or (
                    self.losses[kind] >= bearable and _kind(task)[0] == kind):
                self.todo.remove(task)
                self.todo.appendleft(task)
                self._keep({"ended": "it was not made, since earlier ones ended the process"})

    def _last_words(self) -> str:
        with self.folders()[1].open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            text = log.read(2000).decode("utf-8", "replace").strip()
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


def _kind(task: Mapping[str, Any]) -> tuple[str, int]:
    """What calls that would end a process for the same reason have in common, and how many
    processes they may cost: those of one API two, and those of one extension, which starts its
    kernels on whichever GPU is current, only one."""
    if task.get("kind") != "case":
        return str(task.get("kind")), LOSSES
    call = CALLS[task["call"]]
    return (call.api, LOSSES) if task["current"] is None else (f"{call.extension} elsewhere", 1)


def run(subject: Subject, files: Mapping[str, Found], devices: int, factory: str | None = None,
        ) -> tuple[Ran, ...]:
    """Make the calls of the extensions `files` on each of `devices` GPUs, all side by side, and on
    the first one a step of the model of `factory`."""
    with scratch("run") as folder:
        library = interposer.path(folder)
        workers = [_worker(subject, files, index, folder, library,
                           tasks(files, index, devices)) for index in range(devices)]
        process.attend(workers)
        if factory is not None and not workers[0].result.failed:
            # A process of its own: what a user's code does is no matter of the calls.
            own = _worker(subject, files, 0, folder, library,
                          [{"kind": "model", "factory": factory}])
            process.attend([own])
            answer = own.result.model or {
                "error": {"kinds": ["RuntimeError"], "text": own.result.failed}}
            workers[0].result.model = {**answer, "factory": factory}
    return tuple(worker.result for worker in workers)


def _worker(subject: Subject, files: Mapping[str, Found], index: int, folder: Path,
            library: Path | None, work: Iterable[dict[str, Any]]) -> _Worker:
    return _Worker(subject, files, index, folder, library, deque(work), Ran(f"cuda:{index}"))


def tasks(files: Iterable[str], index: int, devices: int) -> list[dict[str, Any]]:
    """The work for the GPU `index` of `devices`: every call of the extensions that are there, and
    where there is another GPU, each once more while that one is the current device, at the end,
    since that may cost processes."""
    there = set(files)
    cases = [{"kind": "case", "call": number, "dtype": dtype, "current": None}
             for number, call in enumerate(CALLS)
             if call.extension in there for dtype in call.dtypes]
    shown = [{"kind": "fallback", "fallback": number} for number, known in enumerate(FALLBACKS)
             if known.extension in there] if index == 0 else []
    again = [{**case, "current": (index + 1) % devices} for case in cases if devices > 1]
    return [*cases, *shown, *again]
