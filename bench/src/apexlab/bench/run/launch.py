"""One process for one task: started, listened to, and gone afterwards with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.bench.run.ahead import Ahead, Process
from apexlab.verify import child
from apexlab.verify.errors import CannotError
from apexlab.verify.process import spelt

WORKER = "apexlab.bench.measure.worker"
TAIL = 1 << 16  # of what a process prints; it may print without end
SHOWN = 400
_LAST_SECONDS = 30.0  # from the result to the end of the process
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_STEP = 1 << 16
_LONGEST_LINE = 1 << 16

Heard = Callable[[Mapping[str, Any]], None]
Start = Callable[[int], Sequence[str]]


def worker(gpus: int) -> Sequence[str]:
    """How the worker is started; the task's file and the result's follow."""
    if gpus == 1:
        return (sys.executable, "-m", WORKER)
    # The address is given, since a container's own name need not resolve.
    return (sys.executable, "-m", "torch.distributed.run", "--standalone",
            "--local-addr", "127.0.0.1", "--nproc-per-node", str(gpus), "-m", WORKER)


def begun(command: Sequence[str], cwd: Path, environ: Mapping[str, str],
          stdin: int = subprocess.DEVNULL) -> Process:
    """A process in a session of its own. Raises OSError."""
    return subprocess.Popen(command, cwd=cwd, env=dict(environ), stdin=stdin,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


@dataclass(frozen=True)
class Launcher:
    """`folder`: an empty place for files; `environ`: the same for every process; `silence`:
    seconds without a sign of life after which one is taken for hung; `ahead`: starts the next
    process early, where that is no hindrance."""

    folder: Path
    environ: Mapping[str, str]
    silence: float
    start: Start = worker
    ahead: Ahead | None = None

    def waiting(self) -> Process:
        """A worker that waits for its task. Raises OSError."""
        return begun((*self.start(1), "--wait"), self._cwd(), self.environ, subprocess.PIPE)

    def close(self) -> None:
        """End what was started early."""
        if self.ahead is not None:
            self.ahead.close()

    def _cwd(self) -> Path:
        """Where no module of the user's can be taken for Apex or torch."""
        cwd = self.folder / "empty"
        cwd.mkdir(exist_ok=True)
        return cwd

    def run(self, task: Mapping[str, Any], heard: Heard = lambda _: None) -> dict[str, Any]:
        """The result of the task; one that says `failed` and why, where the process left none.

        Raises CannotError when no process can be started at all.
        """
        asked, told = self.folder / "task.json", self.folder / "result.json"
        told.unlink(missing_ok=True)
        asked.write_text(json.dumps(task))
        command = [*self.start(task["gpus"]), str(asked), str(told)]
        child.adopt_orphans()
        try:
            if self.ahead is not None and task["gpus"] == 1:
                process = self.ahead.take(asked, told)
            else:
                process = begun(command, self._cwd(), self.environ)
        except OSError as error:
            raise CannotError(f"The process that measures cannot be started: {command[0]}: "
                              f"{error.strerror}. Repair that Python.") from error
        before = child.children()  # the one that waits for the next task is not ended with this
        listener = _Listener(process, told, self.silence, heard)
        try:
            late = listener.attend()
        finally:
            code = _end(process, before)
        result = _read(told, task)
        return result or _failed(task, _why(code, late, self.silence, listener.tail),
                                 listener.tail)


class _Listener:
    """Reads what a process says: lines of JSON on stdout, whatever it likes on stderr."""

    def __init__(self, process: Process, told: Path, silence: float,
                 heard: Heard) -> None:
        self.process, self.told, self.silence, self.heard = process, told, silence, heard
        self.tail, self._line = b"", b""
        self._wait_anew()

    def _wait_anew(self) -> None:
        self.deadline = time.monotonic() + self.silence

    def attend(self) -> bool:
        """Until it is gone; whether that took too long. What a grandchild still holds open is not
        waited for."""
        closing: float | None = None
        with selectors.DefaultSelector() as selector:
            for stream, take in ((self.process.stdout, self._lines),
                                 (self.process.stderr, self._log)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, take)
            while True:
                gone = self._gone(0.0 if selector.get_map() else _LOOK_SECONDS)
                ready = selector.select(0.0 if gone else _LOOK_SECONDS) \
                    if selector.get_map() else []
                for key, _ in ready:
                    if piece := os.read(key.fd, _STEP):
                        key.data(piece)
                    else:
                        selector.unregister(key.fileobj)
                if gone and not ready:
                    return False
                if closing is None and self.told.exists():
                    closing = time.monotonic() + _LAST_SECONDS
                if time.monotonic() > min(self.deadline, closing or self.deadline):
                    return True

    def _gone(self, seconds: float) -> bool:
        """Whether it ended, at the latest after these seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _log(self, piece: bytes) -> None:
        self.tail = (self.tail + piece)[-TAIL:]

    def _lines(self, piece: bytes) -> None:
        *lines, self._line = (self._line + piece).split(b"\n")
        self._line = self._line[-_LONGEST_LINE:]
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                said = json.loads(line)
                if isinstance(said, dict) and "at" in said:
                    self.heard(said)
                    self._wait_anew()


def _end(process: Process, before: set[int]) -> int:
    """Make sure that it and all that it started are gone. What torchrun starts is in sessions of
    its own: as orphans these processes become ours, and are ended one by one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        code = process.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        code = -signal.SIGKILL  # it hangs in the driver of a broken GPU: nobody can end it
    child.end_orphans(before | {process.pid})
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return code


def _read(told: Path, task: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        result = json.loads(told.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    sound = isinstance(result, dict) and result.get("kind") == task["kind"] \
        and result.get("ending") in ("finished", "failed", "unavailable")
    return result if sound else None


def _why(code: int, late: bool, silence: float, tail: bytes) -> str:
    if late:
        why = f"hung: its process gave no sign of life for {silence:g} seconds and was stopped."
    elif code == -signal.SIGKILL:
        why = ("its process was killed by SIGKILL, as the system does when memory runs out.")
    elif code < 0:
        why = f"its process was killed by {spelt(code)}."
    else:
        why = f"its process ended without a result ({spelt(code)})."
    words = last_words(tail)
    return f"{why} It said last: {words}" if words else why


def last_words(tail: bytes) -> str:
    """The last line of what was printed."""
    lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:SHOWN] if lines else ""


def _failed(task: Mapping[str, Any], why: str, tail: bytes) -> dict[str, Any]:
    return {"kind": task["kind"], "ending": "failed", "why": why, "environment": {},
            "log": tail.decode("utf-8", "replace")[-4000:]}
