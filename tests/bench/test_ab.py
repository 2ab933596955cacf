"""Two images in turn: the order, the container of a turn, and what is refused before one starts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apexlab.bench.cmd_ab import _handed_on
from apexlab.bench.run import ab
from apexlab.verify.errors import CannotError, UsageError


def test_the_image_that_is_first_changes_from_round_to_round():
    assert [(turn.round, turn.side) for turn in ab.turns(3)] == [
        (0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


@pytest.mark.parametrize("rounds", [0, 1])
def test_fewer_than_two_rounds_are_refused(rounds):
    with pytest.raises(UsageError, match="no interval"):
        list(ab.turns(rounds))


def test_a_turn_runs_the_image_by_its_digest_and_goes_on_in_its_own_folder(tmp_path):
    image = ab.Image("mine:latest", "sha256:1234")
    first, later = (ab.command(image, ab.Turn(number, "b"), tmp_path, "cuda", ["--quick"], "n")
                    for number in (0, 2))
    assert "mine:latest" not in first and "sha256:1234" in first
    assert "--resume" not in first and "--resume" in later
    assert later[later.index("--rounds") + 1] == "3"
    assert later[later.index("--out") + 1] == "/results/b"
    assert first[first.index("--gpus") + 1] == "all" and later[-1] == "--quick"
    assert "--gpus" not in ab.command(image, ab.Turn(0, "a"), tmp_path, "cpu", [], "n")


def test_options_go_to_the_containers_and_a_preset_file_goes_along(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text("[mine]\nkind = 'gpt'\nlayers = 1\nwidth = 32\nheads = 2\nffn = 64\n"
                   "vocabulary = 64\ncontext = 16\nbatch = 2\n")
    place = tmp_path / "out"
    place.mkdir()
    words = _handed_on({"preset": str(own), "quick": True, "ladder": None, "gpus": 1,
                        "allow_shared_gpu": False}, place)
    assert words == ["--preset", "/results/preset.toml", "--quick", "--gpus", "1"]
    assert (place / "preset.toml").read_text() == own.read_text()


def test_a_folder_in_use_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "kept").write_text("x")
    done = command("a:1", "b:1", "--out", str(tmp_path))
    assert done.returncode in (2, 4)  # 4 where there is no engine that could be asked
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_without_docker_one_sentence_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotError, match="no docker command"):
        ab.find_image("apexlab")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("apexlab")
    return subprocess.run([program, "bench", "ab", *arguments], capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker command")
def test_an_image_that_is_not_here_is_named():
    done = command("apexlab-test:never-built", "apexlab-test:never-built")
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "docker" in done.stderr


@pytest.mark.parametrize("arguments", [("a",), ("a", "b", "--rounds", "1"),
                                       ("a", "b", "--device", "tpu")])
def test_what_nothing_can_meet_is_a_usage_error(arguments):
    assert command(*arguments).returncode == 2
