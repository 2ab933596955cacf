"""Statistics: what a set of times says, and when one scenario may be called faster than another.

Two scenarios are compared within a round, as the ratio baseline / scenario of their median block
times (above 1: the scenario is faster), and the ratios of all rounds by their geometric mean. Its
95 % interval comes from a hierarchical bootstrap (rounds, then blocks within them).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from apexlab.bench.draws import Draws
from apexlab.bench.errors import SamplesError

MARGIN = 0.02
QUIET = 0.01  # two runs of one scenario agree within this on an idle GPU
RESAMPLES = 2000
_POOL = 200  # resampled medians of one round, from which the resamples of all rounds draw
# Student's t for 97.5 %, with 1, 2, ... degrees of freedom; beyond the last, the last: wider.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
      2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)
_NORMAL = 1.960

Verdict = Literal["FAST", "SLOW", "SAME", "UNDECIDED"]
Noise = Literal["quiet", "noisy", "biased", "unknown"]
Blocks = Sequence[float]


@dataclass(frozen=True)
class Summary:
    """Of some times, in their unit. `deviation` is the sample's, None for a single time."""

    count: int
    median: float
    iqr: float
    mean: float
    deviation: float | None
    least: float
    most: float


@dataclass(frozen=True)
class Interval:
    """A 95 % interval of a ratio."""

    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """`ratio` above 1: faster than the baseline. `interval` is None when one round is all there
    is, and the verdict then UNDECIDED. `rounds`: each round's ratio, in their order."""

    ratio: float
    interval: Interval | None
    rounds: tuple[float, ...]
    margin: float
    floor: float
    verdict: Verdict


@dataclass(frozen=True)
class Control:
    """The baseline against itself. `floor`: how far from 1 its interval reaches, as a share."""

    comparison: Comparison
    noise: Noise
    floor: float


def summary(times: Blocks) -> Summary:
    """Raises SamplesError, as all functions here do, for no time or one that is no time."""
    _check(times)
    low, _, high = statistics.quantiles(times, n=4, method="inclusive") \
        if len(times) > 1 else (times[0],) * 3
    return Summary(len(times), statistics.median(times), high - low, math.fsum(times) / len(times),
                   statistics.stdev(times) if len(times) > 1 else None, min(times), max(times))


def compare(baseline: Sequence[Blocks], scenario: Sequence[Blocks], seed: int = 0,
            margin: float = MARGIN, floor: float = 0.0) -> Comparison:
    """Of two scenarios, with the block times of each round in both; the n-th of one is paired
    with the n-th of the other, so a round that one of them lacks is left out of both.

    Less is better, so memory can be compared as well. `floor`: the noise of the A/A control.
    """
    if len(baseline) != len(scenario) or not baseline:
        raise SamplesError(f"{len(baseline)} and {len(scenario)} rounds make no pairs. Compare "
                           "rounds that both scenarios finished.")
    for times in (*baseline, *scenario):
        _check(times)
    pairs = list(zip(baseline, scenario, strict=True))
    ratios = tuple(statistics.median(base) / statistics.median(new) for base, new in pairs)
    ratio = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    span = _interval(pairs, math.log(ratio), seed)
    return Comparison(ratio, span, ratios, margin, floor, judge(span, margin, floor))


def shared_rounds(base: Mapping[int, Blocks], new: Mapping[int, Blocks],
                  ) -> tuple[list[Blocks], list[Blocks]]:
    """Of block times by round, those of the rounds that both have, in the same order."""
    numbers = sorted(set(base) & set(new))
    return [base[number] for number in numbers], [new[number] for number in numbers]


def judge(interval: Interval | None, margin: float = MARGIN, floor: float = 0.0) -> Verdict:
    """FAST or SLOW when the whole interval is beyond the margin and beyond the noise floor, SAME
    when it is within the margin, which noise makes no wider; else UNDECIDED."""
    if interval is None:
        return "UNDECIDED"
    clear, near = 1 + max(margin, floor), 1 + margin
    if interval.low > clear:
        return "FAST"
    if interval.high < 1 / clear:
        return "SLOW"
    return "SAME" if 1 / near <= interval.low and interval.high <= near else "UNDECIDED"


def astray(base: float, new: float, found: Mapping[str, Any]) -> bool:
    """Whether two medians over all rounds tell the opposite of the paired ratio that was `found`,
    and by more than its interval explains."""
    apart, low, high = base / new, found["low"], found["high"]
    return (apart - 1) * (found["ratio"] - 1) < 0 and (
        low is None or high is None or not low <= apart <= high)


def control(baseline: Sequence[Blocks], again: Sequence[Blocks], seed: int = 0) -> Control:
    """The A/A check: `biased` when the interval leaves 1 out, `noisy` when it reaches beyond 1 %,
    `unknown` when there is none."""
    found = compare(baseline, again, seed)
    span = found.interval
    if span is None:
        return Control(found, "unknown", math.inf)
    floor = max(span.high, 1 / span.low) - 1
    holds = span.low <= 1 <= span.high
    return Control(found, "biased" if not holds else "quiet" if floor <= QUIET else "noisy", floor)


def _interval(pairs: list[tuple[Blocks, Blocks]], centre: float, seed: int) -> Interval | None:
    """Around `centre`, the logarithm of the ratio. The bootstrap of few rounds is too narrow: it
    lacks the factor of the sample variance, n / (n - 1), and the width of Student's t. Both are
    put back (Hesterberg 2015, "What Teachers Should Know About the Bootstrap")."""
    count = len(pairs)
    if count < 2:
        return None
    draws = Draws(seed, "apexlab.bootstrap/1")
    # Sorted, so that the interval depends on the times and not on the order they came in.
    pools = [_pool(base, new, draws)
             for base, new in sorted((sorted(base), sorted(new)) for base, new in pairs)]
    rounds, places = draws.many(count, count * RESAMPLES), draws.many(_POOL, count * RESAMPLES)
    drawn = [pools[each][place] for each, place in zip(rounds, places, strict=True)]
    means = sorted(math.fsum(drawn[start:start + count]) / count
                   for start in range(0, count * RESAMPLES, count))
    wider = math.sqrt(count / (count - 1)) * student(count - 1)
    low, high = (centre + wider * (means[round(share * (RESAMPLES - 1))] - centre)
                 for share in (0.025, 0.975))
    return Interval(math.exp(low), math.exp(high))


def student(freedom: int) -> float:
    """How much wider than the normal 95 % interval Student's is; `freedom`: its degrees."""
    return _T[min(freedom, len(_T)) - 1] / _NORMAL


def _pool(base: Blocks, new: Blocks, draws: Draws) -> list[float]:
    """Logarithms of one round's ratio, from its blocks drawn again."""
    return [math.log(one / other) for one, other in
            zip(resampled_medians(base, draws, _POOL), resampled_medians(new, draws, _POOL),
                strict=True)]


def resampled_medians(times: Blocks, draws: Draws, count: int) -> list[float]:
    """`count` medians of as many times as there are, drawn again with replacement."""
    size = len(times)
    drawn = [times[place] for place in draws.many(size, size * count)]
    return [statistics.median(drawn[start:start + size]) for start in range(0, size * count, size)]


def _check(times: Blocks) -> None:
    if wrong := [time for time in times if not (math.isfinite(time) and time > 0)]:
        raise SamplesError(f"{wrong[0]!r} is no time: times are finite and above zero. The "
                           "run that gave it is broken; leave its round out.")
    if not times:
        raise SamplesError("A run without a single block has no time. Leave its round out.")
