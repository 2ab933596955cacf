"""Which runs count: from the rows of a run's folder to the rounds that may be compared. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apexlab.bench.planning import rounds
from apexlab.bench.planning.rounds import Attempt, Outcome, Run
from apexlab.bench.result import stats

Row = Mapping[str, Any]
RoundBlocks = Mapping[int, Sequence[float]]  # of one scenario: a round's number and its blocks


@dataclass(frozen=True)
class Counted:
    """`rounds`: what each planned round came to; `looks`: the last look at each scenario; `runs`:
    of each run its rows by round, of attempts that count; `spare`: rows of those that do not."""

    rounds: tuple[rounds.Round, ...]
    looks: Mapping[str, Row]
    runs: Mapping[Run, Mapping[int, Row]]
    spare: tuple[Row, ...]

    @property
    def finished(self) -> int:
        """How many rounds count."""
        return sum(found.finished for found in self.rounds)

    def sound(self, scenario: str, control: bool = False) -> dict[int, Row]:
        """The rows of runs that gave times, by round."""
        rows = self.runs.get(Run(scenario, control), {})
        return {number: row for number, row in rows.items() if ending(row) == "finished"}

    def blocks(self, scenario: str, control: bool = False) -> dict[int, list[float]]:
        """Seconds per iteration of each block, by round."""
        return {number: list(row["result"]["blocks"])
                for number, row in self.sound(scenario, control).items()}


def count(plan: Row, rows: Sequence[Row]) -> Counted:
    """The rows, sorted into what counts and what does not."""
    looks = {row["scenario"]: row for row in rows if row["row"] == "look"}
    runs = [row for row in rows if row["row"] == "run"]
    planned = _planned(plan, looks, runs)
    attempts = [(attempt, group) for attempt, group in _attempts(runs)]
    reviewed = rounds.review(planned, [attempt for attempt, _ in attempts])
    counting: dict[Run, dict[int, Row]] = {}
    spare: list[Row] = []
    for attempt, group in attempts:
        # By identity: two attempts of a round can have ended alike.
        if not any(found.attempt is attempt for found in reviewed):
            spare += group
            continue
        for row in group:
            counting.setdefault(Run(row["scenario"], row["control"]), {})[row["round"]] = row
    return Counted(tuple(reviewed), looks, counting, tuple(spare))


def ending(row: Row) -> str:
    """How a run ended; one without times that can be used has failed, whatever it says."""
    result = row["result"]
    if result["ending"] != "finished":
        return str(result["ending"])
    blocks = result.get("blocks") or []
    return "finished" if blocks and all(usable(block) for block in blocks) else "failed"


def usable(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0


def why(row: Row) -> str:
    """Why a run or a look gave nothing."""
    said = str(row["result"].get("why") or "")
    return said or "It gave no times that can be used."


def paired(base: RoundBlocks, new: RoundBlocks, seed: int, margin: float,
           floor: float) -> stats.Comparison | None:
    """Of the rounds that both finished; None when there is none."""
    one, other = stats.shared_rounds(base, new)
    return stats.compare(one, other, seed, margin, floor) if one else None


def _planned(plan: Row, looks: Mapping[str, Row], runs: Sequence[Row]) -> list[list[Run]]:
    """The runs of each round, without the scenarios that a look has ruled out: they are not run."""
    ran = {row["scenario"] for row in runs}
    out = {name for name, look in looks.items()
           if look["result"]["ending"] != "finished" and name not in ran}
    orders = rounds.order(plan["scenarios"], plan["baseline"], plan["rounds"], plan["seed"])
    return [[run for run in order if run.scenario not in out] for order in orders]


def _attempts(runs: Sequence[Row]) -> list[tuple[Attempt, list[Row]]]:
    """The attempts in the order in which they were begun, each with its rows."""
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in runs:
        groups.setdefault((row["round"], row["attempt"]), []).append(row)
    return [(Attempt(number, tuple(map(_outcome, group))), group)
            for (number, _), group in sorted(groups.items())]


def _outcome(row: Row) -> Outcome:
    end = row["result"]["ending"]
    return Outcome(Run(row["scenario"], row["control"]), end, str(row["result"].get("why") or ""),
                   frozenset(row["causes"]))
