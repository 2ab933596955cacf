"""The switches that only a GPU has: TF32, FP16 with a scaler, CUDA graphs, torch.compile."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest

from apexlab import bench, verify

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("kind", ["gpt", "llama"])]
SIDE = Path(__file__).with_name("gpu_side.py")
PARTS = ":".join(str(Path(part.__file__).parents[2]) for part in (bench, verify))


@pytest.fixture(scope="module")
def found(gpu):
    done = subprocess.run([gpu.python, SIDE], env={**gpu.environ, "PYTHONPATH": PARTS},
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_switch_trains_without_waiting_and_near_fp32(found, kind):
    exact = found[f"{kind} fp32"]["losses"]
    runs = {name: run["losses"] for name, run in found.items() if name.startswith(kind)}
    assert len(runs) == 10
    for name, losses in runs.items():
        assert losses[-1] < losses[0] - 0.5, name
        assert math.isclose(losses[0], exact[0], rel_tol=0.01), name
        assert math.isclose(sum(losses[-5:]), sum(exact[-5:]), rel_tol=0.03), name


@pytest.mark.parametrize("name", ["fp32", "bf16", "bf16 foreach", "bf16 compile"])
def test_a_captured_step_trains_as_the_step_itself(found, kind, name):
    eager, graph = (found[f"{kind} {name}{end}"]["losses"] for end in ("", " graph"))
    for ours, theirs in zip(graph, eager, strict=True):
        assert math.isclose(ours, theirs, rel_tol=1e-3)


def test_tf32_is_on_where_it_was_asked_for_and_off_elsewhere(found, kind):
    for name, run in found.items():
        assert (run["product"] > 1e-5) == name.endswith("tf32"), (name, run["product"])


def test_the_attention_backend_is_seen_in_eager_and_compiled_code(found, kind):
    for name, run in found.items():
        assert len(run["attention"]) == 1, (name, run["attention"])
