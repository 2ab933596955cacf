"""One process for each GPU, started by torchrun; without it, one process alone.

Whatever one rank decides, all have to: the end of the warm-up, the length of a block, a block
that does not count. So decisions go through `highest`, which is never called inside a block.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from apexlab.bench.errors import MeasureError
from apexlab.bench.model.settings import Settings
from apexlab.verify.errors import CannotError

# How long ranks wait for one of them. torch's own 10 minutes would look like a measurement.
TIMEOUT = timedelta(seconds=60)


class Ranks:
    """This process among those that train together; `device` is its own."""

    def __init__(self, device: torch.device, rank: int = 0, world: int = 1) -> None:
        self.device, self.rank, self.world = device, rank, world

    @property
    def wrap(self) -> Callable[[torch.nn.Module], torch.nn.Module] | None:
        """What a model is put into so that gradients are averaged; None for one process."""
        if self.world == 1:
            return None
        places = [self.device.index] if self.device.type == "cuda" else None
        # The buffers are tables of constants, which need not be sent around at every step.
        return lambda model: DistributedDataParallel(model, places, broadcast_buffers=False)

    def highest(self, value: float) -> float:
        """The highest of all ranks' values; every rank gets it, and none before all are here."""
        return max(row[0] for row in self.gathered([value]))

    def gathered(self, values: list[float]) -> list[list[float]]:
        """The values of all ranks, equally many from each."""
        if self.world == 1:
            return [values]
        own = torch.tensor(values, dtype=torch.float64, device=self.device)
        every = [torch.empty_like(own) for _ in range(self.world)]
        distributed.all_gather(every, own)
        return [row.tolist() for row in every]

    def close(self) -> None:
        if self.world > 1:
            distributed.destroy_process_group()


def join(device: str, gpus: int, settings: Settings) -> Ranks:
    """The ranks of a task. CannotError for what several GPUs do not run."""
    if gpus == 1:
        return Ranks(torch.device(device, 0) if device == "cuda" else torch.device(device))
    if settings.graph:
        raise CannotError("A CUDA graph is measured on one GPU alone: a step that is captured "
                          "would hold what the GPUs send to each other.")
    rank, world, local = (number_of(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if world != gpus:
        raise MeasureError(f"{gpus} processes were to train together, and torchrun started "
                           f"{world}.")
    place = torch.device(device, local) if device == "cuda" else torch.device(device)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    distributed.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=TIMEOUT)
    return Ranks(place, rank, world)


def number_of(name: str) -> int:
    """A variable that torchrun sets."""
    if name not in os.environ:
        raise MeasureError(f"Several GPUs train in processes that torchrun starts, and {name}, "
                           "which it sets, is not there.")
    return int(os.environ[name])


def every_rank(ranks: Ranks, blocks: list[float]) -> list[dict[str, Any]] | None:
    """Each rank's seconds per iteration, block by block, for the result; None for one process."""
    if ranks.world == 1:
        return None
    return [{"rank": rank, "blocks": row} for rank, row in enumerate(ranks.gathered(blocks))]
