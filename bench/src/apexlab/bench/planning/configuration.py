"""What a run was set to measure, and its hash: two results are comparable when it is equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from apexlab.bench.planning.preset import Preset
from apexlab.bench.planning.scenario import Scenario

FORMAT = "apexlab.configuration/1"  # changes when the same run would get another hash


def configuration(preset: Preset, scenarios: Iterable[Scenario], data: str, seed: int,
                  device: str, gpus: int) -> dict[str, Any]:
    """The settings of which every figure depends. `data`: the digest of the token stream; `seed`:
    of the initial weights; `device`: `cuda` or `cpu`.

    Left out is what changes how well a figure is known but not the figure: rounds, their order,
    the preset's name and its plan of time. The scenarios count in any order.
    """
    return {
        "format": FORMAT, "shape": asdict(preset.shape), "batch": preset.batch,
        "scenarios": {scenario.name: scenario.switches for scenario in scenarios},
        "data": data, "seed": seed, "device": device, "gpus": gpus,
    }


def configuration_hash(settings: dict[str, Any]) -> str:
    """SHA-256 of the settings as JSON with sorted keys and no blanks. Raises ValueError for what
    JSON cannot hold, such as NaN."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
