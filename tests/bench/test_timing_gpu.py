"""The timing on a GPU: events, memory, the scaler, and that nothing in a block waits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from apexlab import bench, verify

pytestmark = pytest.mark.gpu
SIDE = Path(__file__).with_name("gpu_time_side.py")
PARTS = ":".join(str(Path(part.__file__).parents[2]) for part in (bench, verify))


def said(gpu, *arguments):
    done = subprocess.run([gpu.python, *arguments], env={**gpu.environ, "PYTHONPATH": PARTS},
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found(gpu, tmp_path_factory):
    return json.loads(said(gpu, SIDE, tmp_path_factory.mktemp("text")).splitlines()[-1])


def test_no_step_of_a_block_waits_for_the_gpu(found):
    assert found["no_wait"] == {"stream": False, "text": False, "control": True}


def test_the_gpus_clock_and_the_hosts_agree_about_a_block(found):
    host, events, steps, told = found["events"]
    assert told == steps
    assert 0.7 * host < events < 1.02 * host


def test_skipped_steps_void_a_block_and_too_many_end_the_run(found):
    skips = found["skips"]
    assert skips["none"] == [0, 3]
    assert skips["one"] == skips["one, fused"] == [1, 3]
    kind, message = skips["ever"]
    assert kind == "MeasureError"
    assert "6 blocks" in message


def test_peaks_are_those_of_the_step_and_of_the_optimizer(found):
    memories = found["memories"]
    plain, greedy = memories["plain"], memories["greedy"]
    assert memories["least"] < plain["allocated"] <= plain["active"] <= plain["reserved"]
    assert plain["retries"] == 0
    assert plain["process"] > 2**26
    assert 0 < memories["plain optimizer"] <= plain["active"]
    taken = 512 * 2**20
    assert memories["greedy optimizer"] >= memories["plain optimizer"] + 0.9 * taken
    assert greedy["allocated"] >= memories["greedy optimizer"] * 0.99


def test_a_graph_has_the_memory_of_its_capture(found):
    memories = found["memories"]
    graph = memories["graph"]
    assert graph["allocated"] <= graph["active"] <= graph["reserved"]
    assert 0.7 * memories["plain"]["allocated"] < graph["allocated"]
    assert memories["graph optimizer"] is None


def test_no_memory_is_told_with_what_was_asked_for(found):
    ending, why = found["no_memory"]
    assert ending == "failed"
    assert why.startswith("out of memory: step 1 does not fit. 131072.00 GiB more")


@pytest.mark.parametrize("name", ["fp16", "graph", "compiled", "text"])
def test_a_scenario_is_measured_whole(found, name):
    result = found["whole"][name]
    assert (result["ending"], result["why"]) == ("finished", "")
    assert len(result["blocks"]) == 3
    assert len(result["steps"]) == 3 * result["steps_per_block"]
    assert result["skipped"] == 0
    assert result["losses"]["last"] < result["losses"]["first"]
    assert result["environment"]["capability"]
    assert result["memory"]["reserved"] > 0
    assert (result["data_wait"] is None) == (name != "text")


def test_two_gpus_are_timed_together(gpu, tmp_path):
    if gpu.count < 2:
        pytest.skip("there is one GPU")
    (tmp_path / "task.json").write_text(said(gpu, SIDE, tmp_path, "2"))
    said(gpu, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
         "--nproc-per-node", "2", "-m", "apexlab.bench.measure.worker",
         tmp_path / "task.json", tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["ending"], result["why"]) == ("finished", "")
    first, second = (row["blocks"] for row in result["ranks"])
    assert len(first) == len(second) == len(result["blocks"]) == 3
    assert first == pytest.approx(second, rel=0.2)
