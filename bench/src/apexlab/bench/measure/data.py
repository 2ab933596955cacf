"""Where a step's tokens and targets come from, both (B, T) and on the device.

A source is called once for each step. `waited` is how long it was waited for, in seconds, None
where nothing is waited for; `about` goes into the result.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from apexlab.bench.measure.ranks import Ranks
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.stream import Stream
from apexlab.bench.model.text import sequences

BATCHES = 64
POOL = 2**21  # tokens: so many are made in half a second
Batch = tuple[Tensor, Tensor]


class Source(Protocol):
    about: dict[str, Any]

    @property
    def waited(self) -> float | None: ...

    def __call__(self) -> Batch: ...


def source(data: dict[str, Any], shape: Shape, batch: int, ranks: Ranks) -> Source:
    """The source that a task asks for; every rank has other sequences of the same step."""
    if data["kind"] == "text":
        return Text(data, shape.context, batch, ranks)
    return Pool(data["seed"], shape, batch, ranks)


class Pool:
    """Different batches of the seeded stream, on the device before anything is timed, in turn."""

    waited = None

    def __init__(self, seed: int, shape: Shape, batch: int, ranks: Ranks) -> None:
        together = ranks.world * batch * shape.context
        count = min(BATCHES, max(2, POOL // together))
        stream = Stream(shape.vocabulary, seed)
        drawn = stream.tokens(count * together + 1)
        self.about = {"kind": "stream", "digest": stream.digest(drawn), "batches": count}
        tokens = torch.frombuffer(drawn, dtype=torch.int32).long()
        inputs, targets = (
            part.view(count, ranks.world, batch, shape.context)[:, ranks.rank].contiguous()
            .to(ranks.device) for part in (tokens[:-1], tokens[1:]))
        self._next = itertools.cycle(zip(inputs.unbind(), targets.unbind(), strict=True)).__next__

    def __call__(self) -> Batch:
        return self._next()


class Text:
    """A file through a loader as people use one: a process that reads ahead, pinned memory, and a
    copy that the host does not wait for."""

    def __init__(self, data: dict[str, Any], context: int, batch: int, ranks: Ranks) -> None:
        windows = Windows(Path(data["path"]), context)
        self.about = {"kind": "text", "digest": data["sha256"], "sequences": len(windows)}
        self.waited = 0.0
        self._device = ranks.device
        loader = DataLoader(
            windows, batch, sampler=Shuffled(len(windows), ranks.rank, ranks.world),
            num_workers=1, prefetch_factor=4, collate_fn=batched,
            pin_memory=ranks.device.type == "cuda")
        self._batches = iter(loader)  # the other process starts here

    def __call__(self) -> Batch:
        start = time.perf_counter()
        tokens, targets = next(self._batches)
        self.waited += time.perf_counter() - start
        return (tokens.to(self._device, non_blocking=True),
                targets.to(self._device, non_blocking=True))


class Windows(Dataset[Tensor]):  # type: ignore[misc]
    """Item i: the `context` + 1 bytes from i * `context` on. The file is mapped by who reads."""

    def __init__(self, path: Path, context: int) -> None:
        self.path, self.context, self.size = path, context, path.stat().st_size
        self._bytes: Tensor | None = None

    def __len__(self) -> int:
        return sequences(self.size, self.context)

    def __getitem__(self, index: int) -> Tensor:
        if self._bytes is None:
            self._bytes = torch.from_file(str(self.path), size=self.size, dtype=torch.uint8)
        start = index * self.context
        return self._bytes[start:start + self.context + 1]


class Shuffled(Sampler[int]):  # type: ignore[misc]
    """Places without end: every epoch has each once, in an order of its own, the same in every
    process. A rank takes every `world`-th."""

    def __init__(self, count: int, rank: int, world: int) -> None:
        self.count, self.rank, self.world = count, rank, world

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(self._all(), self.rank, None, self.world)

    def _all(self) -> Iterator[int]:
        generator = torch.Generator("cpu").manual_seed(0)
        while True:
            yield from torch.randperm(self.count, generator=generator).tolist()


def batched(windows: list[Tensor]) -> Batch:
    both = torch.stack(windows).long()
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()
