"""Rounds: in which order scenarios run, and what became of each round.

A round is every scenario once, and the baseline twice. The order is a seeded Williams design: a
cyclic Latin square in which each run follows each other one equally often, with every second round
the mirror of the one before. So in two rounds, a drift that is even in time cancels out of
every ratio; in a whole cycle, each run has had each place and each neighbour equally often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from apexlab.bench.draws import Draws
from apexlab.verify.errors import UsageError

ROUNDS = 5
QUICK_ROUNDS = 3
REPEATS = 2  # how often a disturbed round is run again before it is taken with a flag

Ending = Literal["finished", "failed", "unavailable"]
Cause = Literal["thermal-slowdown", "hardware-slowdown", "power-cap", "contended"]
State = Literal["cut", "disturbed", "flagged", "clean"]
# The power cap is how a GPU at full load works, and another process was let in by the user.
REPEATED: frozenset[Cause] = frozenset({"thermal-slowdown", "hardware-slowdown"})


@dataclass(frozen=True)
class Run:
    """One process: a scenario in a round. `control`: the baseline's second run (A/A)."""

    scenario: str
    control: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `failed` and `unavailable` say why, and neither spoils the round for the
    others. `causes`: what disturbed it."""

    run: Run
    ending: Ending
    why: str = ""
    causes: frozenset[Cause] = frozenset()


@dataclass(frozen=True)
class Attempt:
    """A round that was begun: its outcomes so far, in their order. `round` counts from 0."""

    round: int
    outcomes: tuple[Outcome, ...]


def order(scenarios: Sequence[str], baseline: str, rounds: int, seed: int) -> list[list[Run]]:
    """The runs of each round. More rounds begin with the same ones. Raises UsageError."""
    if rounds < 1:
        raise UsageError(f"{rounds} rounds measure nothing. Ask for one or more; intervals need "
                         "two, and the default is 5.")
    if baseline not in scenarios or len(set(scenarios)) != len(scenarios):
        raise UsageError(f"A round holds each scenario once, and among them its baseline "
                         f"{baseline}; asked for was {', '.join(scenarios) or 'none'}.")
    runs = [Run(name) for name in scenarios] + [Run(baseline, control=True)]
    draws = Draws(seed, "apexlab.rounds/1")
    runs, starts = draws.shuffled(runs), draws.shuffled(_starts(len(runs)))
    return [_row(runs, starts[number // 2 % len(starts)], mirrored=bool(number % 2))
            for number in range(rounds)]


def _starts(count: int) -> range:
    """Of an even count, the second half of the square is the mirror of the first."""
    return range(count if count % 2 else count // 2)


def _row(runs: list[Run], start: int, mirrored: bool) -> list[Run]:
    count = len(runs)
    zigzag = [place // 2 + 1 if place % 2 else (count - place // 2) % count
              for place in range(count)]  # 0, 1, n-1, 2, n-2: every distance once
    row = [runs[(start + step) % count] for step in zigzag]
    return row[::-1] if mirrored else row


def state(planned: Sequence[Run], attempt: Attempt) -> State:
    """`cut`: a run is missing, since the command was interrupted. `disturbed`: the GPU slowed
    itself down. `flagged`: something is to be said, and the round counts. Else `clean`."""
    if {outcome.run for outcome in attempt.outcomes} != set(planned):
        return "cut"
    causes = frozenset[Cause]().union(*(outcome.causes for outcome in attempt.outcomes))
    return "disturbed" if causes & REPEATED else "flagged" if causes else "clean"


@dataclass(frozen=True)
class Round:
    """What a round came to. `attempt`: the one that counts, None while there is none."""

    number: int
    attempt: Attempt | None

    @property
    def finished(self) -> bool:
        return self.attempt is not None


def review(plan: Sequence[Sequence[Run]], attempts: Sequence[Attempt]) -> list[Round]:
    """What each planned round came to. The next to run, also after a pause, is the first that is
    not finished, and it is run whole: pairs of one that was cut would span the pause.

    A round that was disturbed counts only when it was repeated twice in vain.
    """
    return [_review(number, planned, [a for a in attempts if a.round == number])
            for number, planned in enumerate(plan)]


def _review(number: int, planned: Sequence[Run], attempts: list[Attempt]) -> Round:
    states = [state(planned, attempt) for attempt in attempts]
    sound = [a for a, s in zip(attempts, states, strict=True) if s in ("clean", "flagged")]
    disturbed = [a for a, s in zip(attempts, states, strict=True) if s == "disturbed"]
    return Round(number, sound[0] if sound else
                 disturbed[-1] if len(disturbed) > REPEATS else None)
