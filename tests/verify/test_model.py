"""A user's own model: its classes counted, its step watched, and what is said about both."""

import json
import subprocess
from pathlib import Path

import pytest

import apexlab.verify
from apexlab.verify.attribute import Registered
from apexlab.verify.model import model_findings, model_report
from apexlab.verify.report import StepKernel, Used

PROVE = Path(apexlab.verify.__file__).parent / "prove"
NORM = "void cuApplyLayerNorm<float, float, float>(float*)"
ADAM = "void multi_tensor_apply_kernel<AdamFunctor<float>>(int)"
GEMM = "sm90_xmma_gemm_f32f32"
BOTH = frozenset({"profiler", "interposer"})
REGISTERED = Registered(
    names={"fused_layer_norm_cuda": frozenset({NORM}), "amp_C": frozenset({ADAM}),
           "fused_adam_cuda": frozenset({ADAM}), "fused_dense_cuda": frozenset()},
    paths={name: f"/site/{name}.so" for name in (
        "fused_layer_norm_cuda", "amp_C", "fused_adam_cuda", "fused_dense_cuda")},
    dynamic=frozenset({"fused_layer_norm_cuda", "amp_C", "fused_adam_cuda", "fused_dense_cuda"}),
    torch=frozenset({"void at::native::layer_norm(float*)"}))


def used(name, count=1, base=None):
    return {"name": name, "count": count, "apex": base is not None, "base": base}


FUSED = used("mine.Norm", 24, "apex.normalization.fused_layer_norm.FusedLayerNorm")
T5 = used("transformers.models.t5.modeling_t5.T5LayerNorm", 24)
OURS = used("apex.optimizers.fused_adam.FusedAdam", 1, "apex.optimizers.fused_adam.FusedAdam")
THEIRS = used("torch.optim.adamw.AdamW")


def launch(name, count, extension=None, us=None):
    file = f"/site/{extension}.so" if extension else "/torch/lib/libtorch_cuda.so"
    return {"name": name, "count": count, "file": file, "us": us}


def answer(norms=(), optimizer=None, others=(), launches=()):
    """What the child says; both instruments saw the same."""
    return {
        "factory": "train:factory", "device": "cuda:0", "norms": list(norms),
        "others": list(others), "optimizer": optimizer,
        "profiler": [{**one, "file": None} for one in launches],
        "interposer": [{**one, "us": None} for one in launches],
    }  # fmt: skip


STEP = (launch(NORM, 24, "fused_layer_norm_cuda", 250.0), launch(ADAM, 2, "amp_C", 50.0),
        launch(GEMM, 48, None, 700.0))


def codes(said, working=BOTH, registered=REGISTERED):
    return [one.code for one in model_findings(said, registered, working, "train:factory")]


def test_the_report_says_whose_each_kernel_is_and_how_much_of_the_time_is_apexs():
    report = model_report(answer([FUSED], OURS, launches=STEP), REGISTERED, BOTH)
    assert report.norms == (Used("mine.Norm", 24, True),)
    assert report.optimizer == Used("apex.optimizers.fused_adam.FusedAdam", 1, True)
    assert set(report.kernels) == {
        StepKernel(NORM, 24, "fused_layer_norm_cuda", 250.0), StepKernel(ADAM, 2, "amp_C", 50.0),
        StepKernel(GEMM, 48, None, 700.0)}
    assert report.apex_share == pytest.approx(0.3)


@pytest.mark.parametrize(("optimizer", "owner"), [
    (OURS, "amp_C"),
    (used("x", 1, "apex.contrib.optimizers.fused_adam.FusedAdam"), "fused_adam_cuda"),
])
def test_by_name_alone_a_kernel_of_two_extensions_is_of_the_one_that_the_model_needs(
        optimizer, owner):
    said = answer([], optimizer, launches=[launch(ADAM, 2, "amp_C", 50.0)])
    report = model_report(said, REGISTERED, frozenset({"profiler"}))
    assert report.kernels == (StepKernel(ADAM, 2, owner, 50.0),)


def test_kernels_of_one_name_share_its_time_by_their_launches():
    said = answer([], None, launches=[])
    said["profiler"] = [{"name": ADAM, "count": 4, "file": None, "us": 100.0}]
    said["interposer"] = [launch(ADAM, 3, "amp_C"), launch(ADAM, 1)]
    report = model_report(said, REGISTERED, BOTH)
    assert report.kernels == (StepKernel(ADAM, 3, "amp_C", 75.0), StepKernel(ADAM, 1, None, 25.0))
    assert report.apex_share == pytest.approx(0.75)


def test_without_the_profiler_no_time_is_known():
    report = model_report(answer([FUSED], OURS, launches=STEP), REGISTERED,
                          frozenset({"interposer"}))
    assert report.apex_share is None
    assert {one.microseconds for one in report.kernels} == {None}
    assert {one.extension for one in report.kernels} == {"fused_layer_norm_cuda", "amp_C", None}


def test_without_any_instrument_no_kernel_is_named():
    report = model_report(answer([FUSED], OURS, launches=STEP), REGISTERED, frozenset())
    assert report.kernels == () and report.apex_share is None


def test_a_model_that_uses_apex_and_runs_it_has_no_finding():
    assert codes(answer([FUSED], OURS, launches=STEP)) == []
    # A part that is another's is the user's choice.
    assert codes(answer([FUSED, T5], THEIRS, launches=STEP)) == []


def test_a_model_that_uses_nothing_of_apex_is_a_fallback():
    found, = model_findings(answer([T5], THEIRS, launches=STEP[2:]), REGISTERED, BOTH,
                            "train:factory")
    assert (found.code, found.severity) == ("model-without-apex", "fallback")
    assert "24 of 24 norms are transformers.models.t5.modeling_t5.T5LayerNorm" in found.message
    assert "no rebuild" in found.fix


def test_a_kernel_of_apex_without_a_class_of_it_is_use_enough():
    assert codes(answer([], THEIRS, launches=STEP[:1])) == []


def test_a_class_of_apex_whose_kernels_did_not_run_is_a_fallback():
    found, = model_findings(answer([FUSED], OURS, launches=STEP[1:]), REGISTERED, BOTH,
                            "train:factory")
    assert (found.code, found.severity) == ("model-fallback", "fallback")
    assert "mine.Norm" in found.message and found.extensions == ("fused_layer_norm_cuda",)


def test_a_kernel_of_another_file_with_the_right_name_is_a_fallback():
    stolen = [launch(NORM, 24, None, 250.0), *STEP[1:]]
    assert codes(answer([FUSED], OURS, launches=stolen)) == ["model-fallback"]


def test_extensions_whose_work_is_cublass_need_no_kernel():
    dense = used("apex.fused_dense.fused_dense.FusedDense", 2,
                 "apex.fused_dense.fused_dense.FusedDense")
    assert codes(answer([], THEIRS, [dense], STEP[2:])) == []


@pytest.mark.parametrize("said", [answer([FUSED], OURS, launches=STEP), answer([T5], THEIRS)])
def test_a_blind_instrument_is_never_a_verdict(said):
    assert set(codes(said, frozenset())) == {"model-unseen"}


def test_a_needed_extension_that_is_blind_is_said_to_be_so():
    registered = Registered({"amp_C": frozenset({ADAM})}, {
        "amp_C": "/site/amp_C.so", "fused_layer_norm_cuda": "/site/fused_layer_norm_cuda.so"},
        frozenset(), frozenset())
    found = model_findings(answer([FUSED], OURS, launches=STEP[1:]), registered,
                           frozenset({"profiler"}), "train:factory")
    assert [one.code for one in found] == ["model-unseen"]
    assert "fused_layer_norm_cuda" in found[0].message and found[0].severity == "incomplete"


@pytest.mark.parametrize(("said", "part"), [
    ({"error": {"kinds": ["FactoryError", "Exception"], "text": "a has no b.\n"}}, ": a has no b."),
    ({"error": {"kinds": ["RuntimeError"], "text": "odd"}}, "RuntimeError: odd."),
    ({"hang": 60.0}, "stopped after 60 seconds."),
    ({"ended": "SIGSEGV"}, "it ended the process (SIGSEGV)."),
])
def test_a_model_that_could_not_be_looked_at_is_broken(said, part):
    found, = model_findings(said, REGISTERED, BOTH, "train:factory")
    assert (found.code, found.severity) == ("model-broken", "error")
    assert found.message.endswith(part) and "train:factory" in found.message


# The child's side, with a real torch.

STUBS = {
    "apex/normalization/fused_layer_norm.py": "import torch\n"
        "class FusedLayerNorm(torch.nn.LayerNorm): pass\n",
    "apex/fused_dense.py": "import torch\nclass FusedDense(torch.nn.Linear): pass\n",
    "apex/optimizers/fused_adam.py": "import torch\nclass FusedAdam(torch.optim.SGD): pass\n",
    "transformers/models/t5/modeling_t5.py": "import torch\n"
        "class T5LayerNorm(torch.nn.Identity): pass\n",
    "train.py": """
import torch
from apex.normalization.fused_layer_norm import FusedLayerNorm
from apex.fused_dense import FusedDense
from apex.optimizers.fused_adam import FusedAdam
from transformers.models.t5.modeling_t5 import T5LayerNorm

class Ours(FusedLayerNorm):
    pass

steps = 0

def made(layers, optimizer):
    model = torch.nn.Sequential(*layers)
    optimizer = optimizer and optimizer(model.parameters(), lr=0.1)
    def step():
        global steps
        steps += 1
        model(torch.ones(2, 4)).sum().backward()
        if optimizer is not None:
            optimizer.step()
    return model, optimizer, step

def t5():
    layers = [torch.nn.Linear(4, 4)] + [T5LayerNorm() for _ in range(24)]
    return made(layers, torch.optim.AdamW)

def apex():
    return made([Ours(4), FusedLayerNorm(4), torch.nn.LayerNorm(4), FusedDense(4, 4)], FusedAdam)

def bare():
    return made([torch.nn.Linear(4, 4)], None)

def fails():
    raise ValueError("no data here")

def leaves():
    raise SystemExit(3)

def two():
    return torch.nn.Linear(1, 1), None

def no_model():
    return [], None, print

def no_step():
    return torch.nn.Linear(1, 1), None, 7

def bad_step():
    return torch.nn.Linear(1, 1), None, lambda: torch.ones(2) @ torch.ones(3)

number = 7
""",
    "broken.py": "import surely_absent\n",
}  # fmt: skip
# The folder `prove` under the name that it has in the judged Python.
SCRIPT = """
import contextlib, importlib, importlib.util, json, sys
folder, names = sys.argv[1], sys.argv[2:]
spec = importlib.util.spec_from_file_location(
    "apexlab_prove", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["apexlab_prove"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
import torch
from apexlab_prove.instruments import Instruments
from apexlab_prove.model import FactoryError, examine

class Recording(Instruments):
    @contextlib.contextmanager
    def watch(self, device):
        before = sys.modules["train"].steps
        with super().watch(device) as seen:
            yield seen
        self.watched = [before, sys.modules["train"].steps]

for name in names:
    instruments = Recording(torch, None)
    try:
        answer = examine(name, instruments, torch.device("cpu"))
        answer["watched"] = instruments.watched
    except FactoryError as error:
        answer = {"failed": str(error)}
    print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def examined(torch_python, tmp_path_factory):
    """The child's answers by the factory's name; all of them in one process."""
    folder = tmp_path_factory.mktemp("model")
    for name, source in STUBS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    names = [f"train:{name}" for name in (
        "t5", "apex", "bare", "fails", "leaves", "two", "no_model", "no_step", "bad_step",
        "number", "absent")] + ["broken:x", "surely_absent:x", "train", ":x", "train:"]
    done = subprocess.run(
        [torch_python, "-c", SCRIPT, PROVE, *names], capture_output=True, text=True, cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr
    answers = map(json.loads, done.stdout.splitlines())
    return dict(zip(names, answers, strict=True))


@pytest.mark.torch
def test_the_norms_of_any_package_are_counted_by_class(examined):
    t5 = examined["train:t5"]
    assert t5["norms"] == [T5]
    assert t5["optimizer"] == THEIRS
    assert (t5["factory"], t5["device"], t5["others"]) == ("train:t5", "cpu", [])


@pytest.mark.torch
def test_a_class_that_derives_from_apexs_is_apexs(examined):
    fused = "apex.normalization.fused_layer_norm.FusedLayerNorm"
    answer = examined["train:apex"]
    assert answer["norms"] == [
        used(fused, 1, fused), used("torch.nn.modules.normalization.LayerNorm"),
        used("train.Ours", 1, fused)]
    dense = "apex.fused_dense.FusedDense"
    assert answer["others"] == [used(dense, 1, dense)]
    assert answer["optimizer"] == OURS
    assert examined["train:bare"]["norms"] == [] and examined["train:bare"]["optimizer"] is None


@pytest.mark.torch
def test_the_third_step_is_the_one_that_is_watched(examined):
    assert examined["train:t5"]["watched"] == [2, 3]
    assert examined["train:apex"]["watched"] == [5, 6]


@pytest.mark.torch
@pytest.mark.parametrize(("name", "parts"), [
    ("train", ["package.module:factory"]), (":x", ["package.module:factory"]),
    ("train:", ["package.module:factory"]),
    ("surely_absent:x", ["cannot be imported", "No module named 'surely_absent'"]),
    ("broken:x", ["broken cannot be imported", "broken.py, line 1"]),
    ("train:absent", ["train.py) has no absent"]), ("train:number", ["int", "cannot be called"]),
    ("train:fails", ["the factory fails: ValueError: no data here", "train.py, line "]),
    ("train:leaves", ["SystemExit: 3"]), ("train:two", ["tuple of 2", "(model, optimizer, step)"]),
    ("train:no_model", ["list", "torch.nn.Module"]), ("train:no_step", ["step is a int"]),
    ("train:bad_step", ["step() fails: RuntimeError", "train.py, line "]),
])
def test_what_is_wrong_with_a_factory_is_said(examined, name, parts):
    assert all(part in examined[name]["failed"] for part in parts), examined[name]
