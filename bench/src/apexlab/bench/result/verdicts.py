"""The parity verdict of each scenario of a run, from the looks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.result.counted import Counted, Row
from apexlab.bench.result.parity import verdict


def parity_verdicts(plan: Row, scenarios: Sequence[Scenario], counted: Counted,
                    ) -> Callable[[str], dict[str, Any]]:
    """Scenario to `{"verdict", "why", ...}`."""
    known = {scenario.name: scenario for scenario in scenarios}

    def look(name: str) -> Row | None:
        row = counted.looks.get(name)
        return None if row is None else row["result"]

    @cache
    def found(name: str) -> dict[str, Any]:
        return verdict(known[name], look(name), look(plan["baseline"]))
    return found
