"""The whole chain without containers: compile, gate, verify, and one sabotage that is caught.

Needs Python, a C++ compiler and PyPI; no Docker, no GPU, no registry of images. Everything is
kept in one folder, and a step that is done is not done again. Runs on a bare Python (standard
library only), since the environment is what it makes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# One torch and the toolkit of its CUDA, both from PyPI. All of nvcc, nvvm and crt must be named:
# nvcc alone takes the newest of the other two, whose PTX this ptxas refuses.
TORCH = "torch==2.11.0"
TOOLKIT = "cuda-toolkit[nvcc,nvvm,crt,cccl,profiler]==13.0.2"
ARCHS = "8.0;9.0+PTX"
PYTHONS = ((3, 10), (3, 14))
NEEDED_GB = 9


# What a person's shell may hold for builds of Apex; it would spoil the accident that is shown.
ENVIRON = {key: value for key, value in os.environ.items() if not key.startswith("APEX_")}


class TryError(Exception):
    """The chain cannot go on; the message says why and what to do. `code` is as the README has it:
    1 where a step failed, 2 for a bad request, 4 where this machine lacks something."""

    def __init__(self, message: str, code: int = 4) -> None:
        super().__init__(message)
        self.code = code


def say(text: str) -> None:
    print(text, flush=True)


def run(*command: str | Path, ok: tuple[int, ...] = (0,), **env: str) -> int:
    """Run one step with its output shown; TryError unless its exit code is in `ok`."""
    shown = " ".join(str(part) for part in command)
    say(f"\n$ {shown.replace(str(ROOT) + '/', '')}")
    code = subprocess.run([str(part) for part in command], env={**ENVIRON, **env}).returncode
    if code == 130:
        raise KeyboardInterrupt
    if code not in ok:
        raise TryError(f"The step `{shown}` ended with exit code {code}; its own words are above.",
                       code=1)
    return code


def check_source(source: Path) -> None:
    """`apexlab compile` looks closer, but only after gigabytes were installed."""
    if not (source / "setup.py").is_file() or not (source / "csrc").is_dir():
        raise TryError(f"{source} is not an Apex source tree: give APEX_SOURCE the folder that "
                       "holds setup.py, apex/ and csrc/.", code=2)


def check_host(folder: Path) -> None:
    """Say at once what is missing, before the gigabytes come."""
    low, high = PYTHONS
    if not low <= sys.version_info[:2] <= high:
        raise TryError(f"{TORCH} has no wheel for this Python {sys.version.split()[0]}; run with "
                       "one from 3.10 to 3.14: make try PYTHON3=python3.12")
    if not shutil.which("g++"):
        raise TryError("There is no g++ here. Install a C++ compiler (Debian, Ubuntu: "
                       "apt-get install g++).")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise TryError("Python's headers are missing (Python.h). Debian, Ubuntu: "
                       "apt-get install python3-dev.")
    free = shutil.disk_usage(folder.parent).free / 1e9
    if not (folder / "toolkit" / "ok").exists() and free < NEEDED_GB:
        raise TryError(f"{folder} needs about {NEEDED_GB} GB, and {free:.1f} GB are free there.")


def make_toolkit(folder: Path) -> Path:
    """A virtual environment with torch and the CUDA toolkit; the folder of its packages."""
    home = folder / "toolkit"
    stamp = home / "ok"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = home / "lib" / version / "site-packages"
    wanted = f"{TORCH} {TOOLKIT}"
    if stamp.exists() and stamp.read_text() == wanted:
        return packages
    say(f"Installing {TORCH} (CUDA 13.0) and NVIDIA's compiler from PyPI: 5 GB, a minute or two")
    shutil.rmtree(home, ignore_errors=True)
    run(sys.executable, "-m", "venv", home)
    run(home / "bin/pip", "install", "--disable-pip-version-check", TORCH, TOOLKIT, "numpy")
    # The wheel has libcudart.so.13 alone, and a linker looks for libcudart.so.
    library = packages / "nvidia/cu13/lib"
    (library / "libcudart.so").symlink_to("libcudart.so.13")
    stamp.write_text(wanted)
    return packages


def make_light(home: Path, toolkit: Path) -> Path:
    """A small environment on top of the toolkit's, with apexlab in it; its bin folder."""
    stamp = home / "ok"
    # A pull can bring another dependency or command, which an environment of before would lack.
    wanted = "".join((ROOT / part / "pyproject.toml").read_text() for part in ("verify", "build"))
    if not (stamp.exists() and stamp.read_text() == wanted):
        shutil.rmtree(home, ignore_errors=True)
        run(sys.executable, "-m", "venv", home)
        own = home / toolkit.relative_to(toolkit.parents[2])
        (own / "toolkit.pth").write_text(f"{toolkit}\n")
        run(home / "bin/pip", "install", "--disable-pip-version-check", "--quiet",
            "--editable", ROOT / "verify", "--editable", ROOT / "build")
        stamp.write_text(wanted)
    return home / "bin"


def tree_hash(source: Path) -> str:
    """What the compiled wheel depends on, so that a changed source is compiled again."""
    digest = hashlib.sha256(f"{TORCH} {TOOLKIT} {ARCHS}".encode())
    for path in sorted(source.rglob("*")):
        if path.is_file() and ".git" not in path.relative_to(source).parts:
            digest.update(str(path.relative_to(source)).encode() + path.read_bytes())
    return digest.hexdigest()


def compile_wheel(folder: Path, bin_: Path, toolkit: Path, source: Path) -> Path:
    out, stamp = folder / "wheel", folder / "wheel" / "ok"
    if not (stamp.exists() and stamp.read_text() == tree_hash(source)):
        shutil.rmtree(out, ignore_errors=True)
        run(bin_ / "apexlab", "compile", source, "--out", out, "--archs", ARCHS,
            CUDA_HOME=str(toolkit / "nvidia/cu13"))
        stamp.write_text(tree_hash(source))
    return next(out.glob("*.whl"))


def show_sabotage(folder: Path, toolkit: Path, source: Path) -> None:
    """The most frequent accident with Apex: a plain `pip install`, which builds no kernel."""
    say("\nNow the accident that apexlab exists for. pip installs the same source, but nobody\n"
        "asked for the extensions. pip says that all went well:")
    bin_ = make_light(folder / "sabotaged", toolkit)
    copy = folder / "sabotaged-source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git"))
    run(bin_ / "pip", "install", "--disable-pip-version-check", "--no-build-isolation",
        "--no-deps", "--force-reinstall", copy, CUDA_HOME=str(toolkit / "nvidia/cu13"))
    shutil.rmtree(copy)
    say("\nExit code 0. And this is what verify says of it:")
    run(bin_ / "apexlab", "verify", "--level", "load", ok=(1,))


def chain(folder: Path, source: Path) -> None:
    check_source(source)
    check_host(folder)
    folder.mkdir(exist_ok=True)
    toolkit = make_toolkit(folder)
    bin_ = make_light(folder / "venv", toolkit)
    wheel = compile_wheel(folder, bin_, toolkit, source)
    run(bin_ / "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps",
        "--force-reinstall", wheel)
    code = run(bin_ / "apexlab", "verify", ok=(0, 4))
    if code == 4:
        say("(Exit code 4: this machine cannot show everything. Nothing was found wrong.)")
    show_sabotage(folder, toolkit, source)


def size_of(folder: Path) -> float:
    """GB on disk; a file with several names counts once, as `du` has it."""
    seen = {(s.st_dev, s.st_ino): s.st_blocks * 512
            for p in folder.rglob("*") if not p.is_symlink() for s in [p.lstat()]}
    return sum(seen.values()) / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / ".try")
    parser.add_argument("--source", type=Path, default=ROOT / "tests" / "standin")
    args = parser.parse_args()
    start = time.monotonic()
    try:
        chain(args.folder.resolve(), args.source.resolve())
    except TryError as error:
        print(f"make try: {error} What is done stays in {args.folder}; "
              "`make try` goes on from there.", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("\nmake try: interrupted; `make try` goes on from here.", file=sys.stderr)
        return 130
    shown = os.path.relpath(args.folder)
    say(f"\nThat was the chain, in {time.monotonic() - start:.0f} s: a wheel that was compiled and "
        "checked,\nan installation that was judged, and a silent fallback that was caught.\n"
        f"It left {size_of(args.folder):.1f} GB in {shown}; `rm -rf {shown}` removes all of it.\n"
        f"Try things: {shown}/venv/bin/apexlab verify --help")
    return 0


if __name__ == "__main__":
    sys.exit(main())
