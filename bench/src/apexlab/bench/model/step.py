"""One training step for a setting of the switches. Nothing in it waits for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from apexlab.bench.model.graph import GraphStep
from apexlab.bench.model.norms import norm_factory
from apexlab.bench.model.optimizers import make_optimizer
from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.transformer import Transformer
from apexlab.bench.model.weights import initialise
from apexlab.verify.errors import CannotError

Wrap = Callable[[torch.nn.Module], torch.nn.Module]


class Step:
    """Called with tokens and targets, (B, T) on the device, it trains once and gives the loss,
    a scalar that stays on the device. Its three parts are there to be timed one by one."""

    def __init__(self, model: torch.nn.Module, optimizer: Any, settings: Settings,
                 device: torch.device, scaler: Any = None, wrap: Wrap | None = None) -> None:
        self.model, self.optimizer, self.settings = model, optimizer, settings
        self.scaler, self.device = scaler, device
        run = wrap(model) if wrap else model
        # A wrapper's own code, such as DDP's, is no single graph; its model stays one.
        self.run = torch.compile(run, fullgraph=wrap is None) if settings.compile else run
        self.parameters = list(model.parameters())

    def __call__(self, tokens: Tensor, targets: Tensor) -> Tensor:
        loss = self.forward(tokens, targets)
        self.backward(loss)
        self.update()
        return loss.detach()

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        low = self.settings.numbers.autocast
        with torch.autocast(self.device.type, getattr(torch, low or "bfloat16"),
                            enabled=low is not None):
            return self.run(tokens, targets)

    def backward(self, loss: Tensor) -> None:
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def update(self) -> None:
        """Clips, steps, and drops the gradients."""
        if self.settings.clip is not None:
            self._clip(self.settings.clip)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        # Without an argument: Apex's takes none in some versions. Both set gradients to None.
        self.optimizer.zero_grad()

    def _clip(self, longest: float) -> None:
        """Shortens gradients while they are still scaled, by the limit scaled alike.

        `unscale_` before it, as is usual, would take the unscaling out of the fused optimizers
        that bring their own; Apex's capturable one does not ask whether it was done already.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        # A half's own norm overflows; older torch lacks the argument, so FP32 goes without.
        wide = {} if gradients[0].dtype == torch.float32 else {"dtype": torch.float32}
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, **wide)))
        limit = torch.full((), longest, device=norm.device)
        if self.scaler is not None:
            limit = self.scaler.scale(limit)
        torch._foreach_mul_(gradients, torch.clamp(limit / (norm + 1e-6), max=1.0))


def make_step(shape: Shape, settings: Settings, device: str, seed: int,
              wrap: Wrap | None = None) -> Step | GraphStep:
    """Model, optimizer and step from a seed. It sets torch's FP32 precision for the process.
    `wrap`: what the model runs inside, such as DistributedDataParallel.

    CannotError for what this device or this Python cannot do.
    """
    place, numbers = torch.device(device), settings.numbers
    if place.type == "cpu":
        refuse_on_cpu(settings)
    # This call alone exists, and means the same, in every torch from 1.12 on.
    torch.set_float32_matmul_precision("high" if numbers.tf32 else "highest")
    with place:
        model = Transformer(shape, norm_factory(settings, shape.kind))
    initialise(model, seed)
    model.to(getattr(torch, numbers.weights))
    optimizer = make_optimizer(settings, model.parameters())
    scaler = make_scaler() if numbers.scaler else None
    step = Step(model, optimizer, settings, place, scaler, wrap)
    return GraphStep(step) if settings.graph else step


def make_scaler() -> Any:
    """The loss scaler for a GPU; torch.amp has one from torch 2.3 on."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cuda")
    return torch.cuda.amp.GradScaler()


def refuse_on_cpu(settings: Settings) -> None:
    """CannotError for what a CPU would run as something else, or not at all."""
    lacks = {"A CUDA graph": settings.graph, "TF32": settings.numbers.tf32,
             "FP16 training": settings.numbers.scaler}
    for what, wanted in lacks.items():
        if wanted:
            raise CannotError(f"{what} is not available on a CPU; choose the precision fp32 or "
                              "amp-bf16, without a graph.")
