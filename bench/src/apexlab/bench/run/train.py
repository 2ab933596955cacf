"""The comparison as it runs: a look at every scenario, then round after round, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from apexlab.bench.planning.plan import Plan
from apexlab.bench.planning.rounds import Run, order
from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.result.counted import count
from apexlab.bench.run import task
from apexlab.bench.run.apex import Subject, subject_of
from apexlab.bench.run.proof import apex_share, judge, owners
from apexlab.bench.run.station import Ran, Station, VanishedError
from apexlab.bench.run.store import Store
from apexlab.bench.run.telemetry import causes
from apexlab.verify import device
from apexlab.verify.errors import CannotError

BEARABLE = 2  # failed runs of a scenario; what fails again and again is not tried in every round
KERNELS = 50  # of a look, the longest, whose owners are kept
Todo = list[tuple[str, str]]  # kind and scenario of processes


@dataclass(frozen=True)
class Runner:
    """`traces`: the folder for a profile of each scenario, None for none."""

    plan: Plan
    store: Store
    station: Station
    subject: Subject
    traces: Path | None = None

    def run(self) -> None:
        """Run what is left. Raises CannotError, and UsageError where the run was begun with
        another Apex; the rows that were finished are on disk then."""
        subject = {"row": "subject", "apex": self.subject.document(),
                   "record": self.subject.record_document()}
        subject_of([*self.store.rows, subject])
        self._add(subject)
        for scenario in self.plan.scenarios:
            if not self._looked(scenario.name):
                self._look(scenario)
            if scenario.name == self.plan.baseline:
                require(self._looks()[scenario.name], scenario.name)
        while (number := self._next()) is not None:
            self._round(number)

    def _looks(self) -> dict[str, dict[str, Any]]:
        return {row["scenario"]: row["result"] for row in self.store.rows if row["row"] == "look"}

    def _looked(self, name: str) -> bool:
        """Whether that is done; the baseline's is done again until it is finished, for without it
        the run goes no further."""
        looks = self._looks()
        return name in looks and (name != self.plan.baseline
                                  or looks[name]["ending"] == "finished")

    def _look(self, scenario: Scenario) -> None:
        row: dict[str, Any] = {"row": "look", "scenario": scenario.name}
        if why := self._lacks(scenario):
            self._add({**row, "result": _ended("look", "unavailable", why), "proof": None})
            return
        trace = None
        if self.traces is not None:
            self.traces.mkdir(exist_ok=True)
            trace = self.traces.resolve() / f"{scenario.name}.json"
        given = task.look_task(self.plan, scenario, self.station.library, trace)
        ran = self._process(given, f"look at {scenario.name}", self._left_with_looks())
        self._add({**row, "result": ran.result, "proof": self._proof(scenario, ran.result),
                   **self._owned(ran.result)})

    def _lacks(self, scenario: Scenario) -> str:
        """Why a scenario cannot run here, where no process is needed to know it."""
        if self.plan.device == "cpu" and (lacking := scenario.gpu_only):
            return f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not " \
                   "available on a CPU."
        return self.subject.lacks(scenario.apex)

    def _included(self) -> list[str]:
        """The scenarios that a look found to run."""
        looks = self._looks()
        return [name for name in self.plan.names()
                if name in looks and looks[name]["ending"] == "finished"]

    def _order(self) -> list[list[Run]]:
        return order(self._included(), self.plan.baseline, self.plan.rounds, self.plan.seed)

    def _unfinished(self) -> list[int]:
        """The rounds that are still to be run."""
        plan = {"scenarios": self.plan.names(), "baseline": self.plan.baseline,
                "rounds": self.plan.rounds, "seed": self.plan.seed}
        return [each.number for each in count(plan, self.store.rows).rounds if not each.finished]

    def _next(self) -> int | None:
        return next(iter(self._unfinished()), None)

    def _round(self, number: int) -> None:
        attempt = len({row["attempt"] for row in self.store.rows
                       if row["row"] == "run" and row["round"] == number})
        again = f" (again, {attempt})" if attempt else ""
        scenarios = {scenario.name: scenario for scenario in self.plan.scenarios}
        runs = self._order()[number]
        later = [run for other in self._unfinished() if other != number
                 for run in self._order()[other]]
        for place, run in enumerate(runs):
            words = f"round {number + 1} of {self.plan.rounds}{again}, {run.scenario}"
            left = self._processes([*runs[place:], *later])
            measured = self._measured(scenarios[run.scenario], run, words, left)
            self._add({"row": "run", "round": number, "attempt": attempt,
                       "scenario": run.scenario, "control": run.control, **measured})

    def _processes(self, runs: Sequence[Run]) -> Todo:
        """Those of which these runs are made."""
        pairs = [(kind, run.scenario) for run in runs for kind in
                 (("time", "single") if self.plan.gpus > 1 and not run.control else ("time",))]
        return [(kind, name) for kind, name in pairs if not self._given_up(name)]

    def _measured(self, scenario: Scenario, run: Run, words: str, left: Todo) -> dict[str, Any]:
        """The row of a run, without its place."""
        if why := self._given_up(scenario.name):
            return {"result": _ended("time", "failed", why), "telemetry": None, "causes": [],
                    "single": None, "proof": None}
        plan, single = self.plan, None
        ran = self._process(task.time_task(plan, scenario, self.station.library, plan.gpus),
                            words, left)
        if plan.gpus > 1 and not run.control:
            given = task.time_task(plan, scenario, self.station.library)
            single = self._process(given, f"{words} on one GPU", left[1:]).result
        return {"result": ran.result, "telemetry": ran.telemetry, "telemetry_why": ran.why,
                "causes": sorted(causes(ran.telemetry)), "single": single,
                "seconds": round(ran.seconds, 3), "proof": self._proof(scenario, ran.result)}

    def _given_up(self, name: str) -> str:
        failed = [row["result"]["why"] for row in self.store.rows if row["row"] == "run"
                  and row["scenario"] == name and row["result"]["ending"] != "finished"]
        if len(failed) < BEARABLE or name == self.plan.baseline:
            return ""
        return f"not started, since {BEARABLE} runs before it failed. The last: " \
               f"{failed[BEARABLE - 1]}"

    def _process(self, given: Mapping[str, Any], words: str, left: Todo) -> Ran:
        try:
            return self.station.run(given, words, left)
        except VanishedError as error:
            raise CannotError(
                f"The GPU vanished while {given['scenario']} ran ({error.said.rstrip('.')}). What "
                f"was finished is kept in {self.store.folder}: when nvidia-smi shows the GPU "
                "again, go on with --resume.") from error

    def _proof(self, scenario: Scenario, result: Mapping[str, Any]) -> dict[str, Any] | None:
        return judge(scenario, result, self.subject) if result["ending"] == "finished" else None

    def _owned(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Whose kernels took the time of a look: told now, since only here are the binaries."""
        if not result.get("kernels"):
            return {"apex_share": None, "owners": []}
        registered = self.subject.registered
        return {"apex_share": apex_share(result, registered),
                "owners": owners(result, registered)[:KERNELS]}

    def _left_with_looks(self) -> Todo:
        todo = [scenario.name for scenario in self.plan.scenarios
                if not self._looked(scenario.name) and not self._lacks(scenario)]
        runs = [Run(name) for name in (*self._included(), *todo)]
        runs = [*runs, Run(self.plan.baseline, control=True)] * self.plan.rounds
        return [*(("look", name) for name in todo), *self._processes(runs)]

    def _add(self, row: dict[str, Any]) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.store.append({**row, "time": now, "driver": device.driver_version()})


def _ended(kind: str, ending: str, why: str) -> dict[str, Any]:
    return {"kind": kind, "ending": ending, "why": why, "environment": {}}


def require(look: Mapping[str, Any], name: str) -> None:
    """Raises CannotError where the baseline does not run: nothing could be read against it."""
    if look["ending"] == "finished":
        return
    hint = "The batch does not fit: choose a smaller batch in a preset of your own, --preset " \
           "FILE." if "out of memory" in look["why"].lower() else \
           "Every figure is read against it, so nothing was measured."
    raise CannotError(f"The baseline {name} does not run here: {look['why'].rstrip('.')}. {hint}")
