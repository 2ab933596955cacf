"""Everything that would stop a build later, found before any compiler runs.

`judge` is pure: facts about the host and the request in, findings out, all of them, so that a
person repairs the machine once and not five times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from apexlab.build.jobs import Jobs
from apexlab.build.limits import GIB
from apexlab.build.probe import TorchFacts
from apexlab.build.request import Request
from apexlab.build.toolkit import PROFILER_HEADER, TORCH_HEADERS, Compiler, Toolkit
from apexlab.verify.arch import Arch

# setuptools below 64 reads no build options; torch's builder needs ninja to show progress and to
# run files in parallel.
NEEDED_PACKAGES = {"setuptools": "64", "wheel": "0", "ninja": "0", "packaging": "20.6"}
# Object files with debug information, libraries and two copies of the wheel, per architecture
# and on top: Apex's core for one architecture left about 1 GB in its build folder.
DISK_BYTES = 2 * GIB
DISK_BYTES_PER_ARCH = GIB // 4
# Less than this does not even hold torch and the smallest compiler run.
MEMORY_BYTES = GIB


@dataclass(frozen=True)
class Finding:
    """One thing in the way. `usage`: the request itself can never be met by this pair of torch
    and toolkit; otherwise this machine lacks something. A `warning` does not stop the build."""

    code: str
    message: str
    usage: bool = False
    warning: bool = False


@dataclass(frozen=True)
class Host:
    """What the machine has. `gcc_max` and `gcc_min` are what the matrix says of this CUDA and
    torch, None where the matrix has no such row; `environ` is what the caller's shell set; `cc` is
    the compiler that CC names for nvcc; `noexec`: no program may run in `scratch`."""

    torch: TorchFacts
    toolkit: Toolkit | None
    compiler: Compiler | None
    environ: Mapping[str, str]
    gcc_max: str | None
    gcc_min: str | None
    disk_free: int
    scratch: str
    jobs: Jobs
    needs_profiler_header: bool
    cc: Compiler | None = None
    noexec: bool = False


def judge(host: Host, request: Request) -> list[Finding]:
    """All findings, in the order in which one would repair them."""
    return [
        *_torch(host.torch),
        *_packages(host.torch),
        *_toolkit(host),
        *_compiler(host, "CXX", host.compiler),
        *(_compiler(host, "CC", host.cc) if host.environ.get("CC") else ()),
        *_archs(host, request.archs),
        *_room(host, len(request.archs)),
    ]


def _torch(torch: TorchFacts) -> Iterator[Finding]:
    if torch.packages.get("torch") is None:
        yield Finding("torch-missing", "torch is not installed for this Python. Extensions are "
                      "compiled against the torch that will load them: install it first.")
    elif torch.error:
        yield Finding("torch-broken", f"torch cannot be imported: {torch.error}. Install it again.")
    elif not torch.cuda:
        yield Finding("torch-cpu", f"torch {torch.version} is a CPU build, and CUDA extensions "
                      "need a CUDA build of torch. Install one, such as the default of PyPI.")


def _packages(torch: TorchFacts) -> Iterator[Finding]:
    if not torch.headers:
        yield Finding("python-headers", "Python's own headers are missing (Python.h). Install "
                      "them: python3-dev on Debian and Ubuntu.")
    absent = [name for name in NEEDED_PACKAGES if torch.packages.get(name) is None]
    if absent:
        names = ", ".join(absent)
        yield Finding("packages-missing", f"The build needs {names}, which this Python does not "
                      f"have: pip install {' '.join(absent)}.")
    for name, least in NEEDED_PACKAGES.items():
        version = torch.packages.get(name)
        if version and _older(version, least):
            yield Finding("package-old", f"{name} {version} is too old: the build needs {least} or "
                          f"later. pip install --upgrade {name}.")


def _toolkit(host: Host) -> Iterator[Finding]:
    toolkit, cuda = host.toolkit, host.torch.cuda
    cuda_home = host.environ.get("CUDA_HOME") or host.environ.get("CUDA_PATH") or ""
    if ":" in cuda_home:
        yield Finding("cuda-home-list", f"CUDA_HOME is a list ({cuda_home}). It must name one "
                      "folder, the one that holds bin/nvcc.")
        return
    if toolkit is None:
        where = (f"CUDA_HOME is {cuda_home}, and there is no nvcc that runs in its bin folder"
                 if cuda_home else "CUDA_HOME is unset, and there is no nvcc beside torch, on "
                 "PATH or in /usr/local/cuda")
        yield Finding("nvcc-missing", f"{where}. Use a devel image, or install the toolkit that "
                      f"fits torch (CUDA {cuda or 'as torch has it'}); runtime images have none.")
        return
    if cuda and toolkit.minor != cuda:
        yield Finding("cuda-mismatch", f"torch {host.torch.version} is built for CUDA {cuda}, and "
                      f"nvcc in {toolkit.home} is {toolkit.version} ({toolkit.found}). They must "
                      "agree in both numbers: point CUDA_HOME to the other toolkit, or install the "
                      f"torch for CUDA {toolkit.minor}.")
    wanted = [*TORCH_HEADERS, *([PROFILER_HEADER] if host.needs_profiler_header else [])]
    if lost := [name for name in wanted if name not in toolkit.headers]:
        yield Finding("headers-missing", f"{toolkit.home}/include lacks {', '.join(lost)}, which "
                      "torch's headers or this source include. Install the development packages "
                      "of this toolkit, or point CUDA_HOME to a complete one.")
    if not toolkit.cudart_linkable and toolkit.cudart is None:
        yield Finding("cudart-missing", f"{toolkit.home} has no libcudart.so to link with. Install "
                      "the CUDA runtime of this toolkit.")


def _compiler(host: Host, variable: str, compiler: Compiler | None) -> Iterator[Finding]:
    if compiler is None:
        named = host.environ.get(variable)
        yield Finding("compiler-missing", f"{variable} is {named!r}, which is no compiler that "
                      "answers here. Set it to one, such as g++, or unset it." if named else
                      "There is no C++ compiler here. Install g++.")
        return
    if compiler.name != "gcc":
        return
    cuda = host.toolkit.minor if host.toolkit else ""
    if host.gcc_max and compiler.major > int(host.gcc_max.split(".")[0]):
        yield Finding("compiler-new", f"nvcc of CUDA {cuda} accepts gcc up to {host.gcc_max}, and "
                      f"{compiler.command} is {compiler.version}. Install g++-{host.gcc_max} and "
                      f"set CC and CXX to it.")
    if host.gcc_min and _older(compiler.version, host.gcc_min):
        yield Finding("compiler-old", f"The headers of torch {host.torch.version} need gcc "
                      f"{host.gcc_min} or later, and {compiler.command} is {compiler.version}. "
                      "Install a newer g++ and set CC and CXX to it.")


def _archs(host: Host, archs: tuple[Arch, ...]) -> Iterator[Finding]:
    toolkit = host.toolkit
    if toolkit and toolkit.targets:
        # nvcc lists plain targets only, so the suffix a or f is left to nvcc itself.
        unknown = [arch for arch in archs if f"sm_{arch.major}{arch.minor}" not in toolkit.targets]
        if unknown:
            known = [name[3:] for name in toolkit.targets if name.startswith("sm_")]
            listed = " ".join(f"{name[:-1]}.{name[-1]}" for name in known)
            yield Finding("arch-nvcc", f"nvcc {toolkit.version} cannot compile for "
                          f"{', '.join(map(str, unknown))}. It knows {listed}.", usage=True)
    # The probe may have asked about more than is built: the default is not known until it answers.
    plain = {str(dataclasses.replace(arch, ptx=False)) for arch in archs}
    refused = [name for name in host.torch.unknown_archs if name.split("+")[0] in plain]
    if refused:
        yield Finding("arch-torch", f"torch {host.torch.version} does not know the architecture "
                      f"{', '.join(refused)}. Leave it out, or take a newer torch.", usage=True)


def _room(host: Host, archs: int) -> Iterator[Finding]:
    if host.noexec:
        yield Finding("scratch-noexec", f"{host.scratch} is mounted noexec, and the build runs "
                      "programs there. Set TMPDIR to another folder.")
    needed = DISK_BYTES + archs * DISK_BYTES_PER_ARCH
    if host.disk_free < needed:
        yield Finding("disk-low", f"The build needs about {needed / GIB:.1f} GiB in "
                      f"{host.scratch}, and {host.disk_free / GIB:.1f} GiB are free. Free some, or "
                      "set TMPDIR to a folder on a larger disk.")
    if host.jobs.limit < MEMORY_BYTES:
        yield Finding("memory-low", f"A build may use {host.jobs.limit / GIB:.1f} GiB of memory "
                      "here, and one compiler run needs more. Allow at least 2 GiB.")
    elif host.jobs.tight:
        yield Finding("memory-tight", f"A build may use {host.jobs.limit / GIB:.1f} GiB of memory "
                      "here; Apex's largest files took 3.0 GiB each. One compiler runs at a time, "
                      "and it may still be killed.", warning=True)


def _older(version: str, least: str) -> bool:
    try:
        return Version(version) < Version(least)
    except InvalidVersion:
        return False
