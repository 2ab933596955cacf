"""Binaries that nobody here wrote: kernels derived from Apex's, from others' source distributions.

They are compiled when the test runs, into .cache/witnesses; check_on_gpu.py in witnesses/ is the
rest of this test, for a machine with a GPU.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from apexlab.verify import interposer, registered
from apexlab.verify.binary import read_binary
from apexlab.verify.found import MODULE, Found

pytestmark = pytest.mark.cuda

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(__file__).parent / "witnesses" / "build.py"
NORM_KERNELS = {"cuApplyLayerNorm", "cuComputePartGradGammaBeta", "cuComputeGradGammaBeta",
                "cuComputeGradInput"}

# Launches host functions of a module by their place in it, as the module itself would if there
# were a GPU, and says what was counted.
LAUNCH = """
import ctypes, importlib, json, os, sys
import torch
from apexlab.verify.prove.instruments import Instruments
sys.path.insert(0, os.path.dirname(sys.argv[1]))
importlib.import_module(os.path.basename(sys.argv[1]).split(".")[0])
base = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps")
           if line.rstrip().endswith(sys.argv[1]))
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
launch = ctypes.CDLL(os.environ["LD_PRELOAD"], os.RTLD_NOLOAD | os.RTLD_LAZY).cudaLaunchKernel
launch.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
tools = Instruments(torch, os.environ["LD_PRELOAD"])
with tools.watch(torch.device("cpu")) as seen:
    for place in sys.argv[2:]:
        launch(base + int(place), Dim3(1, 1, 1), Dim3(1, 1, 1), None, 0, None)
print(json.dumps([[one["name"], one["file"]] for one in seen.refused]))
"""


@pytest.fixture(scope="module")
def witnesses(cuda_env) -> dict[str, Path]:
    """The modules by their names."""
    folder = ROOT / ".cache" / "witnesses"
    done = subprocess.run(
        [cuda_env.python, BUILD, "--out", folder / "built", "--sdists", folder / "sdist"],
        env=cuda_env.environ(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    files = [Path(line) for line in done.stdout.splitlines() if line.endswith(".so")]
    return {file.name.split(".")[0]: file for file in files}


@pytest.fixture(scope="module")
def known(witnesses, cuda_env):
    return registered.read({name: Found(name, path, MODULE, "311")
                            for name, path in witnesses.items()}, cuda_env.site / "torch" / "lib")


def test_their_binaries_are_read(witnesses):
    assert set(witnesses) == {"witness_adam", "witness_layer_norm"}
    for path in witnesses.values():
        binary = read_binary(path)
        assert (binary.targets, binary.cuda_major) == (("sm_90",), 13)


def test_their_kernels_are_listed_and_none_of_them_is_torchs(known):
    adam, norm = known.names["witness_adam"], known.names["witness_layer_norm"]
    assert adam and all(
        name.startswith("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<")
        for name in adam)
    assert {name.removeprefix("void ").split("<")[0] for name in norm} == NORM_KERNELS
    assert not (adam | norm) & known.torch
    assert known.dynamic == set(known.names)


@pytest.mark.parametrize(("module", "token"), [
    ("witness_adam", "multi_tensor_apply_kernel"), ("witness_layer_norm", "cuApplyLayerNorm")])
def test_their_launches_are_attributed_to_their_own_file(
        cuda_env, witnesses, known, tmp_path, module, token):
    path, places = witnesses[module], host_functions(witnesses[module], token)
    library = interposer._compiled(tmp_path)
    done = subprocess.run(
        [cuda_env.python, "-c", LAUNCH, path, *map(str, places)],
        env={**os.environ, "LD_PRELOAD": str(library), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True, text=True, check=True)
    launched = json.loads(done.stdout)
    assert {name for name, _ in launched} == {
        name for name in known.names[module] if f"{token}<" in name}
    assert {file for _, file in launched} == {known.paths[module]}
    assert len(launched) == len(places)


def host_functions(path: Path, token: str) -> list[int]:
    """The places of the functions that stand for kernels in the host code, by their symbols."""
    with path.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab").iter_symbols()
        return [symbol["st_value"] for symbol in symbols
                if f"{len(token)}{token}I" in symbol.name and symbol["st_size"]
                and "__device_stub__" not in symbol.name and ".cold" not in symbol.name
                and symbol["st_info"]["type"] == "STT_FUNC"]


def test_a_source_distribution_that_is_not_the_expected_one_is_not_compiled(
        cuda_env, tmp_path):
    (tmp_path / "deepspeed-0.19.8.tar.gz").write_bytes(b"something else")
    done = subprocess.run(
        [cuda_env.python, BUILD, "--out", tmp_path / "out", "--offline", tmp_path],
        env=cuda_env.environ(), capture_output=True, text=True)
    assert done.returncode == 1
    assert "sha256" in done.stderr
    assert not list((tmp_path / "out").glob("*.so"))
