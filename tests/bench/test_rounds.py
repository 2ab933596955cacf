"""The order of the rounds, and what counts as one."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apexlab.bench.planning.rounds import REPEATS, Attempt, Outcome, Run, order, review, state
from apexlab.verify.errors import UsageError

NAMES = [f"s{number}" for number in range(20)]
counts = st.integers(1, 20)
seeds = st.integers(0, 1000)


def cycle(count):
    """Rounds after which every place and every neighbour was had equally often."""
    runs = count + 1
    return runs if runs % 2 == 0 else 2 * runs


@settings(deadline=None)
@given(counts, seeds, st.integers(1, 30))
def test_a_round_holds_each_scenario_once_and_the_baseline_twice(count, seed, rounds):
    plan = order(NAMES[:count], "s0", rounds, seed)
    assert len(plan) == rounds
    for row in plan:
        assert Counter(row) == Counter([*map(Run, NAMES[:count]), Run("s0", control=True)])


@settings(deadline=None)
@given(counts, seeds)
def test_in_a_cycle_each_run_has_each_place_equally_often(count, seed):
    plan = order(NAMES[:count], "s0", cycle(count), seed)
    for place in zip(*plan, strict=True):
        assert set(Counter(place).values()) == {cycle(count) // (count + 1)}


@settings(deadline=None)
@given(counts, seeds)
def test_in_a_cycle_each_run_follows_each_other_equally_often(count, seed):
    plan = order(NAMES[:count], "s0", cycle(count), seed)
    pairs = Counter(pair for row in plan for pair in pairwise(row))
    assert len(pairs) == (count + 1) * count
    assert len(set(pairs.values())) == 1


@settings(deadline=None)
@given(counts, seeds, st.integers(0, 8))
def test_in_two_rounds_an_even_drift_cancels(count, seed, first):
    plan = order(NAMES[:count], "s0", 2 * first + 2, seed)[2 * first:]
    sums = Counter()
    for row in plan:
        sums.update({run: place for place, run in enumerate(row)})
    assert all(sums[run] == count for run in plan[0])


@settings(deadline=None)
@given(counts, seeds, st.integers(1, 12), st.integers(1, 12))
def test_more_rounds_begin_with_the_same_ones(count, seed, one, other):
    few, many = sorted((one, other))
    names = NAMES[:count]
    assert order(names, "s0", many, seed)[:few] == order(names, "s0", few, seed)


def test_the_seed_chooses_the_order():
    plans = [order(NAMES[:8], "s0", 5, seed) for seed in range(20)]
    assert order(NAMES[:8], "s0", 5, 3) == plans[3]
    assert len({str(plan) for plan in plans}) == 20
    assert len({plan[0][0] for plan in plans}) > 4


def test_the_order_of_a_seed_is_the_same_everywhere():
    plan = order(["a", "b", "c"], "a", 2, 0)
    shown = [" ".join(run.scenario + "'" * run.control for run in row) for row in plan]
    assert shown == ["a' c b a", "a b c a'"]


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_rounds_are_refused(rounds):
    with pytest.raises(UsageError, match=f"{rounds} rounds measure nothing"):
        order(["a"], "a", rounds, 0)


@pytest.mark.parametrize("names", [[], ["b"], ["a", "a"]])
def test_a_round_without_its_baseline_or_with_a_scenario_twice_is_refused(names):
    with pytest.raises(UsageError, match="each scenario once"):
        order(names, "a", 1, 0)


PLAN = order(["a", "b"], "a", 3, 0)


def attempt(number, *causes, count=3, ending="finished"):
    outcomes = [Outcome(run, ending) for run in PLAN[number][:count]]
    if causes:
        outcomes[-1] = Outcome(outcomes[-1].run, ending, causes=frozenset(causes))
    return Attempt(number, tuple(outcomes))


@pytest.mark.parametrize("begun, said", [
    (attempt(0), "clean"), (attempt(0, count=2), "cut"), (attempt(0, count=0), "cut"),
    (attempt(0, "power-cap"), "flagged"), (attempt(0, "contended"), "flagged"),
    (attempt(0, "thermal-slowdown"), "disturbed"), (attempt(0, "hardware-slowdown"), "disturbed"),
    (attempt(0, "power-cap", "thermal-slowdown"), "disturbed"),
    (attempt(0, "thermal-slowdown", count=2), "cut"),
    (attempt(0, ending="failed"), "clean"), (attempt(0, ending="unavailable"), "clean"),
])
def test_what_an_attempt_is(begun, said):
    assert state(PLAN[0], begun) == said


def finished(attempts):
    return [round.finished for round in review(PLAN, attempts)]


def test_nothing_is_finished_before_it_began():
    assert finished([]) == [False, False, False]


def test_finished_rounds_stay_and_a_cut_one_is_run_again_whole():
    before = [attempt(0), attempt(1, count=1)]
    assert finished(before) == [True, False, False]
    after = review(PLAN, [*before, attempt(1)])
    assert after[1].attempt == attempt(1)


def test_a_round_that_was_disturbed_is_repeated():
    again = [attempt(0, "thermal-slowdown"), attempt(0, "power-cap")]
    assert finished(again[:1])[0] is False
    result = review(PLAN, again)[0]
    assert result.attempt == again[1]


def test_a_round_that_stays_disturbed_counts_in_the_end():
    tries = [attempt(0, "thermal-slowdown") for _ in range(REPEATS + 1)]
    assert finished(tries[:-1])[0] is False
    assert review(PLAN, tries)[0].attempt == tries[-1]


def test_a_cut_attempt_is_no_repetition():
    tries = [attempt(0, "thermal-slowdown"), attempt(0, count=1), attempt(0, count=1)]
    assert finished(tries)[0] is False


def test_the_first_sound_attempt_counts():
    tries = [attempt(0, "power-cap"), attempt(0)]
    assert review(PLAN, tries)[0].attempt == tries[0]
