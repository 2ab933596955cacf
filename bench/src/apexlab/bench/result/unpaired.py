"""Two runs that share no rounds: how much faster the new one is, and how well that is known. Pure.

The ratio is of the geometric means of each run's round medians. Its 95 % interval comes from a
bootstrap of rounds, and of blocks within them, in each run by itself. A drift between the two runs
is in the ratio, and no statistics takes it out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from apexlab.bench.draws import Draws
from apexlab.bench.result.stats import (
    RESAMPLES,
    Blocks,
    Comparison,
    Interval,
    judge,
    resampled_medians,
    student,
    summary,
)

_POOL = 200  # resampled medians of one round


def compare(baseline: Sequence[Blocks], new: Sequence[Blocks], seed: int = 0,
            margin: float = 0.02, floor: float = 0.0) -> Comparison:
    """Block times of each round of each run. `ratio` above 1: the new run is faster. Without two
    rounds on both sides there is no interval. Raises SamplesError for what is no time."""
    for times in (*baseline, *new):
        summary(times)
    sides = [_Side(rounds, Draws(seed, f"apexlab.unpaired/1/{name}"))
             for name, rounds in (("base", baseline), ("new", new))]
    centre = sides[0].mean - sides[1].mean
    span = _interval(sides, centre)
    return Comparison(math.exp(centre), span, (), margin, floor, judge(span, margin, floor))


class _Side:
    """One run: `mean` of the logarithms of its round medians, and means drawn again, around it."""

    def __init__(self, rounds: Sequence[Blocks], draws: Draws) -> None:
        self.logs = [math.log(statistics.median(blocks)) for blocks in rounds]
        self.mean = math.fsum(self.logs) / len(self.logs)
        self._rounds, self._draws = sorted(sorted(blocks) for blocks in rounds), draws

    @property
    def count(self) -> int:
        return len(self.logs)

    @property
    def variance(self) -> float:
        """Of the mean."""
        return statistics.variance(self.logs) / self.count

    def resampled(self) -> list[float]:
        """How far means are from `mean` when rounds and blocks are drawn again, with the factor of
        the sample variance, n / (n - 1), which a bootstrap of few rounds lacks."""
        draws, count = self._draws, self.count
        wider = math.sqrt(count / (count - 1))
        pools = [[math.log(median) for median in resampled_medians(blocks, draws, _POOL)]
                 for blocks in self._rounds]
        rounds, places = (draws.many(limit, count * RESAMPLES) for limit in (count, _POOL))
        drawn = [pools[each][place] for each, place in zip(rounds, places, strict=True)]
        return [wider * (math.fsum(drawn[start:start + count]) / count - self.mean)
                for start in range(0, count * RESAMPLES, count)]


def _interval(sides: Sequence[_Side], centre: float) -> Interval | None:
    if min(side.count for side in sides) < 2:
        return None
    base, new = (side.resampled() for side in sides)
    apart = sorted(one - other for one, other in zip(base, new, strict=True))
    wider = student(_freedom(sides))
    low, high = (centre + wider * apart[round(share * (RESAMPLES - 1))]
                 for share in (0.025, 0.975))
    return Interval(math.exp(low), math.exp(high))


def _freedom(sides: Sequence[_Side]) -> int:
    """Degrees of freedom of a difference of means with unequal variances (Welch), rounded down;
    of runs without any variance, those of the shorter one."""
    parts = [side.variance for side in sides]
    shortest = min(side.count for side in sides) - 1
    below = math.fsum(part**2 / (side.count - 1) for part, side in zip(parts, sides, strict=True))
    if not below:
        return shortest
    return max(shortest, math.floor(math.fsum(parts) ** 2 / below))
