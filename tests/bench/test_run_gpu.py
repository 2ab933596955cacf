"""On a GPU: what NVML tells of it, and a whole run of two scenarios."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from apexlab.bench.planning import plan as plans
from apexlab.bench.run.store import read_rows

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent
SOURCES = Path(plans.__file__).parents[3]
VERIFY = SOURCES.parents[1] / "verify" / "src"


def python(gpu, *arguments, timeout=600):
    paths = os.pathsep.join([str(SOURCES), str(VERIFY), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([gpu.python, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env={**gpu.environ, "PYTHONPATH": paths})


@pytest.fixture(scope="module")
def watched(gpu):
    done = python(gpu, HERE / "watch_side.py")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_sensors_of_the_gpu_that_torch_uses_are_read(watched):
    found = watched["found"]
    assert watched["why_none"] == "" and watched["lost"] == ""
    assert found["samples"] >= 8
    assert 200 < found["sm_clock"]["median"] < 4000 and found["memory_clock"]["median"] > 200
    assert 15 < found["temperature"]["median"] < 100
    if watched["uuid"] not in ("None", ""):
        assert watched["uuid"].lower().endswith(watched["uuids"][0])


def test_energy_and_power_agree(watched):
    found = watched["found"]
    if found["energy_joules"] is None or found["power_watts"] is None:
        pytest.skip("this GPU does not tell")
    watts = found["energy_joules"] / watched["seconds"]
    assert 0.7 < watts / found["power_watts"]["median"] < 1.4


def test_a_process_that_computes_is_seen_unless_the_driver_hides_it(watched):
    assert len(watched["during"]) in (len(watched["before"]), len(watched["before"]) + 1)
    assert watched["found"]["other_processes"] <= len(watched["before"])


@pytest.fixture(scope="module")
def gpu_run(gpu, tmp_path_factory):
    where = tmp_path_factory.mktemp("gpu") / "run"
    done = python(gpu, "-c", "from apexlab.bench.cmd_bench import bench; bench(prog_name='bench')",
                  "train", "--quick", "--rounds", "2", "--preset", "tiny", "--scenarios",
                  "torch-fused-amp-bf16", "--profile", "--out", where)
    assert done.returncode == 0, done.stderr
    return where


def test_every_run_on_a_gpu_carries_its_telemetry_and_memory(gpu_run):
    runs = [row for row in read_rows(gpu_run) if row["row"] == "run"]
    assert len(runs) >= 6
    for row in runs:
        assert row["telemetry"] is not None, row["telemetry_why"]
        assert row["telemetry"]["samples"] >= 3
        assert row["result"]["memory"]["allocated"] > 0 and row["driver"]


def test_a_gpu_run_is_a_whole_result_with_traces(gpu_run):
    result = json.loads((gpu_run / "result.json").read_text())
    fp32, bf16 = result["scenarios"]
    assert result["state"] == "complete" and result["environment"]["gpu_id"]
    assert bf16["speedup"]["ratio"] > 0 and bf16["parity"]["verdict"] == "pass"
    assert fp32["phases"] and fp32["kernels_per_step"] > 10
    assert len(list((gpu_run / "traces").iterdir())) == 2
