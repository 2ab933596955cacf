"""The CUDA toolkit and the host compiler that a build on this machine would use."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# What torch's own headers include, so every extension needs them; and what Apex's softmax
# modules include beside.
TORCH_HEADERS = (
    "cuda_runtime.h", "cublas_v2.h", "cublasLt.h", "cusparse.h", "cusolverDn.h",
)  # fmt: skip
PROFILER_HEADER = "cuda_profiler_api.h"


@dataclass(frozen=True)
class Toolkit:
    """One CUDA toolkit: its `version` as nvcc prints it ("13.0.88"), the targets nvcc lists, the
    headers it holds, and whether the linker finds a `libcudart.so` in it."""

    home: Path
    found: str
    version: str
    targets: tuple[str, ...]
    headers: frozenset[str]
    cudart: Path | None
    cudart_linkable: bool

    @property
    def minor(self) -> str:
        """The CUDA minor, as torch names it: "13.0"."""
        return ".".join(self.version.split(".")[:2])

    @property
    def nvcc(self) -> Path:
        """Its compiler."""
        return self.home / "bin" / "nvcc"


@dataclass(frozen=True)
class Compiler:
    """The host compiler: how it is called, its name ("gcc", "clang") and version ("12.2.0")."""

    command: str
    name: str
    version: str

    @property
    def major(self) -> int:
        """12 of "12.2.0"."""
        return int(self.version.split(".")[0])


def candidates(environ: Mapping[str, str], torch_folder: str) -> list[tuple[Path, str]]:
    """The places to look for a toolkit, best first, each with how it was found.

    CUDA_HOME decides when it is set. torch itself would then take PATH and /usr/local/cuda and
    never find NVIDIA's wheels, though these are the toolkit that belongs to this very torch.
    """
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            return [(Path(environ[variable]), variable)]
    places = []
    if torch_folder:
        wheels = sorted((Path(torch_folder).parent / "nvidia").glob("cu[0-9]*"))
        places += [(folder, "NVIDIA's wheels beside torch") for folder in wheels]
    if on_path := shutil.which("nvcc", path=environ.get("PATH")):
        # A link or a wrapper in /usr/local/bin says nothing about where the toolkit is.
        places.append((Path(on_path).resolve().parent.parent, "nvcc on PATH"))
    places.append((Path("/usr/local/cuda"), "the usual place"))
    return [(home, how) for home, how in places if (home / "bin" / "nvcc").exists()]


def find(environ: Mapping[str, str], torch_folder: str, cuda: str | None) -> Toolkit | None:
    """The best toolkit: first of torch's `cuda`, then complete, then as found; None without any."""
    read = [toolkit for home, how in candidates(environ, torch_folder)
            if (toolkit := read_toolkit(home, how))]  # fmt: skip

    def worse(toolkit: Toolkit) -> tuple[bool, bool]:
        return toolkit.minor != cuda, not toolkit.headers.issuperset(TORCH_HEADERS)

    return min(read, key=worse, default=None)


def read_toolkit(home: Path, how: str) -> Toolkit | None:
    """What is in the toolkit at `home`; None if its nvcc cannot be run."""
    nvcc = str(home / "bin" / "nvcc")
    version = re.search(r"V(\d+\.\d+\.\d+)", _output(nvcc, "--version"))
    if not version:
        return None
    targets = (_output(nvcc, "--list-gpu-code") + _output(nvcc, "--list-gpu-arch")).split()
    include = home / "include"
    libraries = [home / "lib64", home / "lib"]
    linkable = any((folder / "libcudart.so").exists() for folder in libraries)
    runtime = [path for folder in libraries for path in sorted(folder.glob("libcudart.so.*"))]
    return Toolkit(
        home=home,
        found=how,
        version=version[1],
        targets=tuple(targets),
        headers=frozenset(
            name for name in (*TORCH_HEADERS, PROFILER_HEADER) if (include / name).exists()),
        cudart=runtime[0] if runtime else None,
        cudart_linkable=linkable,
    )  # fmt: skip


def read_compiler(
    environ: Mapping[str, str] = os.environ, variable: str = "CXX"
) -> Compiler | None:
    """The compiler that `variable` names, or else g++ or c++; None if none answers."""
    for command in [environ[variable]] if environ.get(variable) else ["g++", "c++"]:
        try:
            text = _output(*shlex.split(command), "--version")
        except ValueError:  # a quotation mark without its other half
            continue
        # The last one on the first line: distributions put their package's version before it.
        if found := re.findall(r"\b\d+\.\d+\.\d+", text.partition("\n")[0]):
            return Compiler(command, "clang" if "clang" in text else "gcc", found[-1])
    return None


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
