"""The environment of the ring torch: `make test` has torch installed into it while it makes its own
environment, and the ring's fixture does the rest, or all of it.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
HOME = CACHE / "torch-cpu"
PYTHON = HOME / "bin" / "python"
PIP = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
CPU_TORCH = "torch==2.13.0"


class NoTorchError(Exception):
    pass


@contextmanager
def alone(name: str) -> Iterator[None]:
    """One process at a time: the workers of one run want the same environment at once."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def with_torch() -> None:
    """The environment with torch and nothing of ours; what is there and right is left as it is."""
    torch = HOME / "torch"
    if torch.exists() and torch.read_text() == CPU_TORCH:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    # PyPI's torch for Linux is the CUDA build, gigabytes of it; PyTorch's own index has a
    # small one. Where that cannot be reached, what pip finds by itself has to do.
    index = ["--index-url", "https://download.pytorch.org/whl/cpu", "--retries", "0"]
    done = subprocess.run([*PIP, *index, CPU_TORCH], capture_output=True).returncode == 0
    if not done and subprocess.run([*PIP, CPU_TORCH]).returncode:
        raise NoTorchError("torch could not be installed")
    subprocess.run([*PIP, "numpy", "setuptools"], check=True)
    torch.write_text(CPU_TORCH)


def whole() -> Path:
    """The Python of the whole environment: with torch, verify and bench."""
    ours = [ROOT / "verify", ROOT / "bench"]
    wanted = CPU_TORCH + "\n" + "".join((one / "pyproject.toml").read_text() for one in ours)
    stamp = HOME / "ok"
    with alone("torch-cpu"):
        if not (stamp.exists() and stamp.read_text() == wanted):
            with_torch()
            editable = [word for one in ours for word in ("--editable", one)]
            subprocess.run([*PIP, *editable], check=True)
            stamp.write_text(wanted)
    return PYTHON


if __name__ == "__main__":
    with alone("torch-cpu"):
        try:
            with_torch()
        except (NoTorchError, subprocess.SubprocessError) as error:
            print(f"The ring torch will try again: {error}.", file=sys.stderr)
