"""Every call on a CPU build of torch: torch's own numbers pass the gate, and no wrong ones do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from apexlab.verify import prove
from apexlab.verify.prove.table import CALLS

pytestmark = pytest.mark.torch
FOLDER = Path(prove.__file__).parent
TWIN = Path(__file__).with_name("torch_twin.py")


def script(python, *arguments):
    done = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def answers(torch_python):
    """[(the call, its dtype, its phases)] of all calls, in one of the twin's modes."""
    told = script(torch_python, TWIN, FOLDER, "right", "nothing", "first-kept")
    return lambda mode: [(CALLS[one["call"]], one["dtype"], one["phases"]) for one in told[mode]]


@pytest.fixture(scope="module")
def phases(answers):
    """{(api, condition, dtype, phase): its errors} of all calls, in one of the twin's modes."""
    return lambda mode: {
        (call.api, call.condition, dtype, phase["phase"]): phase["errors"]
        for call, dtype, phases in answers(mode) for phase in phases}


def passes(error, limit):
    return error is not None and error <= limit


def test_torchs_own_numbers_pass_with_room_to_spare(phases):
    assert len(phases("right")) > 100
    for call, errors in phases("right").items():
        assert errors, call
        for one in errors:
            assert passes(one["error"], one["limit"] / 2), (call, one)


@pytest.mark.parametrize("wrong", ["zeros", "nan", "shape", "off"])
def test_every_single_result_fails_when_it_is_wrong(phases, wrong):
    """Zeros; NaN, or a value that is off by half, as the first element; another shape."""
    for call, errors in phases("right").items():
        for one in errors:
            assert not passes(one[wrong], one["limit"]), (call, one)


def test_every_result_of_functions_that_do_nothing_fails(phases):
    assert phases("nothing").keys() == phases("right").keys()
    for call, errors in phases("nothing").items():
        for one in errors:
            assert not passes(one["error"], one["limit"]), (call, one)


def test_every_call_that_leaves_one_element_out_fails(phases):
    for call, errors in phases("first-kept").items():
        assert any(not passes(one["error"], one["limit"]) for one in errors), (call, errors)


def test_the_direct_calls_are_counted(answers):
    for call, _, phases in answers("right"):
        direct = call.api.startswith(f"{call.extension}.")
        assert [phase["calls"] for phase in phases] == ([1] if direct else [0] * len(phases)), call


CASES = """
import json, sys, types
from pathlib import Path
sys.path.insert(0, str(Path({twin!r}).parent))
import torch, torch_twin
torch_twin.install()
case_module, table = torch_twin.load_prove(Path(sys.argv[1]))

def answer(call, dtype="fp32", layouts=None, seed=0, **options):
    case = case_module.Case(torch, "cpu", dtype, None, layouts, seed)
    try:
        case_module.function(call)(case, **options)
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
    return case.phases[0]["errors"][0]["error"]

del sys.modules["apex.contrib.clip_grad"], torch_twin.MODULES["apex.contrib.clip_grad"]
said = {{
    "no such class": answer("direct:clip", "fp32"),
    "twice": [answer("adam:fused_adam", seed=3) for _ in range(2)],
    "other seed": answer("adam:fused_adam", seed=4),
}}
from apexlab_prove.instruments import Instruments
watched = case_module.Case(torch, "cpu", "fp32", Instruments(torch, None))
case_module.function("direct:scale")(watched)
said["watched"] = watched.phases
amp_C = sys.modules["amp_C"]
shim = types.ModuleType("apex._extensions.amp_C")
vars(shim).update(vars(amp_C))
sys.modules["apex._extensions"] = types.ModuleType("apex._extensions")
sys.modules["apex._extensions.amp_C"] = shim
sys.modules["amp_C"] = None
said["behind a shim"] = answer("direct:scale", layouts={{"amp_C": "library"}})
said["no such module"] = answer("direct:scale")
del shim.multi_tensor_scale
said["no such function"] = answer("direct:scale", layouts={{"amp_C": "library"}})

def refuse(*arguments):
    raise RuntimeError('"mlp" not implemented for \\'BFloat16\\'')

sys.modules["mlp_cuda"].forward = refuse
said["refused"] = answer("direct:mlp", refusable=True)
said["refused although required"] = answer("direct:mlp")
sys.modules["mlp_cuda"].forward = lambda bias, activation, inputs: [inputs[0].double()]
said["another dtype"] = answer("direct:mlp")

class Old(torch_twin.FusedAdam):
    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, lr, betas, eps, weight_decay)

sys.modules["apex.optimizers"].FusedAdam = Old
said["no such option"] = answer("adam:fused_adam", capturable=True)
print(json.dumps(said))
"""


def test_what_a_ref_lacks_is_told_from_what_is_broken(torch_python):
    said = script(torch_python, "-c", CASES.format(twin=str(TWIN)), FOLDER)
    assert said["no such class"].startswith("Unsupported: this Apex has no apex.contrib.clip_grad")
    assert said["no such function"] == "Unsupported: amp_C has no multi_tensor_scale"
    assert said["no such option"] == "Unsupported: this FusedAdam has no capturable"
    assert said["refused"].startswith('Unsupported: "mlp" not implemented')
    assert said["refused although required"].startswith("RuntimeError")
    assert said["no such module"].startswith("ModuleNotFoundError")
    assert said["another dtype"] is None
    assert said["behind a shim"] < 1
    (watched,) = said["watched"]
    assert (watched["phase"], watched["calls"], watched["profiler"]) == ("", 1, None)
    assert watched["errors"][0]["error"] < 1
    assert said["twice"][0] == said["twice"][1] != said["other seed"]
