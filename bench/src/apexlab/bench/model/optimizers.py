"""AdamW by each of its implementations, with the same hyperparameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from apexlab.bench.model.foreign import made
from apexlab.bench.model.settings import OPTIMIZERS, Settings


def make_optimizer(settings: Settings, parameters: Iterable[Any]) -> Any:
    """An optimizer over one group of parameters; CannotError where Apex's cannot be made.

    Everything is passed, for the defaults differ: torch decays by 0.01, Apex not at all.
    """
    module, choice = OPTIMIZERS[settings.optimizer]
    keywords = {**asdict(settings.adamw), **choice}
    if module == "torch.optim":
        return made(module, "AdamW", list(parameters), **keywords, capturable=settings.graph)
    return made(module, "FusedAdam", list(parameters), **keywords, adam_w_mode=True,
                bias_correction=True)
