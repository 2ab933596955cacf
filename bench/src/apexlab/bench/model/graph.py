"""A training step as one CUDA graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from apexlab.bench.model.step import Step

# torch asks for a few steps on another stream before a capture; optimizer state is made there.
EAGER_STEPS = 3


class GraphStep:
    """Called like the step that it holds: the first calls run it, the next captures it, and from
    then on it is replayed. Every call trains exactly once, on its own batch."""

    def __init__(self, step: Step) -> None:
        self.step, self.calls = step, 0
        self.graph = torch.cuda.CUDAGraph()

    def __call__(self, tokens: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        if self.calls <= EAGER_STEPS:
            return self._beside(tokens, targets)
        if self.calls == EAGER_STEPS + 1:
            self._capture(tokens, targets)
        self.tokens.copy_(tokens)
        self.targets.copy_(targets)
        self.graph.replay()
        return self.loss.clone()  # the next replay writes into the captured one

    def _beside(self, tokens: Tensor, targets: Tensor) -> Tensor:
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            loss = self.step(tokens, targets)
        current.wait_stream(stream)
        return loss

    def _capture(self, tokens: Tensor, targets: Tensor) -> None:
        """Records without running: the step left no gradients, so backward writes new ones."""
        self.tokens, self.targets = tokens.clone(), targets.clone()
        with torch.cuda.graph(self.graph):
            self.loss = self.step(self.tokens, self.targets)
