"""The hash of a run's settings: equal when, and only when, the figures may be compared."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apexlab.bench.planning.configuration import configuration, configuration_hash
from apexlab.bench.planning.preset_file import presets
from apexlab.bench.planning.scenario import of_ladder

TINY, CLASSIC = presets()["tiny"], of_ladder("classic")
BASE = {"preset": TINY, "scenarios": CLASSIC, "data": "d" * 64, "seed": 0, "device": "cuda",
        "gpus": 1}


def hashed(**changed):
    return configuration_hash(configuration(**{**BASE, **changed}))


def test_the_hash_is_the_same_everywhere():
    assert configuration_hash({"b": [1, 0.1, None], "a": "é"}) == (
        "abab9c6f3fb5d7fa7bcb396505bbaff04b45dde37a9e21fd6f4a6217fc3ca6a2")


@pytest.mark.parametrize("changed", [
    {"preset": replace(TINY, batch=16)},
    {"preset": replace(TINY, shape=replace(TINY.shape, layers=5))},
    {"scenarios": CLASSIC[:3]}, {"data": "e" * 64}, {"seed": 1}, {"device": "cpu"}, {"gpus": 2},
    {"scenarios": (replace(CLASSIC[0], settings=replace(CLASSIC[0].settings, clip=1.0)),
                   *CLASSIC[1:])},
])
def test_what_changes_a_figure_changes_the_hash(changed):
    assert hashed(**changed) != hashed()


@pytest.mark.parametrize("changed", [
    {"preset": replace(TINY, name="mine")}, {"preset": replace(TINY, seconds=99)},
    {"scenarios": CLASSIC[::-1]},
])
def test_what_changes_no_figure_leaves_the_hash(changed):
    assert hashed(**changed) == hashed()


@settings(deadline=None)
@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_keys_does_not_count(keys):
    assert configuration_hash(dict.fromkeys(keys, 1)) == configuration_hash(
        dict.fromkeys("abcd", 1))


def test_what_json_cannot_hold_is_no_setting():
    with pytest.raises(ValueError, match="JSON"):
        configuration_hash({"lr": float("nan")})
