"""What torch really did, where a switch only asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# torch's operators below scaled_dot_product_attention, and what each is called.
ATTENTION = {
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_efficient_attention": "efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_attention_math": "math",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash-cpu",
}


def attention_backends(call: Callable[[], Any]) -> tuple[str, ...]:
    """The attention backends that a call of eager or compiled code went through.

    Empty means "not seen" (a replayed CUDA graph shows no operators), and not "none".
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    seen = {event.key for event in profile.key_averages()}
    return tuple(sorted(name for operator, name in ATTENTION.items() if operator in seen))


def product_error(device: str, size: int = 512) -> float:
    """How far a product of FP32 matrices is off, over its largest element: below 1e-6 for IEEE
    FP32, near 3e-4 for TF32, whatever flags and environment variables say."""
    generator = torch.Generator("cpu").manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    product = (a.to(device) @ b.to(device)).double().cpu()
    return float((product - exact).abs().max() / exact.abs().max())
