"""The bench inside its image, on the CPU, and two images against each other from outside."""

from __future__ import annotations

import json
import os

import pytest

pytestmark = pytest.mark.docker
ANY_USER = ("--user", "12345")


def test_the_bench_measures_in_its_image_and_leaves_its_report(bench, tmp_path):
    mount = ("-v", f"{tmp_path}:/results", "--user", f"{os.getuid()}:0")
    done = bench("bench", "train", "--quick", "--device", "cpu", "--rounds", "1", "--json",
                 options=mount)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == "apexlab.bench/1" and result["state"] == "complete"
    measured = {one["name"]: one["state"] for one in result["scenarios"]}
    # Apex's kernels need a GPU, and FP16 training does, too.
    assert measured == {"torch-fp32": "measured", "torch-amp-fp16": "not-available",
                        "apex-fp32": "not-available", "apex-amp-fp16": "not-available"}
    assert result["environment"]["apex"]["label"] == "stand-in"
    folder, = tmp_path.iterdir()
    assert {"result.json", "result.csv", "report.md", "report.html", "runs.jsonl"} <= {
        path.name for path in folder.iterdir()}


def test_without_a_gpu_the_bench_says_so_and_how_to_go_on(bench):
    done = bench("bench", options=ANY_USER)
    assert done.returncode == 4 and "--device cpu" in done.stderr, done.stderr


def test_an_image_against_itself_is_no_regression(bench, run_apexlab, tmp_path):
    out = tmp_path / "ab"
    done = run_apexlab("bench", "ab", bench.name, bench.name, "--device", "cpu", "--quick",
                       "--rounds", "2", "--margin", "50", "--gate", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout == (out / "ab.md").read_text()
    found = json.loads((out / "ab.json").read_text())
    assert found["paired"] and found["regressions"] == 0
    time, = (one for one in found["findings"] if one["metric"] == "time")
    assert time["name"] == "torch-fp32" and time["ratio"] > 0
    for side in "ab":
        rows = [json.loads(line) for line in (out / side / "runs.jsonl").read_text().splitlines()]
        assert {row["round"] for row in rows if row["row"] == "run"} == {0, 1}
        # The look at a scenario is had once, and not in every round.
        looks = [row["scenario"] for row in rows if row["row"] == "look"]
        assert len(looks) == len(set(looks))
