"""What the end of a run says of the rings, and which of them run in several processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import os, pytest
from pathlib import Path

def test_unit():
    process = os.environ.get("PYTEST_XDIST_WORKER", "the only one")
    Path(__file__).with_name(f"{process}.seen").touch()

@pytest.mark.torch
def test_torch():
    test_unit()

@pytest.mark.docker
def test_docker(engine):
    pass
"""


@pytest.fixture
def run(tmp_path):
    """`run(*options, **environ)`: (how a small run with the rings' conftest ended, what it said,
    the processes that ran its tests)."""
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("conftest.py", "torch_cpu.py"):
        shutil.copy(ROOT / "tests" / name, tests)
    for name in ("test_one.py", "test_two.py"):
        (tests / name).write_text(PROBE)

    def run(*options: str, **environ: str):
        # As from a shell: not as a worker of the run that this test is in.
        own = {name: value for name, value in os.environ.items()
               if not name.startswith(("PYTEST_", "APEXLAB_"))}
        environ = {"DOCKER_HOST": f"unix://{tmp_path}/none", "PYTEST_XDIST_AUTO_NUM_WORKERS": "2",
                   "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environ}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "xdist", "--dist=loadfile", *options],
            cwd=tmp_path, env={**own, **environ}, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, {path.stem for path in tests.glob("*.seen")}

    return run


def rings(said: str) -> dict[str, str]:
    lines = said.partition(" rings =")[2].splitlines()
    return {line[:8].strip(): line[8:] for line in lines if line[:8].strip() in
            ("unit", "torch", "docker")}


def test_workers_tell_what_their_rings_did_and_what_was_not_asked_for(run):
    code, said, processes = run("--numprocesses=auto")
    assert code == 0, said
    assert processes == {"gw0", "gw1"}
    told = rings(said)
    assert told["unit"] == told["torch"] == "2 tests ran"
    assert told["docker"].startswith("left out: not asked for (needs a container engine")


def test_rings_that_share_a_machine_run_in_one_process(run):
    code, said, processes = run("--numprocesses=auto", APEXLAB_RINGS="unit,docker")
    assert code == 0, said
    assert processes == {"the only one"}
    assert rings(said)["docker"].startswith("left out: no engine answers")


def test_what_a_worker_left_out_is_said_and_fails_where_it_is_required(run):
    code, said, _ = run("--numprocesses=2", APEXLAB_RINGS="all", APEXLAB_REQUIRE="docker")
    assert code == 1 and "the ring docker is required here, and no engine answers" in said
    assert rings(said)["docker"].startswith("left out: no engine answers"), said
    assert rings(said)["unit"] == "2 tests ran"


def test_a_ring_that_is_not_there_is_refused(run):
    code, said, _ = run("--numprocesses=auto", APEXLAB_RINGS="unit,dokcer")
    assert code == 4 and not rings(said)
