"""The whole command with real training, as a person without a GPU has it."""

from __future__ import annotations

import json
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from apexlab.bench.report.markdown import markdown
from apexlab.bench.report.tables import csv_text
from apexlab.bench.report.terminal import summary
from apexlab.bench.result.result_file import SCHEMA_FILE, read_result
from apexlab.bench.run.store import read_plan, read_rows

pytestmark = pytest.mark.torch
QUICK_CPU = ("bench", "train", "--device", "cpu", "--quick", "--ladder", "classic")


@dataclass(frozen=True)
class CpuRun:
    """A finished run on the CPU: its folder, the processor time of all its processes, and how its
    command ended."""

    folder: Path
    seconds: float
    done: subprocess.CompletedProcess


def processor_time() -> float:
    """Seconds of all processes that ended below this one: other work on the machine, which may be
    much, does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def cpu_run(torch_python, tmp_path_factory) -> CpuRun:
    """`apexlab bench train --device cpu --quick --ladder classic`, once for all tests."""
    folder = tmp_path_factory.mktemp("cpu") / "run"
    before = processor_time()
    done = subprocess.run(
        [torch_python.with_name("apexlab"), *QUICK_CPU, "--out", folder], capture_output=True,
        text=True, timeout=600, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return CpuRun(folder, processor_time() - before, done)


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


def test_the_result_of_a_real_run_keeps_the_schema(cpu_run):
    result = read_result(cpu_run.folder)
    jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text())).validate(result)
    assert result["state"] == "complete"


def test_a_real_run_has_times_parity_and_reasons(cpu_run):
    scenarios = {each["name"]: each for each in read_result(cpu_run.folder)["scenarios"]}
    base = scenarios["torch-fp32"]
    assert base["time"]["count"] >= 10
    assert base["parity"]["verdict"] == "baseline"
    assert base["losses"][-1] < 0.8 * base["losses"][0]
    assert base["memory"]["process"] > 2**27
    assert base["phases"]["forward"] > 0
    assert "not available on a CPU" in scenarios["torch-amp-fp16"]["why"]


def test_the_files_of_a_real_run_are_what_its_result_says(cpu_run):
    result = read_result(cpu_run.folder)
    assert (cpu_run.folder / "result.csv").read_text() == csv_text(result)
    assert (cpu_run.folder / "report.md").read_text() == markdown(result)
    assert cpu_run.done.stdout == summary(result, False, cpu_run.folder / "report.html")


def test_the_parent_never_imports_torch_or_the_charts_for_its_help(torch_python):
    script = ("import sys; from apexlab.verify.main import run; code = run(sys.argv[1:]); "
              "print(code, sorted({'torch', 'matplotlib', 'pynvml'} & set(sys.modules)))")
    for arguments in (["bench", "--help"], ["bench", "train", "--help"], ["bench"]):
        done = subprocess.run([torch_python, "-c", script, *arguments], capture_output=True,
                              text=True, timeout=60)
        assert done.stdout.splitlines()[-1].endswith(" []"), arguments
