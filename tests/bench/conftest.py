"""What the tests of bench share."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

# The helpers beside the tests (made-up results, made-up children) are imported by name.
sys.path.insert(0, str(Path(__file__).parent))

QUICK_CPU = ("bench", "train", "--device", "cpu", "--quick", "--ladder", "classic")


@dataclass(frozen=True)
class CpuRun:
    """A finished run on the CPU: its folder, the processor time of all its processes, and how its
    command ended."""

    folder: Path
    seconds: float
    done: subprocess.CompletedProcess


def processor_time() -> float:
    """Seconds of all processes that ended below this one: other work on the machine, which may be
    much, does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="session")
def cpu_run(torch_python, tmp_path_factory) -> CpuRun:
    """`apexlab bench train --device cpu --quick --ladder classic`, once for all tests."""
    folder = tmp_path_factory.mktemp("cpu") / "run"
    before = processor_time()
    done = subprocess.run(
        [torch_python.with_name("apexlab"), *QUICK_CPU, "--out", folder], capture_output=True,
        text=True, timeout=600, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return CpuRun(folder, processor_time() - before, done)
