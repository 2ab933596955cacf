"""The next process, started while the one before it is at work: importing torch takes seconds, in
which the GPU has nothing to do. It waits for its task without having touched the GPU."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

Process = subprocess.Popen[bytes]
LEAST_CORES = 4  # with fewer, its import would be in the way of what is measured


class Ahead:
    """`start` starts a process that waits for a line on its stdin. Only one is ever waiting."""

    def __init__(self, start: Callable[[], Process]) -> None:
        self._start = start
        self._waiting: Process | None = None

    def take(self, asked: Path, told: Path) -> Process:
        """A process that begins with the task in `asked` now; the next one is started. Raises
        OSError. One that died while it waited is handed out as well: its last words say why."""
        process, self._waiting = self._waiting or self._start(), None
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(json.dumps([str(asked), str(told)]).encode() + b"\n")
                process.stdin.close()
        with contextlib.suppress(OSError):  # then the next one starts when it is needed
            self._waiting = self._start()
        return process

    def close(self) -> None:
        """End the one that waits."""
        process, self._waiting = self._waiting, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
