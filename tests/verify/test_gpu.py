"""The level `run` on a real GPU: what is sound is proven, and each fault is caught for its reason.

The stand-in is compiled for the GPU that is here, once in each layout and once with faults in its
kernels; the faults of its Python side are put into copies of what was installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest

from apexlab.verify.extensions import EXTENSIONS
from apexlab.verify.report import schema

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from apexlab.verify.main import main; main()"
KERNEL_FAULTS = {
    "amp_C": "wrong-numbers",
    "fused_layer_norm_cuda": "nan-numbers",
    "syncbn": "zeros-on-second-device",
    "mlp_cuda": "wrong-arch",
}
WHEELS = {
    "modules": {},
    "libraries": {"layout": "_extensions"},
    "faults": {"sabotage": " ".join(f"{mode}:{name}" for name, mode in KERNEL_FAULTS.items())},
}


@pytest.fixture(scope="session")
def sites(gpu, standin_tools, tmp_path_factory) -> dict[str, Path]:
    """A folder for each of WHEELS, with the wheel unpacked; they are compiled side by side."""

    def made(name: str) -> Path:
        wheel = standin_tools.build_wheel(gpu.python, gpu.environ, ROOT / ".cache",
                                          archs=gpu.arch, **WHEELS[name])
        site = tmp_path_factory.mktemp(name)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        return site

    with ThreadPoolExecutor() as pool:
        return dict(zip(WHEELS, pool.map(made, WHEELS), strict=True))


@pytest.fixture(scope="session")
def verify(gpu):
    """Runs `apexlab verify --site FOLDER --json`: the exit code and the report."""

    def run(folder: Path, *more: str, environ: dict[str, str] | None = None,
            ) -> tuple[int, dict]:
        done = subprocess.run(
            [gpu.python, "-c", MAIN, "verify", "--site", folder, "--json", *more],
            env={**gpu.environ, **(environ or {})}, capture_output=True, text=True, timeout=600)
        assert done.stdout, done.stderr
        report = json.loads(done.stdout)
        jsonschema.validate(report, schema("verify-1"))
        assert report["exit_code"] == done.returncode
        keep(folder.name, report)
        return done.returncode, report

    return run


def keep(name: str, report: dict) -> None:
    """APEXLAB_KEEP_REPORTS=DIR keeps every report, to look at and as an input for other tests."""
    if folder := os.environ.get("APEXLAB_KEEP_REPORTS"):
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        number = len(list(place.glob("*.json")))
        (place / f"{number:02d}-{name}.json").write_text(json.dumps(report, indent=1))


def codes(report: dict, *severities: str) -> dict[str, list[str]]:
    wanted = severities or ("error", "fallback", "incomplete")
    return {one["code"]: one["extensions"] for one in report["findings"]
            if one["severity"] in wanted}


def status(report: dict) -> dict[str, str]:
    return {one["name"]: one["status"] for one in report["extensions"]}


ALL = {extension.name for extension in EXTENSIONS}


@pytest.fixture(scope="session")
def sound(verify, sites) -> tuple[int, dict]:
    """The verdict on the sound build with modules, with all 13 required."""
    return verify(sites["modules"], *(f"--require={name}" for name in sorted(ALL)))


def proven(report: dict) -> set[str]:
    return {name for name, what in status(report).items() if what == "proven"}


def test_a_sound_build_is_proven(sound):
    code, report = sound
    assert codes(report) == {}
    assert (code, report["verdict"], report["level_reached"]) == (0, "proven", "run")
    assert proven(report) == ALL
    assert report["environment"]["instruments"] == ["interposer", "profiler"]


def test_a_sound_build_with_libraries_is_proven(verify, sites):
    code, report = verify(sites["libraries"], *(f"--require={name}" for name in sorted(ALL)))
    assert (code, codes(report), proven(report)) == (0, {}, ALL)


def test_each_proof_names_kernels_of_the_extension_itself(sound):
    for extension in sound[1]["extensions"]:
        for proof in extension["proofs"]:
            inside = [one["name"] for one in proof["kernels"] if one["in_extension"]]
            assert bool(inside) == (proof["grade"] == "kernel"), (extension["name"], proof["api"])
            assert proof["numerics"]["max_error"] <= proof["numerics"]["limit"]


def test_known_fallbacks_are_shown_as_information(sound):
    said = {one["code"] for one in sound[1]["findings"] if one["severity"] == "info"}
    assert {"known-fallback-cpu", "known-fallback-compile", "known-fallback-softmax",
            "known-fallback-clip"} <= said


def test_faults_of_kernels_are_told_apart(verify, sites, gpu):
    code, report = verify(sites["faults"])
    assert (code, report["verdict"]) == (1, "broken")
    found = codes(report)
    assert set(found["wrong-numbers"]) >= {"amp_C", "fused_layer_norm_cuda"}
    # Only a second GPU can show it.
    assert ("syncbn" in found["wrong-numbers"]) == (gpu.count > 1)
    assert "mlp_cuda" in found.get("no-kernel-image", found.get("no-kernel-image-run", []))
    assert status(report)["fused_rotary_positional_embedding"] == "proven"


# Appended to a file of the installed Python side: what it does instead.
PYTHON_FAULTS = {
    "norms by torch": (
        "apex/normalization/fused_layer_norm.py", "runs_pytorch = lambda x, shape: True\n",
        5, "fallback", {"fused_layer_norm_cuda"}),
    "norms by torch for some widths": (
        "apex/normalization/_shapes.py", "fits = lambda width: width & (width - 1) == 0\n",
        5, "fallback", {"fused_layer_norm_cuda"}),
    "Adam by torch": ("apex/optimizers/fused_adam.py", """
class FusedAdam(torch.optim.AdamW):
    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8,
                 adam_w_mode=True, weight_decay=0.0, **more):
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)
""", 5, "fallback", {"amp_C"}),
    "a crash in a call": ("apex/optimizers/fused_adam.py", """
def _crash(self, closure=None):
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)
FusedAdam.step = _crash
""", 1, "call-failed", {"amp_C"}),
    "a broken context": ("apex/optimizers/fused_adam.py", """
def _illegal(self, closure=None):
    torch.zeros(4, device="cuda")[torch.tensor([1 << 40], device="cuda")].sum().item()
FusedAdam.step = _illegal
""", 1, "call-failed", {"amp_C"}),
    "an exit in a call": ("apex/optimizers/fused_adam.py", """
def _exit(self, closure=None):
    import os
    os._exit(0)
FusedAdam.step = _exit
""", 1, "call-failed", {"amp_C"}),
    "an error in a call": ("apex/normalization/fused_layer_norm.py", """
FusedLayerNorm.forward = lambda self, x: torch.compiler.not_in_this_torch(x)
""", 1, "call-failed", {"fused_layer_norm_cuda"}),
}


@pytest.mark.parametrize("fault", PYTHON_FAULTS)
def test_a_python_side_that_leaves_the_kernels_out_is_caught(verify, sites, tmp_path, fault):
    file, text, expected, code_name, extensions = PYTHON_FAULTS[fault]
    site = Path(shutil.copytree(sites["modules"], tmp_path / fault.replace(" ", "-")))
    with (site / file).open("a") as opened:
        opened.write("\n\n" + text)
    code, report = verify(site)
    assert code == expected, codes(report)
    assert set(codes(report)[code_name]) == extensions
    # What was not struck is proven all the same.
    assert status(report)["syncbn"] == "proven"
    assert extensions & proven(report) == set()


def test_an_extension_that_python_hides_is_a_problem(verify, sites, tmp_path):
    site = Path(shutil.copytree(sites["modules"], tmp_path / "hidden"))
    (site / "apex" / "__init__.py").write_text("import sys\nsys.modules['amp_C'] = None\n")
    code, report = verify(site)
    assert code in (1, 5)
    assert status(report)["amp_C"] != "proven"


def test_another_file_of_the_same_extension_proves_nothing(verify, sites, tmp_path):
    """Only when Apex is imported, another folder comes first: a sound copy lies there."""
    site = Path(shutil.copytree(sites["modules"], tmp_path / "swapped"))
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(next(site.glob("amp_C*.so")), other)
    init = site / "apex" / "__init__.py"
    init.write_text(f"import sys\nsys.path.insert(0, {str(other)!r})\n" + init.read_text())
    code, report = verify(site, environ={"CC": "false", "PATH": "/nowhere"})  # names alone
    assert code == 1 and "amp_C" in [name for names in codes(report).values() for name in names]
    assert status(report)["amp_C"] != "proven"


@pytest.fixture(scope="session")
def blind(tmp_path_factory) -> Path:
    """A library that makes CUPTI refuse, as it does without the privilege to profile."""
    target = tmp_path_factory.mktemp("blind") / "blind.so"
    source = Path(__file__).with_name("blind_cupti.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", target, source, "-ldl"], check=True)
    return target


def test_with_a_blind_profiler_the_second_instrument_takes_over(verify, sites, blind):
    code, report = verify(sites["modules"], environ={"LD_PRELOAD": str(blind)})
    assert report["environment"]["instruments"] == ["interposer"]
    assert (code, report["verdict"]) == (0, "proven"), codes(report)


def test_without_a_compiler_the_profiler_is_enough(verify, sites):
    code, report = verify(sites["modules"], environ={"CC": "false", "PATH": "/nowhere"})
    assert report["environment"]["instruments"] == ["profiler"]
    assert (code, report["verdict"]) == (0, "proven"), codes(report)


def test_when_every_instrument_is_blind_nothing_is_proven(verify, sites, blind):
    code, report = verify(sites["modules"], environ={
        "LD_PRELOAD": str(blind), "CC": "false", "PATH": "/nowhere"})
    assert (code, report["verdict"]) == (4, "incomplete")
    assert "instrument-blind" in codes(report)
    # What needs no instrument is proven all the same.
    assert proven(report) == {
        one.name for one in EXTENSIONS if one.proof != "kernel"}


MODEL = """
import torch
from apex.normalization import FusedLayerNorm
from apex.optimizers import FusedAdam

def fused():
    return build(FusedLayerNorm, FusedAdam)

def plain():
    return build(torch.nn.LayerNorm, torch.optim.AdamW)

def wrong():
    return 7

def build(norm, optimizer_of):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), norm(64), torch.nn.Linear(64, 1)).cuda()
    optimizer = optimizer_of(model.parameters(), lr=1e-3)
    x = torch.randn(8, 64, device="cuda")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return model, optimizer, step
"""


@pytest.mark.parametrize(("factory", "expected", "problem"), [
    ("fused", 0, None), ("plain", 5, "model-without-apex"), ("wrong", 1, "model-broken"),
    ("absent", 1, "model-broken")])
def test_a_model_of_ones_own_is_counted(gpu, sites, tmp_path, factory, expected, problem):
    (tmp_path / "mine.py").write_text(MODEL)
    done = subprocess.run(
        [gpu.python, "-c", MAIN, "verify", "--site", sites["modules"], "--json", "--model",
         f"mine:{factory}"], env=gpu.environ, cwd=tmp_path, capture_output=True, text=True)
    report = json.loads(done.stdout)
    keep(f"model-{factory}", report)
    assert done.returncode == expected, codes(report)
    assert problem is None or problem in codes(report)
    if factory == "fused":
        ran = {one["extension"] for one in report["model"]["kernels"]}
        assert {"fused_layer_norm_cuda", "amp_C"} <= ran
        assert 0 < report["model"]["apex_share"] < 1
        assert [one["apex"] for one in report["model"]["norms"]] == [True]
