"""Runs one bake: a definition goes in; progress, a log and an error that says why come out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.build.errors import EngineError, ImageBuildError
from apexlab.build.image_failures import explain, own_words
from apexlab.build.image_progress import Tracker
from apexlab.build.runner import terminate_as_interrupt

_TAIL = 30
_GRACE = 30


@dataclass(frozen=True)
class Baked:
    """A bake that succeeded: its seconds and the file with all that it printed."""

    seconds: float
    log: Path


def bake(
    definition: dict[str, Any], root: Path, log: Path, show: Callable[[str], None],
    command: tuple[str, ...] = ("docker", "buildx", "bake", "--progress", "plain", "--file", "-"),
) -> Baked:  # fmt: skip
    """Build all of `definition` from the checkout `root`; `show` gets the lines for people.

    Raises ImageBuildError or EngineError; nothing is tagged then, since BuildKit names an image
    only when it is whole. With Ctrl-C or SIGTERM the child is asked to stop and
    waited for: left alone, it would go on and tag.
    """
    # The definition names folders by itself, so newer versions of bake need not ask about them.
    env = {**os.environ, "BUILDX_BAKE_ENTITLEMENTS_FS": "0", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
    log.parent.mkdir(parents=True, exist_ok=True)
    tracker, start = Tracker(), time.monotonic()
    with terminate_as_interrupt(), log.open("w") as out:
        child = subprocess.Popen(command, cwd=root, env=env, text=True, errors="replace",
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)  # fmt: skip
        try:
            code = _follow(child, json.dumps(definition), tracker, out.write, show)
        except BaseException:
            _stop(child)
            raise
    if code:
        raise failure(tracker, log.read_text().splitlines(), log)
    return Baked(time.monotonic() - start, log)


def failure(tracker: Tracker, lines: list[str], log: Path) -> EngineError | ImageBuildError:
    """The error for a bake that failed after printing `lines`."""
    step = tracker.tail(1000)
    end = f"No image was tagged. Full log: {log}"
    where = f"The build stopped at {tracker.failed.name}" if tracker.failed else "The build stopped"
    if words := own_words(step):
        return ImageBuildError(f"{where}. {words}\n{end}")
    # Warnings of steps that went well (a retry of pip) must not decide, so only the end is read.
    evidence = [*step, *tracker.errors] if tracker.failed else lines[-40:]
    if why := explain(evidence):
        return EngineError(f"{where}. {why}\n{end}")
    last = (tracker.tail(1) or tracker.errors or ["it printed nothing"])[-1]
    return ImageBuildError(f"{where}: {last.strip()}\n{end}")


def _follow(
    child: subprocess.Popen[str], text: str, tracker: Tracker, write: Callable[[str], Any],
    show: Callable[[str], None],
) -> int:  # fmt: skip
    """Feed the child and read it to its end; its exit code."""
    if child.stdin is None or child.stdout is None:
        raise AssertionError("the child has no pipes")
    with contextlib.suppress(BrokenPipeError):  # it ended before it read; its output says why
        child.stdin.write(text)
        child.stdin.close()
    for line in child.stdout:
        write(line)
        if (shown := tracker.feed(line.rstrip("\n"))) is not None:
            show(shown)
    code = child.wait()
    if code:
        step = tracker.tail(1000)
        # Where apexlab itself said why, that is the error message; else the output has to do.
        for line in () if own_words(step) else step[-_TAIL:]:
            show(f"| {line}")
    return code


def _stop(child: subprocess.Popen[str]) -> None:
    """Ask the child to stop, as Ctrl-C would, and wait; BuildKit then drops what is unfinished."""
    child.send_signal(signal.SIGINT)
    try:
        child.communicate(timeout=_GRACE)
    except (subprocess.TimeoutExpired, ValueError):
        child.kill()
        child.wait()
