"""What was asked for, as the parent, its processes and the result need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from apexlab.bench.model.shape import Shape
from apexlab.bench.ops.cases import Case, cases, settings
from apexlab.bench.ops.providers import providers
from apexlab.bench.planning.preset import Preset
from apexlab.bench.run.store import read_rows
from apexlab.verify.errors import UsageError

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


def request_of(row: Mapping[str, Any]) -> Request:
    """The request that a run was begun with, from its first row. Raises UsageError."""
    asked = row["configuration"]
    if asked["format"] != FORMAT:
        raise UsageError(f"The run is of the format {asked['format']}, and this version of apexlab "
                         f"goes on with {FORMAT}. Use the version that began it, or begin another.")
    # No operation depends on the batch, or on how long a training takes.
    preset = Preset(row["preset"], Shape(**asked["shape"]), 1, 0)
    return Request(tuple(asked["ops"]), preset, asked["device"], asked["quick"], row["rounds"],
                   row["seed"])


def differences(old: Request, new: Request) -> list[str]:
    """In what two requests differ."""
    found = [key for key in ("ops", "device", "quick", "rounds", "seed")
             if getattr(old, key) != getattr(new, key)]
    if (old.preset.name, old.preset.shape) != (new.preset.name, new.preset.shape):
        found.append("preset")
    return found


def is_ops(folder: Path) -> bool:
    """Whether a folder holds a run of `bench ops`."""
    return any(row.get("row") == "request" for row in read_rows(folder)[:1])
