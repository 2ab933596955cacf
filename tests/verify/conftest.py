"""Real broken binaries, made when the tests run: libraries by gcc, fatbins by a small writer.

The torch here is a few libraries of three functions each; the real one is for the ring `cuda`.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apexlab.verify import site
from apexlab.verify.found import find_files
from apexlab.verify.record import Built, Record

SUFFIX = f".cpython-{sys.version_info[0]}{sys.version_info[1]}-x86_64-linux-gnu.so"
PTX, SASS = 1, 2
# TORCH_CHECK's function in both C++ ABIs; every real torch has one of them.
OLD_ABI = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
NEW_ABI = OLD_ABI[:-2] + "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
# A module without Python.h, which a bare machine lacks: the definition is laid out by hand.
MODULE = """
extern void *PyModule_Create2(void *, int);
static struct {{ long refs; void *type, *init; long index; void *copy; const char *name, *doc;
                long size; void *methods, *slots, *traverse, *clear, *free; }}
    definition = {{ .refs = 1, .name = "{init}", .size = -1 }};
{more}
void *PyInit_{init}(void) {{ {body} return PyModule_Create2(&definition, 1013); }}
"""
FATBIN = '__asm__(".section .nv_fatbin,\\"a\\"\\n.balign 8\\n.incbin \\"{}\\"\\n.previous\\n");'
TORCH_INIT = """
import ctypes, pathlib
from .version import __version__
_lib = pathlib.Path(__file__).parent / "lib"
for _name in sorted(_lib.glob("lib*.so")) + sorted(_lib.parent.parent.glob("nvidia/*/lib/*.so.*")):
    ctypes.CDLL(str(_name), ctypes.RTLD_GLOBAL)
_operations = []
class _C:
    @staticmethod
    def _dispatch_get_all_op_names(): return list(_operations)
class ops:
    loaded_libraries = set()
    @staticmethod
    def load_library(path):
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise OSError("Could not load this library: " + path) from error
        ops.loaded_libraries.add(path)
        try:
            names = ctypes.c_char_p.in_dll(library, "registers").value.decode()
        except ValueError:
            return
        _operations.extend(names.split())
"""
# A shim as Apex has them: it looks in its own folder, its parent and its grandparent.
SHIM = """
import pathlib, torch
_here = pathlib.Path(__file__).parent
for _folder in (_here, _here.parent, _here.parent.parent):
    if _files := sorted(_folder.glob("_{name}*.so"), key=lambda file: ".cpython-" in file.name):
        torch.ops.load_library(str(_files[0]))
        break
else:
    raise ImportError("no library for {name}", name="{name}")
"""


def cubin(kernels: list[str], machine: int = 190) -> bytes:
    """An ELF file with a symbol table that has `kernels` as entry points."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in kernels)
    symbols, at = bytes(24), 1
    for name in kernels:
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0x10, 1, 0, 8)
        at += len(name) + 1
    body = strings + bytes(-len(strings) % 8)
    table = 64 + len(body) + len(symbols)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(strings), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 64 + len(body), len(symbols), 1, 0, 8, 24)
    # The code itself, of no length: a section that may be executed.
    sections += struct.pack("<IIQQQQIIQQ", 0, 1, 6, 0, 64, 0, 0, 0, 1, 0) if kernels else b""
    header = b"\x7fELF\x02\x01" + bytes(10) + struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, table, 0, 64, 0, 0, 64, len(sections) // 64, 1)
    return header + body + symbols + sections


def entry(kind: int, arch: int, payload: bytes, flags: int = 0, header: int = 64) -> bytes:
    payload += bytes(-len(payload) % 8)
    start = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, header, len(payload), 0, 0, 0, 9, arch,
                        0, 0, flags, 0, 0)
    return start + bytes(header - len(start)) + payload


def container(*entries: bytes, version: int = 1) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, version, 16, len(body)) + body


def fatbin(*targets: str, kernels: tuple[str, ...] = ("_Z6kernelPf",)) -> bytes:
    """A fatbin with machine code or PTX for each of `targets`, `sm_90` or `compute_90`."""
    entries = []
    for target in targets:
        kind, _, arch = target.partition("_")
        flags = {"a": 0x100000, "f": 0x200000}.get(arch[-1], 0)
        payload = cubin(list(kernels)) if kind == "sm" else b".version 9.0"
        entries.append(entry(SASS if kind == "sm" else PTX, int(arch.rstrip("af")), payload,
                             flags))
    return container(*entries)


@dataclass
class Maker:
    """Compiles, and remembers what it compiled: the same library is made once a session."""

    root: Path
    made: dict[tuple, Path] = field(default_factory=dict)
    # What libraries with a name of their own were made of: who links one gets its name in, and
    # not its path, which is another in each test.
    named_as: dict[str, tuple] = field(default_factory=dict)
    cubin = staticmethod(cubin)
    entry = staticmethod(entry)
    container = staticmethod(container)
    fatbin = staticmethod(fatbin)
    old_abi, new_abi = OLD_ABI, NEW_ABI

    def library(self, target: Path, source: str, *flags: str) -> Path:
        has_name = "-soname" in str(flags)
        key = (source, *(self.named_as.get(flag, flag) for flag in flags),
               target.name if has_name else "")
        if key not in self.made:
            built = self.root / f"{len(self.made)}.so"
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-w", "-o", built, "-x", "c", "-", "-x", "none",
                 *flags], input=source, text=True, check=True)
            self.made[key] = built
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.made[key], target)
        self.named_as.pop(str(target), None)
        if has_name:
            self.named_as[str(target)] = key
        return target

    def named(self, folder: Path, name: str, *functions: str) -> Path:
        """A library that is known by its name, as torch's are."""
        source = "".join(f"int {function}(void) {{ return 1; }}\n" for function in functions)
        return self.library(folder / name, source, f"-Wl,-soname,{name}")

    def versioned(self, folder: Path, name: str, **functions: str) -> Path:
        """A library with symbol versions: function=version, as the C library has them."""
        script = folder / f"{name}.map"
        folder.mkdir(parents=True, exist_ok=True)
        script.write_text("".join(f"{version} {{ global: {function}; }};\n"
                                  for function, version in functions.items()))
        source = "".join(f"int {function}(void) {{ return 1; }}\n" for function in functions)
        return self.library(folder / name, source, f"-Wl,-soname,{name}",
                            f"-Wl,--version-script={script}", "-nostdlib")

    def extension(
        self, folder: Path, name: str, *, code: bytes | None = None, body: str = "",
        more: str = "", calls: tuple[str, ...] = (), needs: tuple[Path, ...] = (),
        init: str | None = None, file: str | None = None,
    ) -> Path:
        """An extension module `name`, with `code` as its fatbin and calls of `calls`."""
        init = name if init is None else init
        more += "".join(f"extern int {call}(void);\n" for call in calls)
        more += "void use(void) {" + "".join(f"{call}();" for call in calls) + "}"
        if code is not None:
            place = self.root / f"{abs(hash(code))}.fatbin"
            place.write_bytes(code)
            more += FATBIN.format(place)
        source = MODULE.format(init=init, body=body, more=more)
        flags = [str(path) for path in needs]
        return self.library(folder / (file or name + SUFFIX), source, "-Wl,--no-as-needed", *flags)

    def library_of(self, folder: Path, name: str, *, file: str | None = None,
                   registers: str | None = "apex::{name}_call", shim: bool = True,
                   **more) -> Path:
        """An extension of the other layout: a library that registers operations, and its shim.
        `file` is its place below `folder`."""
        operations = ""
        if registers is not None:
            operations = f'const char *registers = "{registers.format(name=name)}";'
        if shim:
            shims = folder / "apex/_extensions"
            shims.mkdir(parents=True, exist_ok=True)
            (shims.parent / "__init__.py").touch()
            (shims / "__init__.py").touch()
            (shims / f"{name}.py").write_text(SHIM.format(name=name))
        more = {"code": fatbin("sm_90"), "more": "", **more}
        more["more"] += operations
        return self.extension(folder, name, init="none", file=file or f"_{name}.abi3.so", **more)

    def torch(self, folder: Path, version: str = "2.6.0+cu124", cuda: str | None = "12.4") -> Path:
        """A torch as verify and the child see it; without `cuda` the CPU build."""
        package = folder / "torch"
        lib = package / "lib"
        self.named(lib, "libc10.so", "_ZN3c105ErrorEv", NEW_ABI)
        self.named(lib, "libtorch_cpu.so", "_ZN2at3addEv")
        if cuda:
            self.named(lib, "libc10_cuda.so", "_ZN3c104cuda9SetDeviceEav")
            major = cuda.split(".")[0]
            nvidia = folder / "nvidia" / f"cu{major}" / "lib"
            self.named(nvidia, f"libcudart.so.{major}", "cudaLaunchKernel")
            self.named(nvidia, f"libcublas.so.{major}", "cublasGemmEx")
        (package / "__init__.py").write_text(TORCH_INIT)
        (package / "version.py").write_text(
            "from typing import Optional\n"
            f"__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\ngit_version = 'abc'\n")
        return package

    def healthy(self, folder: Path, *names: str, targets: tuple[str, ...] = ("sm_90",)) -> Path:
        """A site with torch and the named core extensions, all of them in order."""
        self.torch(folder)
        (folder / "apex").mkdir(exist_ok=True)
        (folder / "apex" / "__init__.py").write_text("")
        for name in names:
            code = None if name == "apex_C" else fatbin(*targets)
            self.extension(folder, name, code=code, calls=("_ZN3c105ErrorEv",),
                           needs=(folder / "torch/lib/libc10.so",))
        return folder


@pytest.fixture(scope="session")
def maker(tmp_path_factory) -> Maker:
    if not shutil.which("gcc"):
        if os.environ.get("APEXLAB_REQUIRE"):
            pytest.fail("there is no gcc, and rings are required here", pytrace=False)
        pytest.skip("there is no gcc, which makes the binaries that are judged")
    return Maker(tmp_path_factory.mktemp("made"))


@pytest.fixture
def folder(tmp_path) -> Path:
    """An empty site-packages folder of the Python that runs the tests."""
    place = tmp_path / "site"
    place.mkdir()
    return place


@pytest.fixture
def record_of():
    """Makes the record of the extensions that lie in a folder."""

    def make(folder: Path, *names: str, source: str = "apex", torch: str = "2.6.0+cu124",
             archs: tuple[str, ...] = ("9.0",), requested: tuple[str, ...] | None = None) -> Record:
        from apexlab.verify.binary import read_binary
        found = find_files([folder], site.here().abi, folder / "apex")
        built = []
        for name in names:
            binary = read_binary(found[name].path)
            built.append(Built(name, found[name].path.name, binary.size, binary.sha256,
                               binary.targets, binary.ptx))
        return Record(
            source=source, apex={"commit": "5c8860f1dc79f9edc3c1ba4050fe841207834564"},
            torch={"version": torch, "cuda": "12.4"}, toolkit={}, python={}, archs=archs,
            profile="core", requested=names if requested is None else requested,
            built=tuple(built))

    return make


CUDA_SOURCE = """
#include <cuda_runtime.h>
namespace { template <typename T> __global__ void hidden(T *x) { x[threadIdx.x] *= 2; } }
__global__ void first(float *x) { x[threadIdx.x] += 1; }
extern "C" __global__ void plain(float *x) { *x = 3; }
__device__ __noinline__ float helper(float x) { return x * 3; }
__global__ void third(float *x) { *x = helper(*x); }
void launch(float *x, double *y) { first<<<1, 1>>>(x); hidden<<<1, 1>>>(x); hidden<<<1, 1>>>(y);
                                   third<<<1, 1>>>(x); plain<<<1, 1>>>(x); }
"""


@pytest.fixture(scope="session")
def nvcc(cuda_env, tmp_path_factory):
    """Compiles five small kernels to a shared object, with the given flags of nvcc."""
    folder = tmp_path_factory.mktemp("nvcc")
    (folder / "source.cu").write_text(CUDA_SOURCE)
    runtime = next(cuda_env.cuda_home.glob("lib*/libcudart.so.*"))
    (folder / "libcudart.so").symlink_to(runtime)
    made: dict[tuple[str, ...], Path] = {}

    def compile_(*flags: str) -> Path:
        if flags not in made:
            made[flags] = folder / f"{len(made)}.so"
            subprocess.run(
                [cuda_env.cuda_home / "bin/nvcc", "-shared", "-Xcompiler", "-fPIC", "-cudart",
                 "shared", f"-L{folder}", f"-L{runtime.parent}", *flags, "-o", made[flags],
                 folder / "source.cu"], check=True, env={"PATH": "/usr/bin:/bin"})
        return made[flags]

    return compile_
