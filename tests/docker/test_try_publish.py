"""`make try-publish`: it lacks something and says so, it is stopped, it is not satisfied. That all
of it passes is a step of .ci/run, since an image of gigabytes is pushed in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "build" / "scripts"
START = ("import sys, time; from pathlib import Path; import loopback_registry as own; "
         "print(own.start(Path(sys.argv[1])).process.pid, flush=True); time.sleep(60)")  # fmt: skip
STEP = """
import sys, walk
try:
    walk.Walk({}).run("sh", "-c", sys.argv[1], ok=int(sys.argv[2]))
except walk.StepError as error:
    print(error, file=sys.stderr)
    sys.exit(error.code)
"""


def python(code: str, *words: object, **more) -> subprocess.Popen[str]:
    """A Python that finds the scripts' modules."""
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], text=True,
                            env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def ends(pid: int) -> bool:
    """Whether the process ends in time; one that nobody has waited for counts as ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_all_that_is_missing_is_named_at_once(tmp_path):
    done = subprocess.run([sys.executable, SCRIPTS / "publish_it.py", "--folder", tmp_path / "a"],
                          env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (4, "")
    for name in ("Docker Engine", "docker-registry", "openssl", "cosign", ".ci/install"):
        assert name in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "a").iterdir())


@pytest.mark.parametrize(("ends_with", "expected", "code"), [
    (0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1), (3, 1, 1), (4, 0, 4)])  # fmt: skip
def test_a_step_counts_only_with_the_exit_code_that_it_must_have(ends_with, expected, code):
    child = python(STEP, f"exit {ends_with}", expected)
    said, errors = child.communicate(timeout=60)
    assert f"$ sh -c 'exit {ends_with}'" in said
    assert child.returncode == code
    assert (f"exit code {ends_with} and not with {expected}" in errors) == (code != 0)


@pytest.mark.docker
def test_the_registry_does_not_outlive_a_maker_that_is_killed(registry_tools, tmp_path):
    maker = python(START, tmp_path / "home")
    registry = int(maker.stdout.readline())
    assert Path(f"/proc/{registry}").exists()
    maker.kill()
    maker.communicate()
    assert ends(registry)


@pytest.mark.docker
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_it_ends_its_registry_and_leaves_no_gigabytes(engine, registry_tools, tmp_path,
                                                              how):
    home = tmp_path / "home"
    run = subprocess.Popen([sys.executable, SCRIPTS / "publish_it.py", "--folder", home],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           start_new_session=True)
    host = json.loads(line_with(run, "docker-registry serve", home))["http"]["addr"]
    registry = listener(host)
    run.send_signal(how)
    _, errors = run.communicate(timeout=90)
    assert run.returncode == 130, errors
    assert "interrupted" in errors and "Traceback" not in errors
    assert ends(registry)
    assert not (home / "registry" / "storage").exists()
    assert not engine.images.list(f"{host}/apexlab")


def line_with(run: subprocess.Popen[str], words: str, home: Path) -> str:
    """Read on to the line with these words; the registry's configuration."""
    for line in run.stdout:
        if words in line:
            return (home / "registry" / "registry.yml").read_text()
    raise AssertionError(run.stderr.read())


def listener(host: str) -> int:
    """The process of the registry that serves `host`."""
    for one in Path("/proc").glob("[0-9]*"):
        try:
            words = (one / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"docker-registry" and host in Path(words[2].decode()).read_text():
            return int(one.name)
    raise AssertionError(f"no registry serves {host}")
