"""python -m apexlab.bench.measure.worker TASK.json RESULT.json: one task in its own process.

With `--wait` in place of the files it imports torch, touches no GPU, and waits for a line on stdin
that names them: ["TASK.json", "RESULT.json"].

What stops a task is its result: `failed` or `unavailable`, and why. Only a signal, or a result
that cannot be written, leaves none.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from apexlab.bench.measure.endings import ending
from apexlab.bench.measure.task import parts
from apexlab.verify.errors import ApexlabError
from apexlab.verify.output import complain, write_file


def age() -> float:
    """Seconds since this process was started, the interpreter's own start included."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    started = int(fields.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


class Age:
    """Seconds that a process needed so far; what it waited for its task does not count."""

    def __init__(self) -> None:
        self._before, self._since = age(), time.perf_counter()

    def __call__(self) -> float:
        return self._before + time.perf_counter() - self._since

    def resume(self, before: float) -> None:
        """Go on counting now, from the age `before` the wait."""
        self._before, self._since = before, time.perf_counter()


AGE = Age()


def waited() -> tuple[Path, Path] | None:
    """The files of the task, once there is one; None when there will be none."""
    with contextlib.suppress(ImportError):  # what is not there is told when it is needed
        import torch._dynamo  # noqa: F401  what the first optimizer imports, in seconds

        from apexlab.bench.measure import timing  # noqa: F401
    before = AGE()
    line = sys.stdin.readline()
    AGE.resume(before)
    if not line.strip():
        return None
    asked, told = json.loads(line)
    return Path(asked), Path(told)


def tell(at: str, step: int) -> None:
    """One line for who waits; it is printed between blocks, never inside one."""
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps({"at": at, "step": step}), flush=True)


class Worker:
    """A task and how far it came; `done` counts training steps."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.timed: Any = None
        self.result: dict[str, Any] = {"kind": task["kind"], "environment": {}}

    @property
    def done(self) -> int | None:
        return getattr(getattr(self.timed, "training", None), "done", None)

    def run(self) -> dict[str, Any]:
        """The whole result; whatever was raised is in it."""
        try:
            found = self.look() if self.task["kind"] == "look" else self.time()
            whole = {**self.result, "ending": "finished", "why": "", **found}
            json.dumps(whole, allow_nan=False)
        except (Exception, SystemExit) as error:
            how, why = ending(error, self.done)
            return {**self.result, "ending": how, "why": why}
        return whole

    def time(self) -> dict[str, Any]:
        # torch is imported here, so that even its absence is a result.
        from apexlab.bench.measure.environment import environment
        from apexlab.bench.measure.ranks import join
        from apexlab.bench.measure.timing import Timed

        shape, settings = parts(self.task)
        ranks = join(self.task["device"], self.task["gpus"], settings)
        self.result["environment"] = environment(ranks)
        self.timed = Timed(self.task, shape, settings, ranks, tell)
        self.timed.build()
        self.timed.begin(AGE)
        self.timed.measure(self.timed.settle())
        ranks.close()
        return dict(self.timed.found)

    def look(self) -> dict[str, Any]:
        from apexlab.bench.measure.environment import environment
        from apexlab.bench.measure.look import look
        from apexlab.bench.measure.ranks import join

        _, settings = parts(self.task)
        self.result["environment"] = environment(join(self.task["device"], 1, settings))
        return look(self.task, tell)


def main(asked: Path, told: Path) -> int:
    """The exit code: 0 when a result was written. One of several ranks that failed ends with 1,
    for that is how torchrun knows to end the others."""
    tell("start", 0)
    task = json.loads(asked.read_text(encoding="utf-8"))
    result = Worker(task).run()
    rank, finished = int(os.environ.get("RANK", "0")), result["ending"] == "finished"
    if finished and rank:
        return 0
    if task["gpus"] > 1 and not finished:
        result["why"] = f"rank {rank}: {result['why']}"
        if told.exists():  # who failed first says why; the others only missed it
            return 1
    write_file(told, json.dumps(result, allow_nan=False))
    return 0 if finished or task["gpus"] == 1 else 1


if __name__ == "__main__":
    # At once, also in the middle of a call of torch's, and without a result.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    try:
        files = waited() if sys.argv[1] == "--wait" else (Path(sys.argv[1]), Path(sys.argv[2]))
        code = main(*files) if files else 0
    except ApexlabError as error:
        complain(str(error))
        code = error.exit_code
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # What is left is taken down by the system: a broken GPU would hang Python's own end.
    os._exit(code)
