"""Reads the output of a build line by line and knows how far it is.

`Tracker` is pure; `Display` shows what it knows, as one live line on a terminal and as plain
lines elsewhere.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

_BUILDING = re.compile(r"^(?:INFO:\s*)?building '([\w.]+)' extension")
_FILE = re.compile(r"^\[(\d+)/(\d+)\] ")
_AFTER = re.compile(r"^(?:INFO:\s*)?(?:installing to|running install|creating .*bdist)")


@dataclass
class Tracker:
    """The extension being built (`current`, the `index`-th of `total`), its files, and the seconds
    that each finished extension took."""

    total: int
    current: str = ""
    index: int = 0
    files_done: int = 0
    files: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = 0.0

    def feed(self, line: str, now: float) -> str | None:
        """Take one line; a plain line for people where something moved, else None."""
        if found := _BUILDING.match(line):
            self.finish(now)
            # A library for torch.ops carries its extension's name after an underscore.
            name = found[1].rpartition(".")[2].removeprefix("_")
            self.current, self.index = name, self.index + 1
            self.total = max(self.total, self.index)
            self.files_done = self.files = 0
            self._since = now
            return self.text
        if (found := _FILE.match(line)) and self.current:
            self.files_done, self.files = int(found[1]), int(found[2])
            return self.text
        if _AFTER.match(line):
            self.finish(now)
        return None

    def finish(self, now: float) -> None:
        """The current extension is done."""
        if self.current:
            self.seconds[self.current] = round(now - self._since, 1)
            self.current = ""

    @property
    def text(self) -> str:
        """`[2/13] amp_C: 3 of 17 files`."""
        if not self.current:
            return "packing" if self.index else "starting"
        files = f": {self.files_done} of {self.files} files" if self.files else ""
        return f"[{self.index}/{self.total}] {self.current}{files}"


class Display:
    """Shows a Tracker on stderr while the build runs; use as a context manager."""

    def __init__(self, total: int, terminal: bool | None = None) -> None:
        self.tracker = Tracker(total)
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Display:
        if self._terminal:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("starting", total=float(self.tracker.total))
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._bar:
            self._bar.stop()

    def line(self, line: str) -> None:
        """Take one line of the build's output."""
        shown = self.tracker.feed(line, time.monotonic())
        if self._bar:
            self._bar.update(self._task, description=self.tracker.text, completed=self._done())
        elif shown:
            elapsed = int(time.monotonic() - self._start)
            print(f"{elapsed // 60:3}:{elapsed % 60:02} {shown}", file=sys.stderr, flush=True)

    def _done(self) -> float:
        """Extensions done, with the files of the current one as a fraction."""
        tracker = self.tracker
        if not tracker.current:
            return float(tracker.index)
        return tracker.index - 1 + (tracker.files_done / tracker.files if tracker.files else 0.0)
