"""The files of a real run on the CPU, as its result describes them."""

import json

import jsonschema
import pytest

from apexlab.bench.report.markdown import markdown
from apexlab.bench.report.tables import csv_text
from apexlab.bench.report.terminal import summary
from apexlab.bench.result.result_file import SCHEMA_FILE, read_result

pytestmark = pytest.mark.torch


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
