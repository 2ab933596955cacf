"""What each call should give, in float64 on the CPU, from inputs as they were rounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch


def float64(x: Any) -> Any:
    """The values of `x` in float64 on the CPU."""
    return x.detach().to("cpu", torch.float64)


def adam(p: Any, gradients: Sequence[Any], lr: float, betas: tuple[float, float], eps: float,
         decay: float = 0.0, m: Any = None, v: Any = None, step: int = 1) -> tuple[Any, Any, Any]:
    """(p, m, v) after one step for each of `gradients`, the first of which is number `step`: Adam
    with decoupled weight decay."""
    p = float64(p)
    m = torch.zeros_like(p) if m is None else float64(m)
    v = torch.zeros_like(p) if v is None else float64(v)
    for number, gradient in enumerate(gradients, step):
        g = float64(gradient)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        root = (v / (1 - betas[1] ** number)).sqrt() + eps
        p = p - lr * (m / (1 - betas[0] ** number) / root + decay * p)
    return p, m, v


def norm(x: Any, weight: Any, bias: Any, dy: Any, eps: float, rms: bool) -> tuple[Any, list[Any]]:
    """The result of layer norm or RMS norm over the last dimension, and the gradients of x, weight
    and bias (None for RMS norm, which has none)."""
    leaves = [float64(one).requires_grad_() for one in (x, weight, bias) if one is not None]
    x64, weight64, *rest = leaves
    if not rms:
        x64 = x64 - x64.mean(-1, keepdim=True)
    y = x64 * torch.rsqrt(x64.pow(2).mean(-1, keepdim=True) + eps) * weight64
    y = y + rest[0] if rest else y
    return y.detach(), list(torch.autograd.grad(y, leaves, float64(dy)))


def softmax(x: Any, scale: float, masked: Any = None) -> Any:
    """Softmax of scale * x over the last dimension, without the elements that are `masked`."""
    logits = float64(x) * scale
    if masked is not None:
        logits = logits.masked_fill(masked.cpu().bool(), -math.inf)
    return torch.softmax(logits, -1)


def later(size: int) -> Any:
    """What causal attention masks: [size, size], True where a key comes after the query."""
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def rotary(x: Any, angles: Any) -> Any:
    """Rotary embedding: x cos(angles) + (-second half of x, first half of x) sin(angles)."""
    x64, angles64 = float64(x), float64(angles)
    first, second = x64.chunk(2, -1)
    return x64 * angles64.cos() + torch.cat((-second, first), -1) * angles64.sin()


def linear(x: Any, weight: Any, bias: Any) -> Any:
    return float64(x) @ float64(weight).t() + float64(bias)


def clipped(gradients: Any, longest: float) -> tuple[Any, Any]:
    """(the norm of all gradients together, the gradients scaled to the norm `longest`)."""
    g = float64(gradients)
    length = g.norm()
    return length.reshape(1), g * (longest / (length + 1e-6)).clamp(max=1.0)
