"""The parity pass: does a scenario learn as plain FP32 does? Beside the timing, on a small model.

The same initial weights and the same tokens for every scenario; result/parity.py judges the curves.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from apexlab.bench.model.graph import GraphStep
from apexlab.bench.model.settings import NORM_EPS, Hyperparameters, Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import Step, make_step
from apexlab.bench.model.stream import Stream
from apexlab.bench.model.transformer import Transformer

# So small that 200 steps take a second or two, and of the same kind as what is timed.
SHAPES = {"gpt": Shape("gpt", vocabulary=512, context=128, layers=2, width=128, heads=4, ffn=512),
          "llama": Shape("llama", vocabulary=512, context=128, layers=2, width=128, heads=4,
                         ffn=344)}
BATCH = 8
# A small model takes larger steps than the timed ones: with theirs, the loss would hardly fall.
ADAMW = Hyperparameters(lr=3e-3)
STREAM_SEED = 1_000_003  # and those after it: none that anybody times with
FURTHER_SEEDS = 3
ATTEMPTS = 12  # of a first step, while the scaler finds its scale
SIGN = 25  # steps between two signs of life
Batch = tuple[Tensor, Tensor]
Alive = Callable[[], None]


def parity(settings: Settings, kind: str, device: str, seed: int, steps: int, baseline: bool,
           alive: Alive = lambda: None) -> dict[str, Any]:
    """{"losses", "gradient_error", "update_error"}; None stands for a loss that is not finite.

    For the baseline also "seeds", the losses with other weights and tokens: how far two sound
    trainings lie apart. `alive` is called now and then, for who waits.
    """
    settings = replace(settings, adamw=ADAMW)
    step = make_step(SHAPES[kind], settings, device, seed)
    data = batches(kind, STREAM_SEED, steps, device)
    first = one_step(step, data[0])
    found = {"losses": _finite([first["loss"], *_losses(step, data[1:], alive)]),
             "gradient_error": first["gradient_error"], "update_error": first["update_error"]}
    if not baseline:
        return found
    return {**found, "seeds": [
        curve(settings, kind, device, seed + number, STREAM_SEED + number, steps, alive)
        for number in range(1, 1 + FURTHER_SEEDS)]}


def curve(settings: Settings, kind: str, device: str, seed: int, stream: int, steps: int,
          alive: Alive = lambda: None) -> list[float | None]:
    """The loss of each step."""
    step = make_step(SHAPES[kind], settings, device, seed)
    return _finite(_losses(step, batches(kind, stream, steps, device), alive))


def batches(kind: str, seed: int, steps: int, device: str) -> list[Batch]:
    """Tokens and targets of each step, on the device."""
    shape = SHAPES[kind]
    size = BATCH * shape.context
    stream = torch.tensor(Stream(shape.vocabulary, seed).tokens(steps * size + 1)).long()
    return list(_cut(stream.to(device), size, shape.context))


def _cut(stream: Tensor, size: int, context: int) -> Iterator[Batch]:
    for part in stream.unfold(0, size + 1, size):
        yield part[:-1].view(-1, context), part[1:].view(-1, context)


def _losses(step: Step | GraphStep, data: Iterable[Batch], alive: Alive) -> list[Tensor]:
    losses = []
    for number, batch in enumerate(data):
        losses.append(step(*batch))
        if number % SIGN == 0:
            alive()
    return losses


def _finite(losses: list[Tensor]) -> list[float | None]:
    """One transfer for all. NaN and infinity are no JSON."""
    return [loss if math.isfinite(loss) else None
            for loss in torch.stack(losses).float().tolist()]


def one_step(step: Step | GraphStep, batch: Batch) -> dict[str, Any]:
    """The first step, held against FP64: {"loss", "gradient_error", "update_error"}.

    The gradients against those of the same weights in FP64; the update against what AdamW in FP64
    makes of the very gradients that this optimizer got, since AdamW's first update is little more
    than their sign, and would tell their error once more.
    """
    eager = step.step if isinstance(step, GraphStep) else step
    before = [p.detach().double() for p in eager.parameters]
    for _ in range(ATTEMPTS):
        loss = eager.forward(*batch)
        eager.backward(loss)
        scale = 1.0 if eager.scaler is None else eager.scaler.get_scale()
        gradients = [p.grad.detach().double() / scale for p in eager.parameters]
        eager.update()
        updates = [after.detach().double() - p
                   for after, p in zip(_weights(eager), before, strict=True)]
        if any(bool(update.any()) for update in updates):
            break  # else the scaler skipped it
    return {"loss": loss.detach(),
            "gradient_error": worst(gradients, _exact_gradients(eager, before, batch)),
            "update_error": worst(updates, _exact_updates(eager.settings, before, gradients))}


def _weights(step: Step) -> list[Tensor]:
    """The trained numbers in their best precision: Apex's master weights where it keeps them."""
    masters = getattr(step.optimizer, "param_groups_master", None)
    return [p for group in masters for p in group["params"]] if masters else step.parameters


def worst(found: Iterable[Tensor], exact: Iterable[Tensor]) -> float | None:
    """The largest error of a tensor, by 2-norms and over the exact tensor's; None if not finite."""
    errors = [float((one - other).norm() / other.norm())
              for one, other in zip(found, exact, strict=True) if bool(other.any())]
    return max(errors) if errors and all(map(math.isfinite, errors)) else None


def _exact_gradients(step: Step, weights: list[Tensor], batch: Batch) -> list[Tensor]:
    model = Transformer(step.model.shape, _exact_norm(step.model.shape.kind)).to(step.device)
    model.double()
    with torch.no_grad():
        for p, weight in zip(model.parameters(), weights, strict=True):
            p.copy_(weight)
    # The model's own loss is FP32's.
    tokens, targets = batch
    F.cross_entropy(model.logits(tokens).flatten(0, 1), targets.flatten()).backward()
    return [p.grad for p in model.parameters()]


def _exact_updates(settings: Settings, weights: list[Tensor], gradients: list[Tensor],
                   ) -> list[Tensor]:
    adamw = settings.adamw
    after = [torch.nn.Parameter(copy.deepcopy(weight)) for weight in weights]
    for p, gradient in zip(after, gradients, strict=True):
        p.grad = gradient
    torch.optim.AdamW(after, lr=adamw.lr, betas=adamw.betas, eps=adamw.eps,
                      weight_decay=adamw.weight_decay, foreach=False, fused=False).step()
    return [p.detach() - weight for p, weight in zip(after, weights, strict=True)]


def _exact_norm(kind: str) -> Any:
    if kind == "gpt":
        return lambda width: torch.nn.LayerNorm(width, eps=NORM_EPS)
    return PlainRms


class PlainRms(torch.nn.Module):  # type: ignore[misc]
    """RMSNorm as it is defined; torch has one from 2.4 on."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.pow(2).mean(-1, keepdim=True) + NORM_EPS).rsqrt() * self.weight
