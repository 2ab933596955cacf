"""Runs the build as a child with a session of its own: log, peak memory, no orphans.

ninja gives every compiler a process group of its own, so a group is not enough to find them all
again; the session is, and it also tells which processes' memory to add up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PEAK_SOURCE = "resident memory of all build processes, added up every 0.25 s"
_INTERVAL = 0.25
_GRACE = 5.0


@dataclass(frozen=True)
class Ended:
    """How the child ended: its exit code (negative for a signal), seconds, peak memory in bytes."""

    code: int
    seconds: float
    peak: int


def run(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path,
    on_line: Callable[[str], None],
) -> Ended:  # fmt: skip
    """Run `command`; each line of its output goes to `log` and to `on_line`.

    However this function is left, by Ctrl-C or SIGTERM too (then with KeyboardInterrupt), no
    process of the session is alive afterwards.
    """
    start = time.monotonic()
    with terminate_as_interrupt(), log.open("w", errors="replace") as out:
        child = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        sampler = _Sampler(child.pid)
        try:
            sampler.start()
            assert child.stdout is not None  # noqa: S101 - it is, with stdout=PIPE
            for line in child.stdout:
                out.write(line)
                on_line(line.rstrip("\n"))
            code = child.wait()
        finally:
            sampler.stop()
            _end_session(child)
    return Ended(code, time.monotonic() - start, sampler.peak)


def session_processes(session: int) -> Iterator[tuple[int, int]]:
    """(pid, resident bytes) of every living process in `session`."""
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold blanks; what follows it is plain.
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # state, ppid, pgrp, session, ... ; the resident pages are the 22nd from here.
        if int(words[3]) == session and words[0] != "Z":
            yield int(entry.name), int(words[21]) * page


def _end_session(child: subprocess.Popen[str]) -> None:
    """End whatever is left of the child's session: asked first, so that ninja can tidy up."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _GRACE
        while left := [pid for pid, _ in session_processes(child.pid)]:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
            child.poll()
    if child.stdout:
        child.stdout.close()
    child.wait()


@contextlib.contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """`docker stop` and CI send SIGTERM: leave by the same way as Ctrl-C, and end the compilers."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Sampler(threading.Thread):
    """Adds up the session's resident memory until stopped; `peak` is the largest sum seen."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._session = session
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(_INTERVAL):
            self.peak = max(self.peak, sum(size for _, size in session_processes(self._session)))

    def stop(self) -> None:
        self._done.set()
        self.join()
