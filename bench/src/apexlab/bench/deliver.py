"""What a run came to: the result, its files, the summary, the exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apexlab.bench.result import make_result
from apexlab.bench.store import Store, read_plan
from apexlab.bench.terminal import summary
from apexlab.bench.write import PAGE, write_report
from apexlab.verify import output
from apexlab.verify.errors import FALLBACK, OK, PROBLEM, worst


def deliver(store: Store, as_json: bool | None, colour: bool | None) -> int:
    """Write the result and its reports, and print them (not where `as_json` is None); the exit
    code."""
    result = result_of(store.folder, store.rows)
    write_report(store.folder, result)
    if as_json is not None:
        text = json.dumps(result, indent=1) + "\n" if as_json else \
            summary(result, colour, store.folder / PAGE)
        output.write(text)
    return exit_code(result)


def result_of(folder: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From what the folder holds, and nothing else. Raises UsageError for a plan of another
    version."""
    subject = [row for row in rows if row["row"] == "subject"][-1]
    runs = [row for row in rows if row["row"] != "subject"]
    return make_result(read_plan(folder), runs, subject["apex"], subject["record"])


def exit_code(result: Mapping[str, Any]) -> int:
    """What cannot run here is no problem; what failed, trained wrongly, or ran other code is."""
    codes = [OK]
    for scenario in result["scenarios"]:
        if scenario["state"] == "failed" or scenario["parity"]["verdict"] == "fail":
            codes.append(PROBLEM)
        if scenario["proof"]["verdict"] == "not-proven" and scenario["state"] != "not-available":
            codes.append(FALLBACK)
    return worst(codes)
