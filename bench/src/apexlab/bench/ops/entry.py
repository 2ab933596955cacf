"""One provider in one setting, and what became of it (torch)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from apexlab.bench.ops.check import Error
from apexlab.bench.ops.operands import Call
from apexlab.bench.ops.providers import Provider
from apexlab.verify.errors import CannotError

# What torch and Triton say where they have nothing to compile with: a slim image is no fault.
NO_COMPILER = ("Failed to find C compiler", "No working C++ compiler",
               "Cannot find a working triton")


class WrongError(Exception):
    """A provider whose numbers, or whose way to them, are not what was asked for."""


@dataclass
class Entry:
    """One provider in this setting, with what became of it. `us`: by direction and kind, the
    samples of each round. `control`: the second of its provider, for the noise."""

    provider: Provider
    control: bool = False
    state: str = "measured"
    why: str = ""
    calls: dict[str, Call] = field(default_factory=dict)
    error: Error | None = None
    compile_seconds: float | None = None
    launches: dict[str, Any] = field(default_factory=dict)
    once: dict[str, float] = field(default_factory=dict)
    us: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)
    moment: str = "float32"

    def samples(self, direction: str, kind: str) -> list[list[float]]:
        return self.us.setdefault(direction, {}).setdefault(kind, [])

    def give_up(self, error: BaseException) -> None:
        """Not there, or broken: said in one line. The others go on."""
        self.calls = {}
        if isinstance(error, CannotError):
            self.state, self.why = "not-available", str(error)
        elif isinstance(error, torch.cuda.OutOfMemoryError):
            self.state, self.why = "failed", "out of GPU memory"
        elif any(words in str(error) for words in NO_COMPILER):
            self.state, self.why = "not-available", "torch.compile finds no compiler here"
        else:
            first = (str(error).strip().splitlines() or [""])[0]
            self.state, self.why = "failed", f"{type(error).__name__}: {first[:300]}"
