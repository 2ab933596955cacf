"""The norms that a Transformer can be given: torch's, torch's in 16 bits, Apex's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as F

from apexlab.bench.model.foreign import made
from apexlab.bench.model.settings import NORM_EPS, Settings
from apexlab.verify.errors import CannotError

APEX = {"gpt": "FusedLayerNorm", "llama": "FusedRMSNorm"}


def norm_factory(settings: Settings, kind: str) -> Callable[[int], torch.nn.Module]:
    """Width to norm: a LayerNorm for gpt, an RMSNorm for llama, all with the same epsilon."""
    if settings.norm == "apex":
        return lambda width: made("apex.normalization", APEX[kind], width, eps=NORM_EPS)
    if kind == "llama" and not hasattr(torch.nn, "RMSNorm"):
        raise CannotError(f"torch {torch.__version__} has no RMSNorm; 2.4 is the first with one. "
                          "Choose a model of kind gpt, or Apex's norm.")
    if settings.norm == "torch-lowp":
        low = getattr(torch, settings.numbers.autocast or "")
        return lambda width: LowNorm(width, low, rms=kind == "llama")
    return lambda width: (torch.nn.RMSNorm if kind == "llama" else torch.nn.LayerNorm)(
        width, eps=NORM_EPS)


class LowNorm(torch.nn.Module):  # type: ignore[misc]
    """torch's norm with input, weights and result in `low`, where autocast would take FP32."""

    def __init__(self, width: int, low: torch.dtype, rms: bool) -> None:
        super().__init__()
        self.width, self.low, self.rms = (width,), low, rms
        self.weight = torch.nn.Parameter(torch.ones(width))
        if not rms:
            self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, weight = x.to(self.low), self.weight.to(self.low)
        with torch.autocast(x.device.type, enabled=False):
            if self.rms:
                return F.rms_norm(x, self.width, weight, NORM_EPS)
            return F.layer_norm(x, self.width, weight, self.bias.to(self.low), NORM_EPS)
