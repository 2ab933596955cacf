"""What is being measured now and how long it still takes, on stderr."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from apexlab.verify import output


class Times:
    """How long processes take, by what they do: as measured so far, else as planned."""

    def __init__(self, planned: float) -> None:
        self._planned = planned
        self._seen: dict[tuple[str, str], list[float]] = {}

    def add(self, kind: str, scenario: str, seconds: float) -> None:
        self._seen.setdefault((kind, scenario), []).append(seconds)

    def left(self, steps: Iterable[tuple[str, str]]) -> float:
        """Seconds that these (kind, scenario) will take."""
        return sum(self._one(kind, scenario) for kind, scenario in steps)

    def _one(self, kind: str, scenario: str) -> float:
        alike = [seconds for (k, _), all_ in self._seen.items() if k == kind for seconds in all_]
        known = self._seen.get((kind, scenario)) or alike or [self._planned]
        return statistics.median(known)


def spoken(seconds: float) -> str:
    """`40 s`, `3 min`, `1 h 20 min`: nobody needs it closer."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


STAGES = {"start": "starting", "first-step": "first step", "warm-up": "warming up",
          "block": "measuring", "parity": "following the loss"}


def stage(said: Mapping[str, Any]) -> str:
    """A child's line of progress in words."""
    at = str(said.get("at", ""))
    return STAGES.get(at, at)


class Progress(Protocol):
    """Told by the runner what happens; `left`: (kind, scenario) of what is still to be run, the
    one that starts now among them."""

    def begin(self, what: str, left: Sequence[tuple[str, str]]) -> None: ...
    def heard(self, said: Mapping[str, Any]) -> None: ...
    def done(self, kind: str, scenario: str, seconds: float) -> None: ...
    def say(self, sentence: str) -> None: ...
    def close(self) -> None: ...


class Lines:
    """Plain lines, for a file or a pipe."""

    def __init__(self, planned: float) -> None:
        self._times = Times(planned)

    def begin(self, what: str, left: Sequence[tuple[str, str]]) -> None:
        output.complain(f"{what}  ({spoken(self._times.left(left))} left)")

    def heard(self, said: Mapping[str, Any]) -> None:
        pass

    def done(self, kind: str, scenario: str, seconds: float) -> None:
        self._times.add(kind, scenario, seconds)

    def say(self, sentence: str) -> None:
        output.complain(sentence)

    def close(self) -> None:
        pass


class Bar:
    """One moving line, for a terminal."""

    def __init__(self, planned: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._times, self._what, self._spent = Times(planned), "", 0.0
        self._until = time.monotonic()
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20),
            TextColumn("{task.fields[left]}"), console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=1.0, left="")
        self._bar.start()

    def begin(self, what: str, left: Sequence[tuple[str, str]]) -> None:
        seconds = self._times.left(left)
        self._what, self._until = what, time.monotonic() + seconds
        self._bar.update(self._task, description=what, total=self._spent + seconds,
                         completed=self._spent, left=f"{spoken(seconds)} left")

    def heard(self, said: Mapping[str, Any]) -> None:
        left = max(0.0, self._until - time.monotonic())
        self._bar.update(self._task, description=f"{self._what}: {stage(said)}",
                         left=f"{spoken(left)} left")

    def done(self, kind: str, scenario: str, seconds: float) -> None:
        self._times.add(kind, scenario, seconds)
        self._spent += seconds

    def say(self, sentence: str) -> None:
        self._bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()


def progress(planned: float) -> Progress:
    """The one that fits stderr. `planned`: seconds that one process aims to take."""
    # Not rich's own test: FORCE_COLOR makes it take a log file for a terminal.
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Bar(planned) if on_terminal else Lines(planned)
