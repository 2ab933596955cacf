"""The model and its training step, run on a CPU build of torch in one process for all tests."""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from apexlab.bench.model import shape as shape_module

pytestmark = pytest.mark.torch
HERE = Path(__file__).parent
SOURCE = Path(shape_module.__file__).parent


@pytest.fixture(scope="module")
def found(torch_python):
    done = subprocess.run(
        [torch_python, HERE / "torch_side.py", HERE.parent / "standin"], capture_output=True,
        text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(SOURCE.parents[2])})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_shape_counts_the_parameters_that_its_model_has(found):
    for name, (counted, there) in found["parameters"].items():
        assert counted == there, name
    assert 124e6 < found["parameters"]["gpt"][0] < 125e6


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_initial_weights_are_the_same_for_every_factory_and_order(found, kind):
    digests = {name: value for name, value in found["same_weights"].items() if kind in name}
    other = digests.pop(f"{kind} from another seed")
    assert len(digests) == 5
    assert len(set(digests.values())) == 1, digests
    assert other not in digests.values()


def test_initial_weights_have_the_spread_that_was_meant(found):
    firsts = [first for name, _, spread, first in found["first_values"] if spread]
    assert len(set(firsts)) == len(firsts) == 10
    for name, mean, spread, _ in found["first_values"]:
        if name.endswith("bias"):
            assert (mean, spread) == (0, 0), name
        elif "norm" in name:
            assert (mean, spread) == (1, 0), name
        else:
            smaller = name.endswith(("out.weight", "down.weight"))
            assert math.isclose(spread, 0.01 if smaller else 0.02, rel_tol=0.1), name
            assert abs(mean) < 0.002, name


def test_the_loss_falls_on_a_stream_that_can_be_learned(found):
    for name, losses in found["learning"].items():
        assert abs(losses[0] - math.log(64)) < 0.1, name
        assert sum(losses[-5:]) / 5 < losses[0] - 0.5, (name, losses)


def test_torchs_three_implementations_and_the_fallback_norms_train_alike(found):
    runs = found["learning"]
    for name, twin in [("torch-loop", "gpt"), ("torch-fused", "gpt"), ("gpt apex", "gpt"),
                       ("llama apex", "llama")]:
        for ours, theirs in zip(runs[name], runs[twin], strict=True):
            assert math.isclose(ours, theirs, rel_tol=1e-4), name


@pytest.mark.parametrize("low", ["gpt bf16", "gpt lowp", "llama bf16", "llama lowp"])
def test_bf16_is_close_to_fp32_and_not_the_same(found, low):
    first, exact = found["learning"][low], found["learning"][low.split()[0]]
    assert first != exact
    assert low.endswith("bf16") or first != found["learning"][low.replace("lowp", "bf16")]
    for ours, theirs in zip(first, exact, strict=True):
        assert math.isclose(ours, theirs, rel_tol=0.02)


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_fp32_agrees_with_a_plain_formulation_in_float64(found, kind):
    logits, loss = found["against_float64"][kind]
    assert logits < 2e-5, logits
    assert loss < 2e-6, loss


def test_every_norm_has_the_same_epsilon_and_the_control_stays_in_16_bits(found):
    assert len(found["norms"]) == 6
    for name, (dtype, error) in found["norms"].items():
        low = name.endswith("lowp")
        assert error < (0.02 if low else 1e-5), (name, error)
        if low:
            assert dtype == "torch.bfloat16"
    assert found["norms"]["gpt torch"][0] == "torch.float32"


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_no_token_sees_a_later_one(found, kind):
    before, after = found["future_is_hidden"][kind]
    assert before == 0 < after


def test_every_optimizer_gets_the_same_numbers_and_its_own_implementation(found):
    groups = found["hyperparameters"]
    for name, (module, *numbers) in groups.items():
        assert module.startswith(name.split("-")[0]), name
        assert [round(number, 6) for number in numbers[:5]] == [0.5, 0.1, 0.2, 0.3, 0.4], name
        assert numbers[-1] == 1, name
    switches = {name: tuple(group[6:10]) for name, group in groups.items()}
    assert switches == {
        "torch-loop": (False, False, None, None), "torch-foreach": (True, None, None, None),
        "torch-fused": (None, True, None, None), "apex": (None, None, False, False),
        "apex-capturable": (None, None, True, False), "apex-master": (None, None, True, True)}


def test_a_step_never_waits_for_the_device(found):
    syncs = found["host_syncs"]
    assert syncs.pop("control") == 3
    assert set(syncs.values()) == {0}, syncs


@pytest.mark.parametrize("module", ["step", "graph", "transformer", "norms"])
def test_no_line_of_a_step_asks_for_a_value_on_the_host(module):
    tree = ast.parse((SOURCE / f"{module}.py").read_text())
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"item", "cpu", "tolist", "numpy", "synchronize", "get_scale"}


@pytest.mark.parametrize("scale", ["1.0", "65536.0"])
def test_gradients_are_clipped_alike_with_a_scaler_and_without(found, scale):
    lengths = found["clipping"]
    assert lengths["None None"] > 0.1
    for clip in ("None", "0.01", "1000000.0"):
        assert math.isclose(lengths[f"{scale} {clip}"], lengths[f"None {clip}"], rel_tol=1e-4)
    assert math.isclose(lengths["None 0.01"], 0.01, rel_tol=1e-3)
    assert math.isclose(lengths["None 1000000.0"], lengths["None None"], rel_tol=1e-6)


def test_fp16_gradients_are_clipped_by_a_length_in_fp32(found):
    length, = found["half_weights"]
    assert math.isclose(length, 100, rel_tol=1e-3)


def test_an_overflow_behind_clipping_skips_the_step(found):
    assert found["overflow"] == [True, 512.0]


def test_the_attention_backend_that_ran_is_read_off(found):
    assert found["backends"] == {"FLASH_ATTENTION": ["flash-cpu"], "MATH": ["math"],
                                 "nothing": []}


def test_the_precision_of_products_is_measured(found):
    exact, low = found["product"]
    assert exact < 1e-6 < 1e-3 < low


def test_the_models_compile_in_one_graph(found):
    assert len(found["compiling"]) == 6
    for name, (plain, compiled) in found["compiling"].items():
        assert math.isclose(plain, compiled, rel_tol=1e-6), name


def test_what_a_cpu_lacks_is_refused_in_a_sentence(found):
    refused = found["refused"]
    for name, what in [("fp16", "FP16 training is not available on a CPU"),
                       ("tf32", "TF32 is not available"), ("graph", "A CUDA graph is not"),
                       ("adam", "apex.optimizers.FusedAdam cannot be made here")]:
        kind, message = refused[name]
        assert kind == "CannotError"
        assert message.startswith(what)


def test_without_apex_its_parts_are_refused_by_name(torch_python):
    code = ("from apexlab.bench.model.settings import Settings\n"
            "from apexlab.bench.model.shape import Shape\n"
            "from apexlab.bench.model.step import make_step\n"
            "make_step(Shape('gpt', 8, 8, 1, 8, 1, 8), Settings(norm='apex'), 'cpu', 0)")
    done = subprocess.run([torch_python, "-c", code], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(SOURCE.parents[2])})
    assert "CannotError: apex.normalization.FusedLayerNorm cannot be made here " \
           "(ModuleNotFoundError: No module named 'apex')" in done.stderr
