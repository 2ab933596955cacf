"""The known fallbacks on a CPU build of torch, with the Python side of the stand-in."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from apexlab.verify import prove

pytestmark = pytest.mark.torch
FOLDER = Path(prove.__file__).parent
STANDIN = Path(__file__).resolve().parents[1] / "standin"

START = """
import importlib, json, sys, types
sys.path.insert(0, sys.argv[2])
sys.argv[2:] = ["right"]
import torch
# Modules that can be imported and hold nothing: whoever called one would fail.
for name in ("amp_C", "fused_layer_norm_cuda", "scaled_masked_softmax_cuda"):
    sys.modules[name] = types.ModuleType(name)
spec = importlib.util.spec_from_file_location(
    "apexlab_prove", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["apexlab_prove"] = importlib.util.module_from_spec(spec)
from apexlab_prove.case import Case, Unsupported, function

def phases(name):
    case = Case(torch, "cpu", "fp32")
    function(f"fallbacks:{name}")(case)
    return {phase["phase"]: [one["error"] for one in phase["errors"]] for phase in case.phases}
"""


@pytest.fixture(scope="module")
def said(torch_python, tmp_path_factory):
    """What a program prints as JSON beside the stand-in's package in the usual layout."""
    folder = tmp_path_factory.mktemp("fallbacks")
    shutil.copytree(STANDIN / "apex", folder / "apex",
                    ignore=shutil.ignore_patterns("_extensions", "__pycache__"))

    def said(code):
        done = subprocess.run([torch_python, "-c", START + code, FOLDER, folder],
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return said


ON_A_CPU = {"cpu_norms": ["FusedLayerNorm", "FusedRMSNorm"],
            "refused_softmax": ["FusedScaleMaskSoftmax"], "bf16_clip": ["clip_grad_norm_"]}


@pytest.fixture(scope="module")
def on_a_cpu(said):
    return said(f"print(json.dumps({{name: phases(name) for name in {list(ON_A_CPU)}}}))")


@pytest.mark.parametrize(("name", "calls"), ON_A_CPU.items())
def test_the_call_computes_with_pytorchs_code_and_its_numbers_are_right(on_a_cpu, name, calls):
    errors = on_a_cpu[name]
    assert list(errors) == calls
    assert all(error <= 8 for each in errors.values() for error in each)


def test_inside_compile_the_branch_for_compilers_runs(said):
    # On the CPU the stand-in leaves its kernels out either way: these classes tell the two apart.
    errors = said("""
import apex.normalization
from torch.nn import functional as F
class FusedLayerNorm(torch.nn.LayerNorm):
    def forward(self, x):
        return super().forward(x) if torch.compiler.is_compiling() else x * 0
class FusedRMSNorm(torch.nn.RMSNorm):
    def forward(self, x):
        return super().forward(x) if torch.compiler.is_compiling() else x * 0
apex.normalization.FusedLayerNorm = FusedLayerNorm
apex.normalization.FusedRMSNorm = FusedRMSNorm
print(json.dumps([phases("compiled_norms"), phases("cpu_norms")]))
""")
    compiled, plain = errors
    assert all(each[0] <= 8 for each in compiled.values())
    assert all(each[0] > 8 for each in plain.values())


def test_a_ref_without_apex_transformer_has_no_such_call(said):
    assert said("""
for name in ("apex.transformer", "apex.transformer.functional"):
    sys.modules[name] = None
try:
    phases("refused_softmax")
except Unsupported as error:
    print(json.dumps(str(error)))
""") == "this Apex has no apex.transformer.functional"


def test_the_standins_softmax_takes_the_shapes_that_apex_takes(said):
    taken = said("""
from apex.transformer.enums import AttnMaskType
from apex.transformer.functional import FusedScaleMaskSoftmax
sys.modules["scaled_masked_softmax_cuda"].get_batch_per_block = lambda *sizes: 8
def takes(sizes, causal=False, fusion=True, in_fp16=True):
    kind = AttnMaskType.causal if causal else AttnMaskType.padding
    layer = FusedScaleMaskSoftmax(in_fp16, False, kind, fusion, None, False, None)
    return layer.is_kernel_available(None, *sizes)
print(json.dumps([
    takes((2, 4, 64, 64)), takes((2, 4, 64, 64), causal=True), takes((2, 4, 8, 20)),
    takes((2, 4, 64, 16)), takes((2, 4, 64, 16388)), takes((2, 4, 64, 66)),
    takes((2, 4, 66, 64)), takes((1, 3, 64, 64)), takes((2, 4, 64, 64), fusion=False),
    takes((2, 4, 64, 64), in_fp16=False), takes((2, 4, 12, 64)),
    takes((1, 4, 64, 64), causal=True)]))
""")
    assert taken == [True] * 3 + [False] * 9
