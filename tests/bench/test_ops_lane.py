"""Kernel times from what the profiler shows."""

from __future__ import annotations

from apexlab.bench.ops.lane import Ran, split


def lane(*names):
    return [Ran(name, float(number), 1.0 + number) for number, name in enumerate(names)]


def test_each_call_is_what_runs_between_two_marks():
    assert split(lane("mark", "a", "b", "mark", "a"), "mark", ()) == [2 + 3, 5]


def test_the_flush_and_what_comes_before_the_first_mark_belong_to_no_call():
    seen = lane("a", "fill", "mark", "a", "fill", "max", "mark", "b")
    assert split(seen, "mark", {"fill", "max"}) == [4, 8]


def test_the_order_of_events_is_that_of_time():
    assert split(reversed(lane("mark", "a", "mark", "b")), "mark", ()) == [2, 4]


def test_a_call_that_shows_no_kernel_is_not_lost():
    assert split(lane("mark", "mark", "a"), "mark", ()) == [0, 3]
    assert split([], "mark", ()) == []
