"""The environment that setup.py runs in: compilers, the compiler cache, flags, link paths.

torch reads PYTORCH_NVCC and CXX when it writes build.ninja, so small wrapper scripts of those
names are the one place to put the cache in front and a C++ standard behind, with no patch to
anybody's setup.py.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from apexlab.build.jobs import Jobs
from apexlab.build.request import Request
from apexlab.build.toolkit import Compiler, Toolkit

# What a caller's shell may hold and a build must not see: flags of Apex beside the request, and
# nvcc's own variables, which ccache 4.7.5 leaves out of its hash (seen: with
# NVCC_APPEND_FLAGS=-std=c++20 it handed out the object of the c++17 run).
_UNSET = ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "DIST_EXTRA_CONFIG", "MAKEFLAGS",
          "NINJAFLAGS", "CCACHE_BASEDIR")  # fmt: skip


def environment(
    caller: Mapping[str, str], request: Request, toolkit: Toolkit, compiler: Compiler, jobs: Jobs,
    std: str | None, scratch: Path,
) -> dict[str, str]:
    """The variables for setup.py. Writes the wrappers and link folder into `scratch`."""
    env = {key: value for key, value in caller.items()
           if key not in _UNSET and not key.startswith("APEX_")}  # fmt: skip
    env |= request.environment
    env |= {
        "CUDA_HOME": str(toolkit.home),
        "MAX_JOBS": str(jobs.jobs),
        "NINJA_STATUS": "[%f/%t] ",
        # Lines of setup.py and of ninja must come in the order in which they happened.
        "PYTHONUNBUFFERED": "1",
        # The debug sections are stripped from the wheel anyway, and g++ is much faster without.
        "CFLAGS": f"{caller.get('CFLAGS', '')} -g0".strip(),
        "CXXFLAGS": f"{caller.get('CXXFLAGS', '')} -g0".strip(),
        "LC_ALL": "C.UTF-8",
    }
    if jobs.threads > 1:
        # Changes no output, so it may stay outside the cache's hash: other jobs, same objects.
        env["NVCC_APPEND_FLAGS"] = f"--threads {jobs.threads}"
    env["PATH"] = os.pathsep.join([str(toolkit.home / "bin"), caller.get("PATH", os.defpath)])
    cached = _use_cache(caller)
    env |= _compilers(caller, toolkit, compiler, std, scratch / "bin", cached)
    env |= _cache(toolkit, scratch) if cached else {}
    env |= _link_path(caller, toolkit, scratch / "lib")
    return env


def _compilers(
    caller: Mapping[str, str], toolkit: Toolkit, compiler: Compiler, std: str | None, folder: Path,
    cached: bool,
) -> dict[str, str]:  # fmt: skip
    """CXX and PYTORCH_NVCC as wrappers. The name must hold g++: torch looks at it."""
    folder.mkdir(parents=True)
    before = ["ccache"] if cached else []
    after = [f"-std={std}"] if std else []
    host, host_flags = _nvcc_host(caller)
    cxx = _wrapper(folder / ("clang++" if compiler.name == "clang" else "g++"),
                   [*before, *_resolved(compiler.command, caller)], after)  # fmt: skip
    nvcc = _wrapper(
        folder / "nvcc",
        [*before, str(toolkit.nvcc), *shlex.split(caller.get("NVCC_PREPEND_FLAGS", ""))],
        [*host_flags, *shlex.split(caller.get("NVCC_APPEND_FLAGS", "")), *after],
    )
    return {"CXX": str(cxx), "PYTORCH_NVCC": str(nvcc), **host}


def _nvcc_host(caller: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """CC, which torch hands to nvcc as its host compiler, and nvcc's options for its flags. nvcc
    takes a program alone: "ccache g++" and "g++ -m64" are no file to it. Without CC it would take
    the `gcc` on PATH, so a chosen CXX counts here too."""
    named = caller.get("CC") or caller.get("CXX")
    if not named:
        return {}, []
    program, *flags = _resolved(named, caller)
    return {"CC": program}, [f"-Xcompiler={flag}" for flag in flags]


def _resolved(command: str, caller: Mapping[str, str]) -> list[str]:
    """The command with its program's full path, and any cache in front of it taken off."""
    words = [word for word in shlex.split(command) if Path(word).name != "ccache"]
    path = os.pathsep.join(part for part in caller.get("PATH", os.defpath).split(os.pathsep)
                           if not part.rstrip("/").endswith("/ccache"))  # fmt: skip
    return [shutil.which(words[0], path=path) or words[0], *words[1:]]


def _wrapper(path: Path, before: list[str], after: list[str]) -> Path:
    """A script that runs `before "$@" after`; g++ and nvcc both let the last -std win."""
    line = " ".join([shlex.join(before), '"$@"', shlex.join(after)]).strip()
    path.write_text(f"#!/bin/sh\nexec {line}\n")
    path.chmod(0o755)
    return path


def _use_cache(caller: Mapping[str, str]) -> bool:
    """Whether ccache is there, not switched off (CCACHE_DISABLE, its own variable), and has a
    folder that it may write to: without one it would fail every file, and nobody asked for it."""
    program = shutil.which("ccache", path=caller.get("PATH"))
    if program is None or caller.get("CCACHE_DISABLE"):
        return False
    try:
        done = subprocess.run([program, "--get-config", "cache_dir"], env=dict(caller), text=True,
                              capture_output=True, check=True)  # fmt: skip
        folder = Path(done.stdout.strip())
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return os.access(folder, os.W_OK)


def _cache(toolkit: Toolkit, scratch: Path) -> dict[str, str]:
    """ccache's settings; what the caller set (CCACHE_DIR, a size) stays.

    Each build has its own scratch folder, so paths are made relative to it. Compilers are known
    by content, since installing the same wheel again changes its mtime; and cicc and ptxas are
    added, since ccache itself looks at the nvcc driver alone. The inode cache keeps these hashes
    and those of torch's headers: a hit then takes 5 ms and not 150.
    """
    tools = (toolkit.home / "nvvm" / "bin" / "cicc", toolkit.home / "bin" / "ptxas")
    return {
        "CCACHE_BASEDIR": str(scratch.resolve()),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_INODECACHE": "1",
        "CCACHE_EXTRAFILES": os.pathsep.join(str(tool) for tool in tools if tool.exists()),
    }


def _link_path(caller: Mapping[str, str], toolkit: Toolkit, folder: Path) -> dict[str, str]:
    """NVIDIA's wheels hold libcudart.so.13 and no libcudart.so for the linker: a link in a folder
    of our own, so that nobody's environment is written to."""
    if toolkit.cudart_linkable or toolkit.cudart is None:
        return {}
    folder.mkdir(parents=True)
    (folder / "libcudart.so").symlink_to(toolkit.cudart)
    paths = [str(folder), caller.get("LIBRARY_PATH", "")]
    return {"LIBRARY_PATH": os.pathsep.join(filter(None, paths))}
