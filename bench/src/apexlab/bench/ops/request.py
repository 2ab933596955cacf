"""What was asked for, as the parent, its processes and the result need it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from apexlab.bench.ops.cases import Case, cases, settings
from apexlab.bench.ops.providers import providers
from apexlab.bench.planning.preset import Preset

FORMAT = "apexlab.ops/1"  # changes when the same request would measure something else


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    ops: tuple[str, ...]
    preset: Preset
    device: str
    quick: bool
    rounds: int
    seed: int

    def settings(self, op: str) -> list[tuple[Case, ...]]:
        """What the process of an operation does one after another."""
        return settings(cases([op], self.preset, self.device, self.quick))

    def document(self) -> dict[str, Any]:
        """What a result needs to know of it. The times do not depend on rounds and seed."""
        every = cases(self.ops, self.preset, self.device, self.quick)
        return {
            "version": metadata.version("apexlab-bench"), "preset": self.preset.name,
            "rounds": self.rounds, "seed": self.seed,
            "points": sum(1 for case in every for _ in providers(case)),
            "configuration": {"format": FORMAT, "ops": list(self.ops), "device": self.device,
                              "shape": asdict(self.preset.shape), "quick": self.quick}}
