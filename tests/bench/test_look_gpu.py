"""The look at scenarios, and the proof, on a GPU."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
from pathlib import Path

import pytest

from apexlab import bench, verify
from apexlab.bench.model.settings import Settings
from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.result import parity
from apexlab.verify import interposer

pytestmark = pytest.mark.gpu
SIDE = Path(__file__).with_name("look_gpu_side.py")
PARTS = ":".join(str(Path(part.__file__).parents[2]) for part in (bench, verify))
HONEST = ("fp32", "tf32", "bf16", "fp16", "fp16 fused", "lowp", "graph", "compile")
LOW = {"tf32": "tf32", "bf16": "amp-bf16", "fp16": "amp-fp16", "fp16 fused": "amp-fp16",
       "lowp": "amp-bf16", "graph": "amp-bf16", "compile": "amp-bf16"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return interposer.path(tmp_path_factory.mktemp("interposer"))


@pytest.fixture(scope="module")
def found(gpu, library, tmp_path_factory):
    more = {"LD_PRELOAD": str(library)} if library else {}
    done = subprocess.run(
        [gpu.python, SIDE, tmp_path_factory.mktemp("look"), *filter(None, [library])],
        env={**gpu.environ, "PYTHONPATH": PARTS, **more}, capture_output=True, text=True,
        timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", HONEST)
def test_every_probe_gives_an_answer(found, name):
    look = found[name]
    assert not [text for text in look["warnings"] if "could not be seen" in text]
    assert len(look["attention"]) == 1
    assert look["kernels_per_step"] >= 3
    assert 0 < look["gpu_busy"] <= 1
    assert look["step_seconds"] > 0
    assert (look["product_error"] > 1e-5) == (name == "tf32")


@pytest.mark.parametrize("name", HONEST)
def test_a_torch_scenario_runs_kernels_of_torch_alone(found, name):
    assert found[name]["proof"] == {"verdict": "not-needed", "why": "", "parts": []}
    assert found[name]["share"] == 0
    owners = {one["owner"] for one in found[name]["owners"]}
    assert "torch" in owners
    assert ("triton" in owners) == (name == "compile")
    assert math.isclose(sum(one["share"] for one in found[name]["owners"]), 1)


def test_classes_named_as_apexs_with_torchs_kernels_are_not_proven(found):
    proof = found["lying"]["proof"]
    assert proof["verdict"] == "not-proven"
    assert [(part["part"], part["kernels"]) for part in proof["parts"]] == [
        ("optimizer", []), ("norm", [])]


def test_a_timed_process_is_watched_by_the_interposer_alone(found, library):
    seen = found["timed"]
    assert seen["instrument"] == ("interposer" if library else "profiler")
    if library:
        assert all(view["profiler"] is None for check in seen["controls"]
                   for view in check.values())
        assert seen["seconds"] < 2  # the profiler's start alone takes longer
        assert any(one["file"].endswith("libtorch_cuda.so") for one in seen["step"])


def test_the_scaler_of_an_optimizer_without_its_own_makes_the_host_wait(found):
    assert found["fp16"]["syncs"] >= 1
    for name in ("fp32", "bf16", "fp16 fused", "graph"):
        assert found[name]["syncs"] == 0, name


@pytest.mark.parametrize("name", [name for name in HONEST if name != "graph"])
def test_the_parts_of_a_step_add_up_to_it(found, name):
    parts, whole = found[name]["phases"], found[name]["step_seconds"]
    assert (parts["scaler"] is None) == (not name.startswith("fp16"))
    assert math.isclose(sum(filter(None, parts.values())), whole, rel_tol=0.2)


def test_a_replayed_graph_has_no_parts_and_the_kernels_of_its_step(found):
    graph, eager = found["graph"], found["bf16"]
    assert graph["phases"] is None
    assert math.isclose(graph["kernels_per_step"], eager["kernels_per_step"], rel_tol=0.2)


def test_the_norms_run_in_the_types_that_autocast_gives_them(found):
    for name, output in (("fp32", "float32"), ("bf16", "float32"), ("lowp", "bfloat16")):
        assert found[name]["norm_dtypes"] == {"input": "float32", "weight": "float32",
                                              "output": output}


@pytest.mark.parametrize("name", LOW)
def test_a_sound_scenario_passes_parity(found, name):
    scenario = Scenario(name, Settings(precision=LOW[name]))
    told = parity.verdict(scenario, found[name], found["fp32"])
    assert told["verdict"] == "pass", told


def test_another_implementation_in_fp32_agrees_from_the_first_step(found):
    told = parity.verdict(Scenario("lying", Settings()), found["lying"], found["fp32"])
    assert told["verdict"] == "pass", told


@pytest.mark.parametrize("name", HONEST)
def test_a_look_is_short(found, name):
    assert found[name]["seconds"] < (60 if name == "compile" else 12), name


def test_the_trace_shows_kernels_and_ranges(found):
    path = Path(found["bf16"]["trace"])
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert {"forward", "backward", "optimizer", "step 2"} <= {one.get("name") for one in events}
    assert any(one.get("cat") == "kernel" for one in events)
