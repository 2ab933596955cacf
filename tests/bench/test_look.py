"""The look at a scenario and its probes, run on a CPU build of torch in one process for all."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from apexlab.bench.model import shape as shape_module
from apexlab.bench.planning.scenario import scenarios
from apexlab.bench.result import parity
from apexlab.bench.run.apex import Subject
from apexlab.bench.run.proof import judge

pytestmark = pytest.mark.torch
HERE = Path(__file__).parent
SOURCE = Path(shape_module.__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("look").resolve()


@pytest.fixture(scope="module")
def found(torch_python, folder):
    done = subprocess.run([torch_python, HERE / "look_side.py", folder], capture_output=True,
                          text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(SOURCE)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_look_tells_all_that_a_cpu_can(found):
    look = found["everything"]
    assert set(look) == {
        "launches", "kernels", "kernels_per_step", "files", "attention", "norm_dtypes", "syncs",
        "phases", "step_seconds", "gpu_busy", "optimizer_state", "product_error", "trace",
        "parity", "seeds", "warnings", "told"}
    assert look["launches"] == {"instrument": None, "controls": [], "step": []}
    assert [look[name] for name in ("kernels", "kernels_per_step", "syncs", "gpu_busy")] == \
        [[], None, None, None]
    assert look["attention"] == ["flash-cpu"]
    assert look["product_error"] < 1e-6
    assert look["norm_dtypes"] == dict.fromkeys(("input", "weight", "output"), "float32")
    first, *signs = look["told"]
    assert first == ["first-step", 1]
    assert {at for at, _ in signs} == {"block"} and len(signs) > 4  # also while it seeks parity


def test_the_parity_pass_of_the_baseline_is_sound_and_tells_a_spread(found):
    look = found["everything"]
    told = parity.verdict(scenarios()["torch-fp32"], look, look)
    assert told["verdict"] == "baseline", told["why"]
    assert 0 < told["spread"] < 0.05
    assert [len(curve) for curve in look["seeds"]] == [40] * 3
    assert parity.fall(look["parity"]["losses"]) > parity.FALL
    assert look["parity"]["gradient_error"] < 1e-5
    assert look["parity"]["update_error"] < 1e-4


def test_the_norms_types_show_the_control_in_16_bits(found):
    low = found["low"]
    assert low["norm_dtypes"] == {"input": "float32", "weight": "float32", "output": "bfloat16"}
    assert "seeds" not in low


def test_classes_named_as_apexs_prove_nothing(found):
    lie = found["lying"]
    scenario = scenarios()["apex-fp32"]
    assert len(lie["parity"]["losses"]) == 3
    assert lie["files"] == {}
    proof = judge(scenario, lie, Subject(present=True))
    assert proof["verdict"] == "not-proven"
    assert [part["kernels"] for part in proof["parts"]] == [[], []]


def test_a_warning_that_comes_at_every_call_is_told_once(found):
    assert found["lying"]["warnings"] == ["made up, at every call"]
    assert found["everything"]["warnings"] == []
    assert found["texts"] == ["one", "two lines", "x" * 299 + "…"]


def test_a_probe_that_fails_leaves_the_others_alone(found):
    assert found["failing"] == {
        "bug": [None, True, ["the norm's types could not be seen: ValueError: made up"]],
        "memory": "MemoryError", "torch memory": "OutOfMemoryError", "measure": "MeasureError"}


def test_a_loss_that_is_no_number_ends_the_look(found):
    assert found["no_number"].startswith("The loss is nan at step 1")


def test_a_compiled_scenario_that_ran_uncompiled_ends_the_look(found):
    assert "reached its limit of recompilations" in found["recompiled"]


def test_the_parts_of_a_step_add_up_to_it(found):
    for name, (told, steps) in found["split"].items():
        parts = told["phases"]
        assert (parts["scaler"] is None) == name.endswith("None")
        whole = sum(part for part in parts.values() if part is not None)
        # Medians are taken one by one, on a machine that may be busy.
        assert math.isclose(whole, told["step_seconds"], rel_tol=0.8), (name, told)
        assert steps == 10


def test_each_moment_of_a_step_is_in_one_part(found):
    clock = found["ordered_clock"]
    # Marks are a second apart: begin, forward, scaled, backward, optimizer, optimizer, end.
    assert clock["None"] == {"step_seconds": 6, "phases": {
        "forward": 1, "backward": 1, "optimizer": 4, "scaler": None}}
    assert clock["1024.0"] == {"step_seconds": 6, "phases": {
        "forward": 1, "backward": 1, "optimizer": 1, "scaler": 3}}


def test_steps_that_the_scaler_skipped_are_left_out_of_the_parts(found):
    some, every = found["skipping"]
    assert some["phases"]["optimizer"] > 0
    assert every == {"phases": None, "step_seconds": None}


@pytest.mark.parametrize("name", ["gpt", "llama", "fused", "skipped 0", "skipped 3"])
def test_a_right_first_step_agrees_with_fp64(found, name):
    gradient, update = found["first_step"][name]
    assert gradient < parity.SAME_GRADIENT / 100
    assert update < parity.SAME_UPDATE / 100


@pytest.mark.parametrize("name", ["no decay", "lr", "eps"])
def test_a_wrong_number_of_the_optimizer_shows_in_the_update_alone(found, name):
    gradient, update = found["first_step"][name]
    assert gradient < parity.SAME_GRADIENT / 100
    assert update > parity.SAME_UPDATE * 5


def test_a_low_precision_shows_in_the_gradient_alone(found):
    gradient, update = found["first_step"]["bf16"]
    assert gradient > parity.SAME_GRADIENT
    assert update < parity.SAME_UPDATE / 100


def test_errors_that_are_no_numbers_are_none(found):
    assert found["worst"] == [1.0, None, None, None]
    assert found["first_step"]["skipped 100"] == [None, None]


def test_a_curve_repeats_itself_and_depends_on_its_seed(found):
    one, again, other, broken = found["curves"]
    assert one == again != other
    assert broken[0] == one[0]
    assert broken[1:] == [None] * 4  # what JSON has for no number


def test_the_files_of_extensions_are_told_with_links_resolved(found, folder):
    library = str(folder / "_amp_C.abi3.so")
    assert found["files"] == {"amp_C": library, "syncbn": library}


def test_without_a_gpu_the_watched_step_runs_once_and_nothing_is_seen(found):
    seen, ran, before, before_graph = found["watching"]
    assert seen == {"instrument": None, "controls": [], "step": []}
    assert ran == 1
    assert (before, before_graph) == (1, 3)  # the step that captures is the fourth


def test_a_step_that_the_scaler_cut_short_is_not_the_one_to_look_at(found):
    assert found["whole"] == [1, 4, 20, 21]


def test_the_interposer_speaks_if_it_sees(found):
    assert found["told"] == {"both": "interposer", "no interposer": "profiler",
                             "blind interposer": "profiler", "nothing": None}


def test_a_trace_has_named_ranges_and_a_bounded_size(found, folder):
    path, magic, losses, why, left = found["traces"]
    assert (path, magic, losses) == (str(folder / "own.json.gz"), "1f8b", 3)
    events = json.loads(gzip.decompress(Path(path).read_bytes()))["traceEvents"]
    names = [event.get("name") for event in events]
    for name in ("forward", "backward", "optimizer", "step 0", "step 1", "step 2"):
        assert name in names
    assert "more than 10 are not kept" in why
    assert left == []
    assert found["everything"]["trace"] == str(folder / "trace.json.gz")


def test_the_optimizers_state_is_counted(found):
    own, parameters, masters = found["state"]
    assert own["dtypes"] == {"step": "float32", "exp_avg": "float32", "exp_avg_sq": "float32"}
    assert 8 * parameters < own["bytes"] < 8 * parameters + 1000
    assert masters == {"dtypes": {"exp_avg": "float16", "master": "float32"}, "bytes": 28}


def test_the_busy_share_is_of_the_step_and_never_above_all(found):
    assert found["busy"] == [0.5, 1.0, None, None]


def test_a_kernel_has_a_file_where_one_alone_is_known(found):
    assert found["with_files"] == [["b", None], ["c", None], ["a", "/x"]]
