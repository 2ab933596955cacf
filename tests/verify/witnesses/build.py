"""Third-party witnesses: kernels that others derived from Apex's, built from their PyPI sources.

What verify says of a kernel must also hold for binaries that nobody here wrote. The sources are
fetched when this runs, checked against the hashes below, and never kept in the repository.

    python build.py --out FOLDER [--arch 9.0] [--sdists FOLDER] [--offline FOLDER]

It has to be run with a Python that has a CUDA build of torch, setuptools, and CUDA_HOME set; pip
does the fetching. `--offline` names a folder with the source distributions, for a machine without
a network. It prints the files of the modules.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path

VERSION_FLAGS = ["-DVERSION_GE_1_1", "-DVERSION_GE_1_3", "-DVERSION_GE_1_5"]


@dataclass(frozen=True)
class Witness:
    """One module: its source distribution, and which files of it are compiled with which flags."""

    module: str
    project: str
    version: str
    sha256: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    nvcc: tuple[str, ...] = ()

    @property
    def sdist(self) -> str:
        return f"{self.project}-{self.version}.tar.gz"


WITNESSES = (
    Witness(
        "witness_adam", "deepspeed", "0.19.8",
        "9e491abd0827ea5c389dd702e15e11e13d83d904bac4a20d6c2a4cb37207a9af",
        ("csrc/adam/fused_adam_frontend.cpp", "csrc/adam/multi_tensor_adam.cu"),
        ("csrc/includes", "csrc/adam"), ("-lineinfo", "--use_fast_math")),
    Witness(
        "witness_layer_norm", "colossalai", "0.5.0",
        "883913dfd1165937f444f2673752475efdc63506c4bc3d00af33c7c8fac6d39d",
        ("extensions/pybind/layernorm/layer_norm.cpp",
         "extensions/csrc/kernel/cuda/layer_norm_kernel.cu"),
        ("extensions/csrc",), ("-maxrregcount=50", "--use_fast_math")),
)  # fmt: skip


def is_right(witness: Witness, file: Path) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == witness.sha256


def fetch(folder: Path) -> None:
    """The source distributions into `folder`. Not `pip download`, which would run their setup.py:
    pip is only asked where they are, with the index and the certificates that it is set up for."""
    from pip._internal.commands import create_command
    from pip._vendor.packaging.specifiers import SpecifierSet

    wanted = [witness for witness in WITNESSES if not is_right(witness, folder / witness.sdist)]
    if not wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = create_command("download")
    options, _ = command.parse_args(["--quiet", "--no-binary", ":all:"])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session)
        for witness in wanted:
            asked = SpecifierSet(f"=={witness.version}")
            best = finder.find_best_candidate(witness.project, asked).best_candidate
            answer = session.get(best.link.url_without_fragment) if best else None
            if answer is None or answer.status_code != 200:
                raise SystemExit(f"{witness.sdist} cannot be fetched from PyPI. Give the folder "
                                 "that holds it with --offline.")
            partial = folder / f".{witness.sdist}.{os.getpid()}"
            partial.write_bytes(answer.content)
            partial.replace(folder / witness.sdist)


def unpack(witness: Witness, sdists: Path, folder: Path) -> Path:
    """The files that are compiled, and their headers; the folder that they lie in."""
    file = sdists / witness.sdist
    if not is_right(witness, file):
        raise SystemExit(f"{file} is not there, or not the file that is expected "
                         f"(sha256 {witness.sha256}).")
    top = f"{witness.project}-{witness.version}/"
    wanted = tuple(top + part for part in (*witness.headers, *witness.sources))
    with tarfile.open(file) as archive:
        for member in archive:
            if member.isfile() and member.name.startswith(wanted) and ".." not in member.name:
                archive.extract(member, folder)
    return folder / top


def compile_(witness: Witness, tree: Path, out: Path, arch: str) -> None:
    """With the flags that torch gives to every extension, in a process of its own."""
    script = (
        "from setuptools import setup\n"
        "from torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
        f"flags = {VERSION_FLAGS!r}\n"
        "setup(name='witness', script_args=['-q', 'build_ext', '--build-lib', "
        f"{str(out)!r}, '--build-temp', {str(tree / 'temp')!r}],\n"
        f"  ext_modules=[CUDAExtension({witness.module!r}, {list(witness.sources)!r},\n"
        f"    include_dirs={[str(tree / part) for part in witness.headers]!r},\n"
        "    extra_compile_args={'cxx': ['-O1', '-w', *flags],\n"
        f"      'nvcc': ['-O3', '-w', *{list(witness.nvcc)!r}, *flags]}})],\n"
        "  cmdclass={'build_ext': BuildExtension.with_options(use_ninja=False)})\n")
    subprocess.run([sys.executable, "-c", script], cwd=tree, check=True,
                   env={**os.environ, "TORCH_CUDA_ARCH_LIST": arch})


def build(witness: Witness, out: Path, sdists: Path, arch: str) -> Path:
    """The module's file; one that is there already is not built again."""
    target = out / f"{witness.module}{EXTENSION_SUFFIXES[0]}"
    stamp = out / f"{witness.module}.stamp"
    wanted = f"{witness} {arch} {version('torch')}"
    if not (target.is_file() and stamp.is_file() and stamp.read_text() == wanted):
        compile_(witness, unpack(witness, sdists, out / "source"), out, arch)
        if not target.is_file():
            raise SystemExit(f"{target} was not made.")
        stamp.write_text(wanted)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="9.0")
    parser.add_argument("--sdists", type=Path, help="where they are kept (default: OUT)")
    parser.add_argument("--offline", type=Path, help="take them from here, and fetch nothing")
    options = parser.parse_args()
    out = options.out.resolve()
    sdists = (options.offline or options.sdists or out).resolve()
    if options.offline is None:
        fetch(sdists)
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        for file in pool.map(lambda one: build(one, out, sdists, options.arch), WITNESSES):
            print(file)


if __name__ == "__main__":
    main()
