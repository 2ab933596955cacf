"""The instruments of the process that makes the calls."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from apexlab.verify import demangle, interposer
from apexlab.verify.prove import instruments

PROVE = Path(instruments.__file__).parent
WATCH = """
import ctypes, json, os, sys
import torch
from apexlab.verify.prove.instruments import Instruments, controls
tools = Instruments(torch, os.environ.get("LD_PRELOAD"))
device = torch.device("cpu")
"""
SOURCE = """
#include <cuda_runtime.h>
namespace { __global__ void hidden(float *x) { x[threadIdx.x] += 1; } }
template <typename T> __global__ void doubled(T *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void plain(float *x) { *x = 1; }
extern "C" int launch(float *x, double *y) {
    hidden<<<1, 1>>>(x); doubled<<<1, 1>>>(x); doubled<<<1, 1>>>(y); doubled<<<1, 1>>>(y);
    plain<<<1, 1>>>(x); return cudaGetLastError(); }
extern "C" int launch_in_other_ways(float *x) {
    void *values[] = {&x}; cudaLaunchConfig_t config = {}; config.gridDim = config.blockDim = 1;
    cudaLaunchKernel((void *)plain, dim3(1), dim3(1), values, 0, 0);
    cudaLaunchCooperativeKernel((void *)plain, dim3(1), dim3(1), values, 0, 0);
    return cudaLaunchKernelEx(&config, plain, x); }
"""


def run(python, script: str, *arguments: object, library: Path | None = None, **environ: str):
    more = {"LD_PRELOAD": str(library)} if library else {}
    done = subprocess.run([python, "-c", WATCH + script, *map(str, arguments)],
                          env={**os.environ, **environ, **more}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def library(maker, tmp_path_factory) -> Path:
    found = interposer._compiled(tmp_path_factory.mktemp("interposer"))
    assert found is not None
    return found


@pytest.mark.torch
def test_without_a_gpu_the_instruments_say_that_they_see_nothing(torch_python, library):
    assert run(torch_python, """
with tools.watch(device) as seen:
    torch.add(torch.ones(2), 1)
print(json.dumps([seen.profiler, seen.interposer, controls(tools, device)]))
""") == [None, None, {name: {"profiler": None, "interposer": None}
                      for name in ("add", "layer_norm")}]
    # The interposer itself is at work, and there is nothing to see.
    assert run(torch_python, """
with tools.watch(device) as seen:
    torch.add(torch.ones(2), 1)
print(json.dumps([seen.profiler, seen.interposer]))
""", library=library) == [None, []]


@pytest.mark.torch
def test_what_a_call_raises_goes_through(torch_python, library):
    assert run(torch_python, """
try:
    with tools.watch(device) as seen:
        raise ValueError("from the call")
except ValueError as error:
    print(json.dumps([str(error), seen.interposer]))
""", library=library) == ["from the call", []]


@pytest.mark.torch
def test_a_library_that_was_not_preloaded_is_not_loaded_late(torch_python, library):
    assert run(torch_python, """
late = Instruments(torch, sys.argv[1])
with late.watch(device) as seen:
    pass
print(json.dumps(seen.interposer))
""", library) is None


def event(name: str, where: str = "CUDA", us: float = 1.5, note: bool = False):
    return SimpleNamespace(name=name, device_type=SimpleNamespace(name=where),
                           time_range=SimpleNamespace(elapsed_us=lambda: us),
                           is_user_annotation=note)


def fake_torch(profile, activities=("CPU", "CUDA")):
    return SimpleNamespace(profiler=SimpleNamespace(
        ProfilerActivity=SimpleNamespace(CUDA="CUDA"),
        supported_activities=lambda: set(activities), profile=profile))


CPU = SimpleNamespace(type="cpu")


def test_kernels_are_summed_and_copies_are_none():
    class Profile:
        def __init__(self, activities):
            assert activities == ["CUDA"]

        start = stop = staticmethod(lambda: None)

        @staticmethod
        def events():
            return [event("aten::add", "CPU"), event("_Z1kPf"), event("Memset (Device)"),
                    event("k(float*)", us=2), event("Memcpy HtoD (Pageable -> Device)"),
                    event("Memcpyish(int)"), event("Context Sync"), event("step", note=True),
                    event("Stream Wait Event")]

    with instruments.Instruments(fake_torch(Profile), None).watch(CPU) as seen:
        pass
    assert seen.profiler == [{"name": "k(float*)", "count": 2, "file": None, "us": 3.5},
                             {"name": "Memcpyish(int)", "count": 1, "file": None, "us": 1.5}]


@pytest.mark.parametrize("fails", ["__init__", "start", "stop", "events"])
def test_a_profiler_that_fails_is_none_and_is_not_tried_again(fails):
    started = []

    class Profile:
        def __init__(self, activities):
            started.append(self)
            self.fail("__init__")

        def fail(self, where):
            if where == fails:
                raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

        def start(self):
            self.fail("start")

        def stop(self):
            self.fail("stop")

        def events(self):
            self.fail("events")
            return []

    tools, ran = instruments.Instruments(fake_torch(Profile), None), []
    for _ in range(2):
        with tools.watch(CPU) as seen:
            ran.append(True)
        assert seen.profiler is None
    assert (len(ran), len(started)) == (2, 1)


def test_a_torch_that_cannot_profile_a_gpu_is_not_asked_to():
    asked = []
    torch = fake_torch(lambda **how: asked.append(how), activities=("CPU",))
    tools = instruments.Instruments(torch, None)
    with tools.watch(CPU) as seen:
        pass
    assert (seen.profiler, asked) == (None, [])


def test_without_the_profiler_it_is_not_started():
    asked = []
    torch = fake_torch(lambda **how: asked.append(how))
    with instruments.Instruments(torch, None, profiler=False).watch(CPU) as seen:
        pass
    assert (seen.profiler, asked) == (None, [])


@pytest.mark.parametrize("name", [
    "_Z4normIfEvPT_", "_ZN2at6native12_GLOBAL__N_14backEPf", "plain_c", "i", "_Znonsense",
    "_ZN34_GLOBAL__N__ae09044f_4_t_cu_plainc6hiddenEPf", "_Z" + "1k" * 600])
def test_both_instruments_and_the_binaries_spell_a_name_alike(name):
    assert instruments.readable(name) == demangle.demangled([name])[name]


def test_it_runs_in_a_python_that_has_nothing_of_apexlab():
    script = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location(
    "apexlab_prove", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
module = importlib.util.module_from_spec(spec)
sys.modules["apexlab_prove"] = module
spec.loader.exec_module(module)
from apexlab_prove import instruments
print([name for name in sys.modules if name.split(".")[0] == "apexlab"])
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script, PROVE],
                          capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.fixture(scope="module")
def launcher(cuda_env, tmp_path_factory):
    """Compiles the source for the cuda environment, with more flags of nvcc."""
    folder = tmp_path_factory.mktemp("launcher")
    (folder / "source.cu").write_text(SOURCE)

    def compile_(name: str, *flags: str) -> Path:
        target = folder / f"{name}.so"
        subprocess.run(
            [cuda_env.cuda_home / "bin/nvcc", "-shared", "-Xcompiler", "-fPIC",
             "-gencode=arch=compute_90,code=sm_90", f"-L{cuda_env.cuda_home}/lib", *flags,
             "-o", target, folder / "source.cu"], check=True)
        return target

    return compile_


LAUNCH = """
module = ctypes.CDLL(sys.argv[1], ctypes.RTLD_LOCAL)
null = ctypes.c_void_p(0)
with tools.watch(device) as seen:
    status = [module.launch(null, null), module.launch_in_other_ways(null)]
print(json.dumps([status, [[one["name"], one["count"], one["file"]] for one in seen.refused],
                  seen.interposer]))
"""


@pytest.mark.cuda
@pytest.mark.parametrize(("name", "flags"), [
    ("default", ()), ("per_thread", ("--default-stream", "per-thread")),
    ("weak", ("-static-global-template-stub=false",))])
def test_what_nvcc_compiles_is_counted_beside_the_real_torch(
        cuda_env, launcher, library, name, flags):
    # Without a GPU every launch is refused: seen all the same, and no launch that ran.
    module = launcher(name, "-cudart", "shared", *flags)
    status, refused, ran = run(cuda_env.python, LAUNCH, module, library=library,
                               CUDA_VISIBLE_DEVICES="-1")
    assert all(code > 0 for code in status)
    assert sorted(refused) == sorted([name, count, str(module)] for name, count in (
        ("(anonymous namespace)::hidden(float*)", 1), ("void doubled<float>(float*)", 1),
        ("void doubled<double>(double*)", 2), ("plain", 4)))
    assert ran == []


@pytest.mark.cuda
def test_a_runtime_inside_the_module_is_out_of_sight(cuda_env, launcher, library):
    module = launcher("inside", "-cudart", "static")
    _, refused, ran = run(cuda_env.python, LAUNCH, module, library=library,
                          CUDA_VISIBLE_DEVICES="-1")
    assert (refused, ran) == ([], [])
