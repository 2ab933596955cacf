"""Runs of `apexlab bench train` with made-up children, for the tests of the runner."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apexlab.bench.planning.plan import Plan, Request, make_plan
from apexlab.bench.planning.preset_file import find_preset
from apexlab.bench.run import folder as folders
from apexlab.bench.run.apex import Subject
from apexlab.bench.run.station import station
from apexlab.bench.run.store import opened
from apexlab.bench.run.train import Runner

CHILD = Path(__file__).with_name("fake_child.py")
PAIR = ("torch-fp32", "torch-fused-fp32")


class Quiet:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.began: list[tuple[str, int]] = []
        self.lines: list[Mapping[str, Any]] = []
        self.said: list[str] = []

    def begin(self, what, left) -> None:
        self.began.append((what, len(left)))

    def heard(self, said) -> None:
        self.lines.append(said)

    def done(self, kind, scenario, seconds) -> None:
        pass

    def say(self, sentence) -> None:
        self.said.append(sentence)

    def close(self) -> None:
        pass


def cpu_plan(*scenarios: str, **more: Any) -> Plan:
    return make_plan(Request(scenarios=scenarios or PAIR, device="cpu", **more), find_preset("cpu"))


def run(plan: Plan, where: Path, orders: dict[str, Any], monkeypatch, resume: bool = False,
        silence: float = 60.0, progress: Quiet | None = None) -> list[dict[str, Any]]:
    """The rows after a run whose children do what `orders` say; `where` is its folder."""
    state = where.with_name(f"{where.name}-state")
    state.mkdir(exist_ok=True)
    monkeypatch.setenv("FAKE_CHILD", json.dumps({"state": str(state), **orders}))
    shown = progress or Quiet()
    with opened(where) as store, station(plan, shown, False, fake, silence) as place:
        plan = folders.settle(plan, store, resume, None)
        Runner(plan, store, place, Subject(present=False, why="Apex is not installed here.")).run()
        return store.rows


def fake(gpus: int) -> list[str]:
    return [sys.executable, "-S", str(CHILD)]
