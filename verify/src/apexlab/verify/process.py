"""Processes that import and run what is judged: each may crash, hang or write nonsense.

They answer on a pipe of their own, one JSON document a line; whatever else they print goes to a
file. One loop waits for all of them, so that no thread is left behind by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from apexlab.verify.errors import CannotError

_STEP = 1 << 16
_LONGEST = 16 << 20  # one answer; a watched step of a large model has some thousand kernels
_LOG_BYTES = 64 << 20  # of what one prints; whoever prints without end may not fill the disk
_LOG_KEPT = 1 << 12
_LOOK_SECONDS = 0.5
_END_SECONDS = 5.0


class Task(Protocol):
    """What a process is to do, and what becomes of its answers."""

    def command(self) -> Sequence[str]: ...
    def job(self) -> Mapping[str, Any]: ...
    def environ(self) -> Mapping[str, str]: ...
    def folders(self) -> tuple[Path, Path]:
        """Where it is started, and the file for what it prints."""
        ...

    def seconds(self) -> float:
        """How long the next answer may take."""
        ...

    def answered(self, answer: dict[str, Any]) -> None: ...
    def ended(self, how: dict[str, Any]) -> bool:
        """The process is gone: {"hang": seconds} or {"ended": text}. Whether to start it again."""
        ...


class _Process:
    """One running process of a task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.reading, writing = _pipe()
        self._rest = b""
        cwd, log = task.folders()
        self._log = log
        command = [*task.command(), json.dumps({**task.job(), "fd": writing})]
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=(writing,), start_new_session=True, env=dict(task.environ()))
        except OSError as error:
            os.close(self.reading)
            raise CannotError(
                f"The Python {command[0]} that would import the extensions cannot be started "
                f"({error}). Repair that environment, or use --level static.") from error
        finally:
            os.close(writing)
        self._wait_anew()

    def _wait_anew(self) -> None:
        self._limit = self.task.seconds()
        self.deadline = time.monotonic() + self._limit

    def read(self) -> bool:
        """Take what there is; whether more may come."""
        piece = os.read(self.reading, _STEP)
        self._rest += piece
        while b"\n" in self._rest:
            line, _, self._rest = self._rest.partition(b"\n")
            with contextlib.suppress(ValueError, RecursionError):
                answer = json.loads(line)
                if isinstance(answer, dict):
                    self.task.answered(answer)
                    self._wait_anew()  # nonsense wins no time
        return bool(piece) and len(self._rest) < _LONGEST

    def gone(self) -> bool:
        """Whether it ended. A process that it started may still hold its end of the pipe."""
        return self._process.poll() is not None

    def trim(self) -> None:
        """Keep only the end of what it prints where that got too long. The file is open for
        appending there, so what comes next follows that end."""
        with contextlib.suppress(OSError):
            size = self._log.stat().st_size
            if size > _LOG_BYTES:
                with self._log.open("rb+") as log:
                    log.seek(size - _LOG_KEPT)
                    end = log.read(_LOG_KEPT)
                    log.truncate(0)
                    log.seek(0)
                    log.write(end)

    def end(self, late: bool = False) -> dict[str, Any]:
        """Make sure that it and all that it started are gone; how it ended."""
        with contextlib.suppress(OSError):  # closed already where Ctrl-C interrupted its end
            os.close(self.reading)  # whoever writes still is ended by it, and not waited for
        if not late:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_END_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            code = self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL  # it hangs in the driver of a broken GPU: nobody can end it
        return {"hang": self._limit} if late else {"ended": spelt(code), "code": code}


def attend(tasks: Iterable[Task]) -> None:
    """Run all tasks to their end, side by side. Raises CannotError if one cannot be started."""
    running: list[_Process] = []
    with selectors.DefaultSelector() as selector:
        def start(task: Task) -> None:
            process = _Process(task)
            running.append(process)
            selector.register(process.reading, selectors.EVENT_READ, process)

        def finish(process: _Process, late: bool) -> None:
            selector.unregister(process.reading)
            how = process.end(late)
            running.remove(process)  # not before: Ctrl-C may come while its end is waited for
            if process.task.ended(how):
                start(process.task)

        try:
            for task in tasks:
                start(task)
            while running:
                first = min(process.deadline for process in running)
                wait = min(_LOOK_SECONDS, max(0.0, first - time.monotonic()))
                gone = {process for process in running if process.gone()}
                ready = {key.data for key, _ in selector.select(wait)}
                # What is gone and has nothing to read has said all that it had to say.
                for process in ready | gone:
                    if process not in ready or not process.read():
                        finish(process, late=False)
                for process in list(running):
                    process.trim()
                    if process.deadline < time.monotonic():
                        finish(process, late=True)
        finally:
            for process in running:  # only when something was raised, Ctrl-C among them
                process.end(late=True)


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are none of 0, 1 and 2: where one of these is closed (`>&-`), it would
    become an end of the pipe, and then the child's output."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def how_it_ended(end: Mapping[str, Any]) -> str:
    """What became of a process, for a sentence: {"hang": seconds}, or {"ended": exit code or
    text}."""
    if "hang" in end:
        return f"did not come back and was stopped after {end['hang']:g} seconds"
    ended = end["ended"]
    return f"ended the process ({spelt(ended) if isinstance(ended, int) else ended})"


def spelt(code: int) -> str:
    """An exit code in words: "SIGSEGV" or "exit status 3"."""
    try:
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        return f"signal {-code}"
