"""The statistics, on synthetic times whose truth is known."""

import math
import random
import statistics

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apexlab.bench.errors import SamplesError
from apexlab.bench.planning.rounds import order
from apexlab.bench.result import stats
from apexlab.bench.result.stats import Interval, compare, control, judge, summary

times = st.floats(1e-6, 1e6)
blocks = st.lists(times, min_size=1, max_size=6)
pairs = st.lists(st.tuples(blocks, blocks), min_size=1, max_size=6)


def noisy(rng, rounds, ratio, between, within, blocks=10):
    """Times of a baseline and a scenario that is `ratio` times as fast; `between` is the spread
    of a process, `within` that of its blocks, as shares."""
    def run(time):
        time *= math.exp(rng.gauss(0, between))
        return [time * math.exp(rng.gauss(0, within)) for _ in range(blocks)]
    return [run(0.3) for _ in range(rounds)], [run(0.3 / ratio) for _ in range(rounds)]


# -- one set of times


def test_a_summary_of_times_by_hand():
    found = summary([4.0, 1.0, 3.0, 2.0, 10.0])
    assert (found.count, found.median, found.iqr, found.mean) == (5, 3.0, 2.0, 4.0)
    assert found.deviation == pytest.approx(math.sqrt(50 / 4))
    assert (found.least, found.most) == (1.0, 10.0)


def test_a_single_time_has_no_deviation():
    assert summary([2.0]) == stats.Summary(1, 2.0, 0.0, 2.0, None, 2.0, 2.0)


def test_one_slow_first_sample_moves_the_mean_and_not_the_median():
    found = summary([0.351, 0.0439, 0.0430, 0.0428, 0.0427])
    assert (round(found.mean, 3), round(found.median, 3)) == (0.105, 0.043)


@settings(deadline=None)
@given(st.lists(times, min_size=1, max_size=20), st.randoms())
def test_a_summary_does_not_depend_on_the_order(values, rng):
    shuffled = rng.sample(values, len(values))
    assert summary(values) == summary(shuffled)
    assert min(values) <= summary(values).median <= max(values)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 0.0])
def test_what_is_no_time_is_refused_everywhere(wrong):
    for call in (lambda: summary([1.0, wrong]), lambda: compare([[1.0]], [[wrong]]),
                 lambda: compare([[1.0, wrong]], [[1.0]]), lambda: control([[wrong]], [[1.0]])):
        with pytest.raises(SamplesError, match="is no time"):
            call()


@pytest.mark.parametrize("one, other", [([], []), ([[1.0]], []), ([[1.0]], [[1.0], [2.0]])])
def test_rounds_that_make_no_pairs_are_refused(one, other):
    with pytest.raises(SamplesError, match="make no pairs"):
        compare(one, other)


def test_a_run_without_a_block_is_refused():
    with pytest.raises(SamplesError, match="without a single block"):
        compare([[1.0]], [[]])


# -- a comparison


def test_a_ratio_by_hand():
    found = compare([[2.0, 2.0, 9.0], [8.0]], [[1.0], [2.0, 2.0, 1.0]])
    assert found.rounds == (2.0, 4.0)
    assert found.ratio == pytest.approx(math.sqrt(8))


@settings(max_examples=25, deadline=None)
@given(pairs, st.randoms())
def test_a_comparison_depends_on_neither_the_order_of_rounds_nor_of_blocks(values, rng):
    base, new = zip(*values, strict=True)
    mixed = rng.sample(values, len(values))
    other = compare([rng.sample(b, len(b)) for b, _ in mixed],
                    [rng.sample(n, len(n)) for _, n in mixed])
    one = compare(base, new)
    assert (other.ratio, other.verdict) == (pytest.approx(one.ratio, rel=1e-12), one.verdict)
    if one.interval:
        assert other.interval.low == pytest.approx(one.interval.low, rel=1e-9)
        assert other.interval.high == pytest.approx(one.interval.high, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(pairs, st.sampled_from([2.0 ** power for power in (-10, -1, 3, 10)]))
def test_a_comparison_does_not_depend_on_the_unit(values, unit):
    base, new = zip(*values, strict=True)
    scaled = [[[time * unit for time in times] for times in side] for side in (base, new)]
    assert compare(base, new) == compare(*scaled)


def test_the_seed_fixes_the_interval():
    base, new = noisy(random.Random(0), 5, 1.05, 0.003, 0.003)
    assert compare(base, new, seed=4) == compare(base, new, seed=4)
    assert compare(base, new, seed=4).interval != compare(base, new, seed=5).interval


@settings(deadline=None)
@given(blocks, blocks)
def test_one_round_decides_nothing(base, new):
    found = compare([base], [new])
    assert (found.interval, found.verdict) == (None, "UNDECIDED")


def test_pairs_cancel_what_a_round_has_in_common():
    """Rounds that differ by a factor of 3 say as much as rounds that do not."""
    base, new = noisy(random.Random(1), 5, 1.05, 0.002, 0.002)
    speeds = (1.0, 3.0, 0.7, 2.0, 1.4)
    slowed = [[[time * speed for time in run] for run, speed in zip(side, speeds, strict=True)]
              for side in (base, new)]
    assert compare(*slowed).ratio == pytest.approx(compare(base, new).ratio)
    assert compare(*slowed).verdict == "FAST"


# -- the interval


@pytest.mark.parametrize("rounds", [2, 3, 5, 10])
@pytest.mark.parametrize("between, within", [(0.003, 0.001), (0.001, 0.003)])
def test_the_interval_holds_the_truth_as_often_as_it_says(monkeypatch, rounds, between, within):
    """150 samples; the plain percentile bootstrap of 3 rounds holds it in three quarters."""
    monkeypatch.setattr(stats, "RESAMPLES", 300)
    monkeypatch.setattr(stats, "_POOL", 50)
    rng = random.Random(rounds)
    held = 0
    for seed in range(150):
        span = compare(*noisy(rng, rounds, 1.03, between, within), seed=seed).interval
        held += span.low <= 1.03 <= span.high
    assert held >= 0.90 * 150


@pytest.mark.parametrize("rounds, student", [(5, 2.776), (10, 2.262)])
def test_without_noise_in_the_blocks_the_interval_is_as_wide_as_students(rounds, student):
    found = wanted = 0.0
    for seed in range(20):
        result = compare(*noisy(random.Random(seed), rounds, 1, 0.003, 0, blocks=1), seed=seed)
        found += math.log(result.interval.high / result.interval.low)
        wanted += 2 * student * statistics.stdev(map(math.log, result.rounds)) / math.sqrt(rounds)
    assert found == pytest.approx(wanted, rel=0.04)


def test_more_rounds_make_the_interval_narrower():
    def width(rounds):
        spans = [compare(*noisy(random.Random(seed), rounds, 1, 0.003, 0.002)).interval
                 for seed in range(10)]
        return sum(span.high - span.low for span in spans)
    assert width(2) > width(3) > width(5) > width(10)


# -- verdicts


@pytest.mark.parametrize("low, high, floor, said", [
    (1.021, 1.5, 0, "FAST"), (0.5, 0.979, 0, "SLOW"), (0.99, 1.01, 0, "SAME"),
    (1.01, 1.5, 0, "UNDECIDED"), (0.5, 0.99, 0, "UNDECIDED"), (0.5, 2.0, 0, "UNDECIDED"),
    (1.02, 1.5, 0, "UNDECIDED"), (0.985, 1.02, 0, "SAME"),
    (1.03, 1.06, 0.04, "UNDECIDED"), (1.041, 1.06, 0.04, "FAST"), (0.94, 0.96, 0.04, "SLOW"),
    (0.97, 1.03, 0.04, "UNDECIDED"), (0.99, 1.01, 0.04, "SAME"),
    (1.03, 1.06, math.inf, "UNDECIDED"),
])
def test_verdicts_at_a_margin_of_two_percent(low, high, floor, said):
    assert judge(Interval(low, high), 0.02, floor) == said


def test_no_interval_is_undecided():
    assert judge(None) == "UNDECIDED"


@settings(deadline=None)
@given(st.floats(0.5, 2), st.floats(0.5, 2), st.floats(0.001, 0.2), st.floats(0, 0.2))
def test_the_other_way_round_the_verdict_turns_over(one, other, margin, floor):
    low, high = sorted((one, other))
    edges = [1 + margin, 1 + max(margin, floor)]
    sides = (low, high, 1 / low, 1 / high)
    assume(all(abs(side - edge) > 1e-9 for edge in edges for side in sides))
    turned = {"FAST": "SLOW", "SLOW": "FAST"}
    there = judge(Interval(low, high), margin, floor)
    back = judge(Interval(1 / high, 1 / low), margin, floor)
    assert back == turned.get(there, there)


@settings(deadline=None)
@given(st.floats(0.5, 2), st.floats(0.5, 2), st.floats(0, 0.2), st.floats(0, 0.2))
def test_more_noise_never_turns_no_verdict_into_one(one, other, floor, more):
    span = Interval(*sorted((one, other)))
    if judge(span, floor=floor) == "UNDECIDED":
        assert judge(span, floor=floor + more) == "UNDECIDED"


def verdicts(ratio, count=40):
    rng = random.Random(7)
    return [compare(*noisy(rng, 5, ratio, 0.001, 0.002), seed=seed).verdict
            for seed in range(count)]


def test_a_slowdown_of_three_percent_is_found():
    assert verdicts(1 / 1.03).count("SLOW") >= 36


def test_a_slowdown_of_a_third_of_a_percent_is_not_called():
    assert set(verdicts(1 / 1.003)) == {"SAME"}


# -- A/A, and the order of rounds


@pytest.mark.parametrize("rounds, ratio, spread, noise", [
    (5, 1.0, 0.001, "quiet"), (5, 1.0, 0.03, "noisy"), (5, 1.05, 0.001, "biased"),
    (1, 1.0, 0.001, "unknown"),
])
def test_what_the_control_says(rounds, ratio, spread, noise):
    assert control(*noisy(random.Random(0), rounds, ratio, spread, spread)).noise == noise


def test_the_floor_is_how_far_the_control_reaches_from_one():
    found = control(*noisy(random.Random(0), 5, 1.05, 0.001, 0.001))
    assert found.floor == pytest.approx(found.comparison.interval.high - 1)
    slower = control(*noisy(random.Random(0), 5, 1 / 1.05, 0.001, 0.001))
    assert slower.floor == pytest.approx(1 / slower.comparison.interval.low - 1)
    assert control([[1.0]], [[1.0]]).floor == math.inf


def test_equal_times_are_quiet():
    found = control([[0.3] * 10] * 5, [[0.3] * 10] * 5)
    assert (found.noise, found.floor) == ("quiet", 0.0)


def drifting(sequence, ratio):
    """Block times by scenario, in the order they were run, on a machine that gets slower by 1 %
    with every run."""
    rng, rows = random.Random(3), {}
    for number, run in enumerate(sequence):
        time = (0.3 if run.scenario == "base" else 0.3 / ratio) * (1 + 0.01 * number)
        rows.setdefault(run, []).append([time * math.exp(rng.gauss(0, 0.001)) for _ in range(10)])
    return {run.scenario: found for run, found in rows.items() if not run.control}


def test_under_drift_rounds_are_right_where_one_after_the_other_is_wrong():
    plan = order(["base", "new", "x", "y"], "base", 10, seed=0)
    rounds = drifting([run for row in plan for run in row], ratio=1.0)
    in_rounds = compare(rounds["base"], rounds["new"])
    assert in_rounds.interval.low <= 1.0 <= in_rounds.interval.high

    sequence = sorted((run for row in plan for run in row), key=lambda run: run.scenario)
    one_by_one = drifting(sequence, ratio=1.0)
    assert compare(one_by_one["base"], one_by_one["new"]).verdict == "SLOW"


@pytest.mark.parametrize("base, new, found, told", [
    (1.0, 1.1, (1.05, 1.01, 1.09), True), (1.0, 0.9, (1.05, 1.01, 1.09), False),
    (1.0, 1.02, (1.05, 0.9, 1.2), False), (1.0, 1.02, (1.05, None, None), True)])
def test_medians_that_tell_the_opposite_of_the_paired_ratio_are_seen(base, new, found, told):
    assert stats.astray(base, new, dict(zip(("ratio", "low", "high"), found, strict=True))) == told
