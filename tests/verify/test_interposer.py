"""The library that counts launches, with CUDA runtimes that are made here and always there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apexlab.verify import interposer

# A runtime that accepts or refuses every launch, and counts what reaches it.
RUNTIME = """
#include <stdlib.h>
static int status; static int calls; static char handles[16]; static int used;
int runtime_calls(void) {{ return calls; }}
void runtime_status(int wanted) {{ status = wanted; }}
void __cudaRegisterFunction() {{ calls++; }}
int __cudaGetKernel(void **handle, void *function) {{
    *handle = {handle}; return status; }}
int __cudaLaunchKernel() {{ calls++; return status; }}
int cudaLaunchKernel() {{ calls++; return status; }}
int cudaLaunchKernelExC() {{ calls++; return status; }}
int cudaLaunchCooperativeKernel_ptsz() {{ calls++; return status; }}
"""
# What a compiled module has: a function for each kernel, registered when it is loaded.
MODULE = """
typedef struct {{ unsigned x, y, z; }} dim3;
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *,
                            dim3 *, dim3 *, int *);
int __cudaGetKernel(void **, const void *);
int __cudaLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
int cudaLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
int cudaLaunchKernelExC(const void *, const void *, void **);
int cudaLaunchCooperativeKernel_ptsz(const void *, dim3, dim3, void **, unsigned long, void *);
{static} void {stub}(void) {{ }}
static void other(void) {{ }}
static dim3 one = {{1, 1, 1}};
__attribute__((constructor)) static void begin(void) {{
    __cudaRegisterFunction(0, (char *){stub}, 0, "{name}", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(0, (char *)other, 0, "other", -1, 0, 0, 0, 0, 0);
}}
int launch(void) {{ return cudaLaunchKernel({stub}, one, one, 0, 0, 0); }}
void launch_many(int count) {{ while (count--) launch(); }}
int launch_stub(void) {{ void *handle = 0; __cudaGetKernel(&handle, {stub});
                        return __cudaLaunchKernel(handle, one, one, 0, 0, 0); }}
int launch_extended(void) {{ return cudaLaunchKernelExC(0, {stub}, 0); }}
int launch_together(void) {{
    return cudaLaunchCooperativeKernel_ptsz(other, one, one, 0, 0, 0); }}
"""
SCRIPT = """
import ctypes, json, os, sys, threading
class Launch(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("file", ctypes.c_char_p), ("done", ctypes.c_uint64),
                ("refused", ctypes.c_uint64)]
counter = ctypes.CDLL(os.environ["LD_PRELOAD"], os.RTLD_NOLOAD | os.RTLD_LAZY)
def launches():
    count = counter.apexlab_launches(None, 0)
    out = (Launch * max(count, 1))()
    counter.apexlab_launches(out, count)
    return sorted([one.name.decode(), one.file and one.file.decode(), one.done, one.refused]
                  for one in out[:count])
def load(path, mode=ctypes.RTLD_LOCAL):
    return ctypes.CDLL(path, mode)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    found = interposer._compiled(tmp_path_factory.mktemp("interposer"))
    assert found is not None
    return found


@pytest.fixture
def made(maker, tmp_path):
    """Makes a module that uses the runtime of the given CUDA major."""

    def make(name: str, kernel: str, major: int = 13, stub: str = "kernel_function",
             static: str = "static", handle: str = "(char *)function + 1") -> Path:
        runtime = maker.library(
            tmp_path / f"libcudart.so.{major}", RUNTIME.format(handle=handle),
            f"-Wl,-soname,libcudart.so.{major}")
        source = MODULE.format(name=kernel, stub=stub, static=static)
        return maker.library(tmp_path / f"{name}.so", source, str(runtime),
                             f"-Wl,-rpath,{tmp_path}")

    return make


def run(library: Path, script: str, *arguments: Path):
    done = subprocess.run([sys.executable, "-c", SCRIPT + script, *map(str, arguments)],
                          env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_each_way_to_launch_is_counted_by_name_and_file(library, made):
    module = made("one", "_Z6kernelPf")
    found = run(library, """
module = load(sys.argv[1])
before = launches()
module.launch(); module.launch_stub(); module.launch_extended(); module.launch_together()
print(json.dumps([before, launches()]))
""", module)
    assert found == [[], [["_Z6kernelPf", str(module), 3, 0], ["other", str(module), 1, 0]]]


def test_every_call_reaches_the_runtime_and_its_answer_comes_back(library, made):
    module = made("one", "k")
    assert run(library, """
module = load(sys.argv[1]); runtime = ctypes.CDLL("libcudart.so.13")
statuses = []
for status in (0, 35, 209):
    runtime.runtime_status(status)
    statuses += [module.launch(), module.launch_extended()]
print(json.dumps([statuses, runtime.runtime_calls(), launches()]))
""", module) == [[0, 0, 35, 35, 209, 209], 8, [["k", str(module), 2, 4]]]


def test_what_was_counted_is_forgotten_and_the_names_are_not(library, made):
    module = made("one", "k")
    assert run(library, """
module = load(sys.argv[1])
module.launch_stub(); counter.apexlab_reset(); empty = launches()
module.launch_stub(); module.launch_stub()
print(json.dumps([empty, launches()]))
""", module) == [[], [["k", str(module), 2, 0]]]


def test_two_modules_with_a_kernel_of_the_same_name_are_told_apart(library, made):
    one, two = made("one", "same"), made("two", "same", stub="another_function")
    assert run(library, """
modules = [load(path) for path in sys.argv[1:]]
modules[0].launch(); modules[1].launch(); modules[1].launch()
print(json.dumps(launches()))
""", one, two) == [["same", str(one), 1, 0], ["same", str(two), 2, 0]]


def test_a_function_that_two_modules_share_has_no_certain_file(library, made):
    # Both have it in their symbol table, and the first one was loaded for all to see.
    one = made("one", "shared", static="")
    two = made("two", "shared", static="__attribute__((visibility(\"default\")))")
    assert run(library, """
modules = [load(path, ctypes.RTLD_GLOBAL) for path in sys.argv[1:]]
modules[1].launch()
print(json.dumps(launches()))
""", one, two) == [["shared", None, 1, 0]]


def test_each_module_keeps_its_own_runtime(library, made):
    assert run(library, """
modules = [load(path) for path in sys.argv[1:]]
modules[0].launch(); modules[1].launch(); modules[1].launch()
print(json.dumps([ctypes.CDLL(f"libcudart.so.{major}").runtime_calls() for major in (12, 13)]))
""", made("one", "k", 12), made("two", "k", 13)) == [3, 4]


def test_a_handle_that_is_the_function_itself_is_counted(library, made):
    # So it is where there is no driver.
    module = made("one", "k", handle="function")
    assert run(library, """
load(sys.argv[1]).launch_stub()
print(json.dumps(launches()))
""", module) == [["k", str(module), 1, 0]]


def test_threads_lose_no_launch(library, made):
    module = made("one", "k")
    assert run(library, """
module = load(sys.argv[1])
threads = [threading.Thread(target=lambda: module.launch_many(500000)) for _ in range(8)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(json.dumps(launches()))
""", module) == [["k", str(module), 4000000, 0]]


def test_a_table_that_is_full_is_told_and_not_guessed(library, made):
    module = made("one", "k")
    assert run(library, """
module = load(sys.argv[1])
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
launch = counter.cudaLaunchKernel
launch.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
one = Dim3(1, 1, 1)
for number in range(1, 40000):
    launch(number * 16, one, one, None, 0, None)
print(json.dumps(counter.apexlab_launches(None, 0)))
""", module) == -1


def test_a_process_without_cuda_does_not_notice(library):
    assert run(library, "print(json.dumps(launches()))") == []
    done = subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": str(library)})
    assert done.returncode == 0


def test_the_library_of_the_image_is_taken_before_a_compiler(library, monkeypatch, tmp_path):
    monkeypatch.setattr(interposer, "PREBUILT", library)
    monkeypatch.setenv("CC", "false")
    assert interposer.path(tmp_path) == library


@pytest.mark.parametrize("kind", ["absent", "text", "another library", "another machine"])
def test_a_library_that_would_not_load_is_compiled_anew(
        library, maker, monkeypatch, tmp_path, kind):
    bad = tmp_path / "bad" / "liblaunches.so"
    bad.parent.mkdir()
    if kind == "text":
        bad.write_text("no library")
    elif kind == "another library":
        maker.named(bad.parent, bad.name, "unrelated")
    elif kind == "another machine":
        data = bytearray(library.read_bytes())
        data[18:20] = (243).to_bytes(2, "little")  # RISC-V
        bad.write_bytes(data)
    monkeypatch.setattr(interposer, "PREBUILT", bad)
    assert interposer.path(tmp_path) == tmp_path / "liblaunches.so"


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler", "true"])
def test_without_a_compiler_there_is_no_library(monkeypatch, tmp_path, compiler):
    monkeypatch.setattr(interposer, "PREBUILT", tmp_path / "none")
    monkeypatch.setenv("CC", compiler)
    assert interposer.path(tmp_path) is None


def test_the_named_compiler_is_used(library, monkeypatch, tmp_path):
    monkeypatch.setattr(interposer, "PREBUILT", tmp_path / "none")
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\necho "$1" > "$(dirname "$0")/said"\nexec cc "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", f"{wrapper} -g")
    assert interposer.path(tmp_path) is not None
    assert (tmp_path / "said").read_text() == "-g\n"


def test_a_folder_that_the_loader_cannot_name_gives_no_library(library, monkeypatch, tmp_path):
    folder = tmp_path / "with blank"
    folder.mkdir()
    monkeypatch.setattr(interposer, "PREBUILT", tmp_path / "none")
    assert interposer.path(folder) is None
