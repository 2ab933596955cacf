"""A task as JSON, read back into the types it was made from. No torch."""

from __future__ import annotations

from typing import Any

from apexlab.bench.model.settings import Hyperparameters, Settings
from apexlab.bench.model.shape import Shape


def parts(task: dict[str, Any]) -> tuple[Shape, Settings]:
    """The shape and the settings of a task."""
    adamw = task["settings"]["adamw"]
    numbers = Hyperparameters(**{**adamw, "betas": tuple(adamw["betas"])})
    return Shape(**task["shape"]), Settings(**{**task["settings"], "adamw": numbers})
