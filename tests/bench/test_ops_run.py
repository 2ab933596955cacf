"""The processes of `bench ops`, played by a made-up one: what crashes costs itself alone."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from apexlab.bench.ops.op_process import RESTARTS, OpProcess
from apexlab.bench.ops.request import Request
from apexlab.bench.planning.preset_file import find_preset
from apexlab.verify import process

REQUEST = Request(("adam",), find_preset("cpu"), "cpu", True, 2, 0)
SETTINGS = len(REQUEST.settings("adam"))


@dataclass
class Played(OpProcess):
    def command(self):
        return (sys.executable, "-S", str(Path(__file__).with_name("fake_op.py")))


@pytest.fixture
def play(tmp_path, monkeypatch):
    def run(**orders):
        monkeypatch.setenv("FAKE_OP", json.dumps({"settings": SETTINGS, **orders}))
        points = []
        task = Played(REQUEST, "adam", tmp_path, None, "", points.append, lambda _: None)
        process.attend([task])
        return task, points
    return run


def test_points_come_as_their_settings_finish(play):
    task, points = play()
    assert [point["setting"] for point in points] == [n for n in range(SETTINGS) for _ in range(2)]
    assert {point["state"] for point in points} == {"measured"}
    assert (task.failed, task.restarts) == ("", 0)
    assert task.begun["environment"] == {"torch": "made up"}


def test_a_provider_that_crashes_is_left_out_and_the_others_go_on(play):
    task, points = play(first="torch-fused")
    assert task.restarts == 1
    assert len(points) == 2 * SETTINGS
    for point in points:
        if point["provider"] == "torch-fused":
            assert point["state"] == "failed"
            assert point["why"].startswith("its process ended (SIGSEGV")
            assert "Segmentation fault, made up" in point["why"]
        else:
            assert point["state"] == "measured"


def test_a_crash_while_timing_costs_the_setting_alone(play):
    task, points = play(timing=1)
    lost = [point for point in points if point["state"] == "failed"]
    case = REQUEST.settings("adam")[1][0]
    assert {(point["case"], point["dtype"]) for point in lost} == {(case.name, case.dtype)}
    assert {point["setting"] for point in points if point["state"] == "measured"} == (
        set(range(SETTINGS)) - {1})
    assert task.done == SETTINGS


def test_a_process_that_crashes_again_and_again_is_given_up(play, monkeypatch):
    monkeypatch.setattr("apexlab.bench.ops.op_process.RESTARTS", 0)
    task, points = play(timing=0)
    assert RESTARTS > 0
    assert task.restarts == 1
    assert task.done == SETTINGS
    assert {point["state"] for point in points} == {"failed"}


def test_a_process_that_never_begins_says_why(play):
    task, points = play(dumb=True)
    assert not task.begun
    assert not points
    assert "ImportError: no torch here" in task.failed


def test_the_document_of_a_request_counts_its_points_and_forgets_how_well_it_is_known():
    document = REQUEST.document()
    other = Request(("adam",), find_preset("cpu"), "cpu", True, 5, 7).document()
    assert document["configuration"] == other["configuration"]
    assert document["points"] == 7 * SETTINGS
