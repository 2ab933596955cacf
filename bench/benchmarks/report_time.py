"""How long a report takes from the rows of a finished run: goal 2 s, with all its files.

The run is made up: 21 scenarios, 5 rounds of 10 blocks. Started as the command is, in a process of
its own, so that the imports count; beside it, what of it is the result and what are the files.

    python bench/benchmarks/report_time.py
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOAL, LARGEST = 2.0, 1.5e6  # seconds; bytes of the page
TIMES = 5


def write_run(folder: Path) -> None:
    """A folder as a finished run leaves it."""
    sys.path.insert(0, str(ROOT / "tests" / "bench"))
    import made_result

    plan = made_result.plan()
    rows = [{**row, "record": None} if row["row"] == "subject" else row
            for row in made_result.rows(plan)]
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "runs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def seconds(command: list[str]) -> tuple[float, float]:
    """On the clock, and of the processor: on a busy machine the two lie far apart."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def result_seconds(folder: Path) -> float:
    """Of the result alone, without imports."""
    from apexlab.bench.cmd_report import result_of

    started = time.monotonic()
    result_of(folder)
    return time.monotonic() - started


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder)
        command = [str(Path(sys.executable).with_name("apexlab")), "bench", "report", name]
        seconds(command)  # the first writes bytecode and matplotlib's list of fonts
        took, work = map(statistics.median, zip(*(seconds(command) for _ in range(TIMES)),
                                                strict=True))
        idle, _ = map(statistics.median, zip(*(seconds([*command[:3], "--help"])
                                               for _ in range(TIMES)), strict=True))
        print(f"report of a finished run: {took:.2f} s (goal {GOAL} s; {work:.2f} s of the "
              f"processor), of which the command's start {idle:.2f} s and the result "
              f"{result_seconds(folder):.2f} s")
        for file in sorted(folder.iterdir()):
            print(f"  {file.name:12} {file.stat().st_size / 1e3:8.0f} kB")
        page = (folder / "report.html").stat().st_size
    return 0 if took <= GOAL and page <= LARGEST else 1


if __name__ == "__main__":
    sys.exit(main())
