"""Calls that are known to leave the extension out, by Apex's own design: made under the
instruments, so that what is said of them was seen here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from . import references
from .case import Case
from .norms import EPS

WIDTH = 1024
NORMS = ("FusedLayerNorm", "FusedRMSNorm")


def cpu_norms(case: Case) -> None:
    """The norms on CPU tensors."""
    _norms(case, "cpu", lambda layer: layer)


def compiled_norms(case: Case) -> None:
    """The norms inside torch.compile; the backend makes no code of its own, so that no compiler is
    needed."""
    import torch._dynamo

    torch._dynamo.reset()
    try:
        _norms(case, case.device, lambda layer: case.torch.compile(layer, backend="eager"))
    finally:
        torch._dynamo.reset()


def _norms(case: Case, device: Any, wrapped: Callable[[Any], Any]) -> None:
    for name in NORMS:
        kind = case.api("apex.normalization", name)
        with case.here():
            layer = kind(WIDTH, eps=EPS).to(device)
        x = case.random(8, WIDTH, dtype=case.torch.float32).to(device)
        call = partial(wrapped(layer), x)
        with case.torch.no_grad():
            y = case.run(name, call)
        want, _ = references.norm(x, layer.weight, getattr(layer, "bias", None), x, EPS,
                                  rms="RMS" in name)
        case.compare(name, y, want, dtype=case.torch.float32)


def refused_softmax(case: Case) -> None:
    """FusedScaleMaskSoftmax with 16 keys, fewer than its kernels take."""
    kind = case.api("apex.transformer.functional", "FusedScaleMaskSoftmax")
    masks = case.api("apex.transformer.enums", "AttnMaskType")
    layer = kind(
        input_in_fp16=True, input_in_bf16=False, attn_mask_type=masks.padding,
        scaled_masked_softmax_fusion=True, mask_func=lambda x, mask: x.masked_fill(mask, -1e4),
        softmax_in_fp32=True, scale=0.75)
    x = case.random(2, 4, 16, 16, dtype=case.torch.float16)
    mask = case.random(2, 1, 16, 16) > 0.5
    mask[..., 0] = False
    y = case.run("FusedScaleMaskSoftmax", lambda: layer(x, mask))
    case.compare("FusedScaleMaskSoftmax", y, references.softmax(x, 0.75, mask),
                 dtype=case.torch.float16)


def bf16_clip(case: Case) -> None:
    """contrib.clip_grad with BF16 gradients."""
    function = case.api("apex.contrib.clip_grad", "clip_grad_norm_")
    gradients = case.sized(8, 1000, dtype=case.torch.bfloat16)
    parameters = [row.clone().requires_grad_() for row in gradients]
    for parameter, row in zip(parameters, gradients.clone(), strict=True):
        parameter.grad = row
    case.run("clip_grad_norm_", lambda: function(parameters, 10.0))
    got = case.torch.stack([parameter.grad for parameter in parameters])
    case.compare("clip_grad_norm_", got, references.clipped(gradients, 10.0)[1],
                 dtype=case.torch.bfloat16)
