"""How long it still takes, and how that is said."""

from __future__ import annotations

import io
import re
import sys

import pytest

from apexlab.bench.run import progress
from apexlab.bench.run.progress import Bar, Lines, Times, spoken, stage

TODO = [("look", "a"), ("time", "a"), ("time", "b")]


def test_time_left_is_planned_at_first_and_measured_later():
    times = Times(20.0)
    assert times.left(TODO) == 60.0
    times.add("time", "a", 5.0)
    assert times.left(TODO) == 20.0 + 5.0 + 5.0  # b is taken to be as a, until it ran
    times.add("time", "b", 9.0)
    assert times.left(TODO) == 20.0 + 5.0 + 9.0
    times.add("time", "a", 7.0)
    times.add("time", "a", 500.0)
    assert times.left([("time", "a")]) == 7.0  # one that was slow says nothing of the next
    assert times.left([]) == 0.0


@pytest.mark.parametrize(("seconds", "words"), [
    (0, "1 s"), (40.4, "40 s"), (200, "3 min"), (3600, "60 min"), (4800, "80 min"),
    (5460, "1 h 31 min"), (7500, "2 h 05 min")])
def test_a_time_is_said_as_people_do(seconds, words):
    assert spoken(seconds) == words


def test_a_childs_line_becomes_words():
    assert stage({"at": "warm-up", "step": 3}) == "warming up"
    assert stage({"at": "something new"}) == "something new"


def test_plain_lines_go_to_stderr_one_for_each_process(capsys):
    lines = Lines(20.0)
    lines.begin("look at a", TODO)
    lines.heard({"at": "block", "step": 1})
    lines.done("look", "a", 3.0)
    lines.begin("round 1 of 3, a", TODO[1:])
    lines.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "look at a  (60 s left)\nround 1 of 3, a  (40 s left)\n"


def test_the_bar_is_for_terminals_alone(monkeypatch):
    assert isinstance(progress.progress(1.0), Lines)
    monkeypatch.setenv("FORCE_COLOR", "1")  # a log in colours is no terminal
    assert isinstance(progress.progress(1.0), Lines)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_shows_what_runs_and_how_far_it_is(monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    bar = progress.progress(20.0)
    assert isinstance(bar, Bar)
    bar.begin("round 1 of 3, torch-fp32", TODO)
    bar.heard({"at": "warm-up", "step": 1})
    bar.say("a sentence [that] stays")
    bar.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "round 1 of 3, torch-fp32: warming up" in shown and "60 s left" in shown
    assert "a sentence [that] stays" in shown
