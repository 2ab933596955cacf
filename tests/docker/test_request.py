"""Bad requests to `apexlab image`: one paragraph, the right exit code, and no engine is asked."""

from __future__ import annotations

import json
import os

import pytest

CELL = ("--torch", "2.6", "--cuda", "12.4")


@pytest.mark.parametrize(("arguments", "words"), [
    ((), "Missing: --torch (with make TORCH=) and --cuda (CUDA=)"),
    (("--torch", "2.6"), "Missing: --cuda (CUDA=)"),
    (("--torch", "2.4", "--cuda", "12.9"), "12.4"),
    (("--torch", "9", "--cuda", "12.4"), "9"),
    (("--torch", "2.6", "--cuda", "twelve"), "twelve"),
    (("--torch", "", "--cuda", "12.4"), ""),
    ((*CELL, "--archs", "8.6;compute"), "compute"),
    (("--torch", "2.11", "--cuda", "13.0", "--archs", "7.0"), "7.0"),
    ((*CELL, "--profile", "everything"), "everything"),
    ((*CELL, "--base", "nowhere"), "nowhere"),
    ((*CELL, "--target", "devel"), "devel"),
    ((*CELL, "--apex-source", "/nonexistent"), "no folder here"),
    ((*CELL, "--apex-source", "docker"), "not an Apex source tree"),
    ((*CELL, "--apex-ref", "master"), "master"),
    ((*CELL, "--tag", "Not A Name"), "not a name for an image"),
    ((*CELL, "--tag", ""), "not a name for an image"),
    ((*CELL, "--push"), "--push needs --tag"),
    ((*CELL, "--memory", "lots"), "lots"),
    ((*CELL, "--jobs", "0"), "0"),
    ((*CELL, "--build-arg", "novalue"), "NAME=VALUE"),
    ((*CELL, "--build-arg", "PIP_INDEX=https://mirror/simple"), "no argument PIP_INDEX"),
    ((*CELL, "--build-arg", "PIP_INDEX_URL=https://me:token@x/simple"), "password"),
    ((*CELL, "--apex-source", "https://me:token@x/apex.git"), "password"),
    (("--all", *CELL), "--all"),
    (("--torch", "2.6", "--cuda", "12.6", "--base", "offline"), "12.6"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_a_request_that_cannot_be_met_is_refused_with_2(run_apexlab, arguments, words):
    done = run_apexlab("image", *arguments, env={**os.environ, "DOCKER_HOST": "unix:///nowhere"})
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_dry_run_prints_the_definition_and_asks_no_engine(run_apexlab):
    done = run_apexlab("image", *CELL, "--dry-run",
                       env={**os.environ, "DOCKER_HOST": "unix:///nowhere"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["target"]) == ["torch2_6-cuda12_4"]


def test_no_password_is_shown_when_it_is_refused(run_apexlab):
    done = run_apexlab("image", *CELL, "--build-arg", "PIP_INDEX_URL=https://me:token@x/simple")
    assert "token" not in done.stderr


def test_all_cells_have_names_of_their_own(run_apexlab):
    done = run_apexlab("image", "--all", "--dry-run")
    targets = json.loads(done.stdout)["target"]
    names = [tag for target in targets.values() for tag in target["tags"]]
    assert len(names) == len(set(names)) == len(targets) > 20


def test_all_with_the_offline_base_are_those_that_have_one(run_apexlab):
    done = run_apexlab("image", "--all", "--base", "offline", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert {"torch2_6-cuda12_4", "torch2_11-cuda13_0"} <= set(json.loads(done.stdout)["target"])


def test_a_folder_drops_what_others_reported_of_the_cell(run_apexlab):
    done = run_apexlab("image", *CELL, "--apex-source", "tests/standin", "--dry-run")
    labels = json.loads(done.stdout)["target"]["torch2_6-cuda12_4"]["labels"]
    assert labels["dev.apexlab.evidence"] == "none"
