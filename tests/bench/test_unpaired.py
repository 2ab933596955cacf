"""Two runs that share no rounds, on times whose truth is known."""

import math
import random
import statistics

import pytest

from apexlab.bench.errors import SamplesError
from apexlab.bench.result import stats, unpaired


def run(rng, rounds, time, between, within=0.001, blocks=10):
    return [[middle * math.exp(rng.gauss(0, within)) for _ in range(blocks)]
            for middle in (time * math.exp(rng.gauss(0, between)) for _ in range(rounds))]


def test_a_ratio_by_hand():
    found = unpaired.compare([[2.0, 2.0, 9.0], [8.0]], [[1.0], [1.0]])
    assert found.ratio == pytest.approx(4.0)


def test_runs_need_not_have_as_many_rounds():
    rng = random.Random(0)
    found = unpaired.compare(run(rng, 3, 1.0, 0.002), run(rng, 7, 0.9, 0.002))
    assert found.ratio == pytest.approx(1 / 0.9, rel=0.01)
    assert found.verdict == "FAST"


@pytest.mark.parametrize("rounds", [(1, 5), (5, 1), (1, 1)])
def test_one_round_decides_nothing(rounds):
    rng = random.Random(0)
    found = unpaired.compare(*(run(rng, count, 1.0, 0.001) for count in rounds))
    assert (found.interval, found.verdict) == (None, "UNDECIDED")


@pytest.mark.parametrize("rounds", [(2, 2), (3, 3), (5, 3), (5, 5)])
@pytest.mark.parametrize("between", [(0.003, 0.003), (0.001, 0.006)])
def test_the_interval_holds_the_truth_as_often_as_it_says(monkeypatch, rounds, between):
    monkeypatch.setattr(unpaired, "RESAMPLES", 300)
    monkeypatch.setattr(unpaired, "_POOL", 30)
    rng, held = random.Random(sum(rounds)), 0
    for seed in range(150):
        span = unpaired.compare(run(rng, rounds[0], 1.0, between[0]),
                                run(rng, rounds[1], 0.97, between[1]), seed).interval
        held += span.low <= 1 / 0.97 <= span.high
    assert held >= 0.90 * 150


@pytest.mark.parametrize("rounds", [(5, 5), (10, 4)])
def test_without_noise_in_the_blocks_the_interval_is_as_wide_as_welchs(rounds):
    found = wanted = 0.0
    for seed in range(20):
        rng = random.Random(seed)
        sides = [run(rng, count, 1.0, 0.003, within=0.0, blocks=1) for count in rounds]
        span = unpaired.compare(*sides, seed).interval
        found += math.log(span.high / span.low) / 2
        parts = [statistics.variance([math.log(blocks[0]) for blocks in side]) / len(side)
                 for side in sides]
        freedom = sum(parts) ** 2 / sum(
            part**2 / (count - 1) for part, count in zip(parts, rounds, strict=True))
        wanted += stats.student(int(freedom)) * 1.96 * math.sqrt(sum(parts))
    assert found == pytest.approx(wanted, rel=0.05)


def test_two_runs_of_the_same_are_not_called_different():
    """Of 100 pairs of runs that differ by chance alone, at the margin of 2 %."""
    rng = random.Random(1)
    verdicts = [unpaired.compare(run(rng, 5, 1.0, 0.003), run(rng, 5, 1.0, 0.003), seed).verdict
                for seed in range(20)]
    assert not {"FAST", "SLOW"} & set(verdicts)


def test_a_common_factor_of_a_rounds_is_noise_here_and_none_in_pairs():
    """What two interleaved runs share, two separate ones do not: the price of no pairs."""
    speeds, rng = (1.0, 1.2, 0.9, 1.1, 0.95), random.Random(2)
    base, new = ([[time * speed for time in blocks] for blocks, speed in
                  zip(run(rng, 5, middle, 0.001), speeds, strict=True)] for middle in (1.0, 0.95))
    assert stats.compare(base, new).verdict == "FAST"
    assert unpaired.compare(base, new).verdict == "UNDECIDED"


def test_the_order_of_rounds_and_blocks_changes_nothing():
    rng = random.Random(3)
    base, new = run(rng, 4, 1.0, 0.003), run(rng, 4, 0.95, 0.003)
    other = unpaired.compare([blocks[::-1] for blocks in base[::-1]], new[::-1])
    one = unpaired.compare(base, new)
    assert other.ratio == pytest.approx(one.ratio, rel=1e-12)
    assert other.interval.low == pytest.approx(one.interval.low, rel=1e-9)


def test_runs_without_any_noise_have_an_interval_all_the_same():
    found = unpaired.compare([[1.0]] * 3, [[0.5]] * 3)
    assert (found.interval.low, found.interval.high) == (pytest.approx(2), pytest.approx(2))


@pytest.mark.parametrize("wrong", [[[math.nan]], [[0.0]], [[]]])
def test_what_is_no_time_is_refused(wrong):
    with pytest.raises(SamplesError):
        unpaired.compare([[1.0]], wrong)
