"""The whole command with real training, as a person without a GPU has it."""

from __future__ import annotations

import json

import pytest

from apexlab.bench.run.store import read_plan, read_rows

pytestmark = pytest.mark.torch


def test_it_ends_in_time_with_every_report(cpu_run):
    """45 s on two cores: 90 s of processor time, and both cores are never busy all the time."""
    assert cpu_run.seconds < 75
    files = {path.name for path in cpu_run.folder.iterdir()}
    assert files == {"plan.json", "runs.jsonl", "result.json", "result.csv", "report.md",
                     "report.html"}
    assert str(cpu_run.folder / "report.html") in cpu_run.done.stdout


def test_the_baseline_is_measured_and_the_rest_is_not_available(cpu_run):
    result = json.loads((cpu_run.folder / "result.json").read_text())
    states = {each["name"]: each["state"] for each in result["scenarios"]}
    assert states == {"torch-fp32": "measured", "torch-amp-fp16": "not-available",
                      "apex-fp32": "not-available", "apex-amp-fp16": "not-available"}
    assert result["state"] == "complete" and result["noise"]["noise"] != "unknown"
    baseline = result["scenarios"][0]
    assert baseline["tokens_per_second"] > 0 and baseline["parity"]["verdict"] == "baseline"


def test_every_process_had_the_same_weights_and_its_own_times(cpu_run):
    runs = [row["result"] for row in read_rows(cpu_run.folder) if row["row"] == "run"]
    assert len(runs) == 6 and len({run["weights"] for run in runs}) == 1
    assert len({tuple(run["blocks"]) for run in runs}) == 6
    assert all(len(run["blocks"]) == read_plan(cpu_run.folder)["timing"]["blocks"]
               for run in runs)


def test_the_parent_never_imports_torch_or_the_charts_for_its_help(torch_python):
    import subprocess

    script = ("import sys; from apexlab.verify.main import run; code = run(sys.argv[1:]); "
              "print(code, sorted({'torch', 'matplotlib', 'pynvml'} & set(sys.modules)))")
    for arguments in (["bench", "--help"], ["bench", "train", "--help"], ["bench"]):
        done = subprocess.run([torch_python, "-c", script, *arguments], capture_output=True,
                              text=True, timeout=60)
        assert done.stdout.splitlines()[-1].endswith(" []"), arguments
