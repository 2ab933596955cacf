"""What a person sees while a long step runs: one live line on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from typing import Any


class Display:
    """Shows short lines on stderr; use as a context manager. Lines that begin with `|` are output
    of a failed step and always stay."""

    def __init__(self, title: str, terminal: bool | None = None) -> None:
        self._title = title
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._start = time.monotonic()
        self._live: Any = None

    def __enter__(self) -> Display:
        if self._terminal:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            # No markup: the lines hold brackets, `[2/13] amp_C`.
            self._live = Progress(SpinnerColumn(), TextColumn("{task.description}", markup=False),
                                  TimeElapsedColumn(), console=Console(stderr=True),
                                  transient=True)  # fmt: skip
            self._live.add_task(f"{self._title}: starting", total=None)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def line(self, text: str) -> None:
        """Show one line."""
        if text.startswith("|"):
            if self._live:
                self._live.console.print(text, markup=False, highlight=False)
            else:
                print(text, file=sys.stderr, flush=True)
        elif self._live:
            self._live.update(self._live.task_ids[0], description=f"{self._title}: {text}")
        else:
            elapsed = int(time.monotonic() - self._start)
            print(f"{elapsed // 60:3}:{elapsed % 60:02} {text}", file=sys.stderr, flush=True)
