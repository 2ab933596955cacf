"""make hands its variables on as they were typed, and takes none from the environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")


@pytest.fixture
def make(tmp_path):
    """`make(*words, **environ)`: (what apexlab was called with, what make said)."""
    program = tmp_path / "apexlab"
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)

    def run(*words: str, **environ: str) -> tuple[list[str], str]:
        # The environment of the targets counts as made, and its programs are those of the test.
        command = ["make", "--no-print-directory", f"BIN={tmp_path}", "--old-file=.venv/ok", *words]
        done = subprocess.run(command, cwd=ROOT, env={"PATH": os.environ["PATH"], **environ},
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    return run


def test_each_variable_becomes_the_option_of_its_name(make):
    said, _ = make("image", "TORCH=2.4", "CUDA=12.4", "APEX_REF=abc", "DRY_RUN=1")
    assert said == ["image", "--torch", "2.4", "--cuda", "12.4", "--apex-ref", "abc", "--dry-run"]


@pytest.mark.parametrize("value", ["", "a b", "it's", '"', "';touch x;'", "a$HOME", "$$", "`id`"])
def test_a_value_arrives_as_it_was_typed(make, value):
    assert make("image", f"TAG={value}")[0] == ["image", "--tag", value]


def test_variables_of_the_environment_are_named_and_not_used(make):
    said, warned = make("image", TARGET="x", TAG="y", PYTHON="/usr/bin/python3", DRY_RUN="1")
    assert said == ["image"]
    assert "not used: PYTHON TARGET TAG DRY_RUN" in warned


def test_the_target_wheel_makes_a_wheel_whatever_else_is_asked_for(make):
    assert make("wheel", "TARGET=bench")[0][-2:] == ["--target", "wheel"]


def test_other_targets_take_the_variables_that_they_know(make):
    assert make("matrix", "TORCH=2.4", "TAG=x")[0] == ["matrix", "--torch", "2.4"]
    assert make("base-images", "CUDA=12.4")[0] == ["base-images", "--cuda", "12.4"]
