"""What a run came to: the result, its files, the summary, the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apexlab.bench.report.terminal import summary
from apexlab.bench.report.write import PAGE, write_report
from apexlab.bench.result.result import make_result
from apexlab.bench.run.apex import subject_of
from apexlab.bench.run.store import Store, read_plan
from apexlab.verify import output
from apexlab.verify.errors import FALLBACK, OK, PROBLEM, worst


def deliver(store: Store, as_json: bool | None, colour: bool | None) -> int:
    """Write the result and its reports, and print them (not where `as_json` is None); the exit
    code."""
    result = result_of(store.folder, store.rows)
    hand_out(result, store.folder, as_json, colour)
    return exit_code(result)


def hand_out(result: dict[str, Any], folder: Path, as_json: bool | None, colour: bool | None,
             ) -> None:
    """Write the reports of a result of either kind, and print it (not where `as_json` is None)."""
    write_report(folder, result)
    if as_json is not None:
        text = json.dumps(result, indent=1) + "\n" if as_json else \
            summary(result, colour, folder / PAGE)
        output.write(text)


def result_of(folder: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From what the folder holds, and nothing else. Raises UsageError for a plan of another
    version."""
    subject = subject_of(rows)
    runs = [row for row in rows if row["row"] != "subject"]
    return make_result(read_plan(folder), runs, subject["apex"], subject["record"])


@contextmanager
def report_kept(folder: Path) -> Iterator[None]:
    """Around the report of all that was measured: Ctrl-C there loses the report alone."""
    try:
        yield
    except KeyboardInterrupt:
        output.complain(f"All was measured, and is kept: `apexlab bench report {folder}` writes "
                        "the report.")
        raise


def exit_code(result: Mapping[str, Any]) -> int:
    """What cannot run here is no problem; what failed, trained wrongly, or ran other code is."""
    codes = [OK]
    for scenario in result["scenarios"]:
        if scenario["state"] == "failed" or scenario["parity"]["verdict"] == "fail":
            codes.append(PROBLEM)
        if scenario["proof"]["verdict"] == "not-proven" and scenario["state"] != "not-available":
            codes.append(FALLBACK)
    return worst(codes)
