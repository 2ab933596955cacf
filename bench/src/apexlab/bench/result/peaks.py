"""Peak rates of GPUs, and the share of them that a training step reaches (MFU). Pure.

Dense rates; sheets often quote those with sparsity, which are twice as high.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apexlab.bench.model.settings import PRECISIONS
from apexlab.bench.planning.preset import Preset

# A product of FP32 matrices is off by 3e-4 in TF32, and by less than 1e-6 in IEEE FP32.
TF32_ERROR = 1e-5


@dataclass(frozen=True)
class Peak:
    """TFLOP/s by dtype; None: no figure with a source. `names`: what torch calls the GPU, whole,
    for a part of a GPU (MIG) and a slower form have names that begin alike."""

    names: tuple[str, ...]
    fp32: float | None
    tf32: float | None
    bf16: float | None
    fp16: float | None
    source: str


_HOPPER = ("16,896 FP32 cores at 1.98 GHz, and 528 tensor cores with 1024 FLOP a clock (TF32: "
           "half) at 1.83 GHz")
PEAKS = (
    Peak(("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB",
          "NVIDIA A100 80GB PCIe"), 19.5, 156.0, 312.0, 312.0,
         "NVIDIA's A100 data sheet; 6,912 FP32 cores, and 432 tensor cores with 512 FLOP a clock "
         "(TF32: half), at 1.41 GHz, give the same"),
    Peak(("NVIDIA H100 80GB HBM3",), 66.9, 494.7, 989.4, 989.4, f"H100 SXM: {_HOPPER}"),
    Peak(("NVIDIA H200",), 66.9, 494.7, 989.4, 989.4, f"H200 SXM: {_HOPPER}"),
)
_BY_NAME = {name: peak for peak in PEAKS for name in peak.names}


def dtype_used(precision: str, product_error: float | None) -> str | None:
    """The dtype of a step's matrix products: `fp32`, `tf32`, `bf16` or `fp16`. TF32 is what was
    measured, for flags and environment variables can say one thing and do another; without the
    measurement, None."""
    numbers = PRECISIONS[precision]
    low = numbers.autocast or numbers.weights
    if low != "float32":
        return {"bfloat16": "bf16", "float16": "fp16"}[low]
    if product_error is None:
        return None
    return "tf32" if product_error > TF32_ERROR else "fp32"


def find_peak(device: str | None, dtype: str | None) -> dict[str, Any] | None:
    """`{"gpu", "dtype", "tflops", "source"}`; None for a GPU or a dtype that is not known."""
    peak = _BY_NAME.get(device or "")
    tflops = getattr(peak, dtype) if peak and dtype else None
    if peak is None or tflops is None:
        return None
    return {"gpu": device, "dtype": dtype, "tflops": tflops, "source": peak.source}


def mfu(preset: Preset, seconds: float, peak: dict[str, Any] | None) -> float | None:
    """The FLOPs that a step needs, over those that one GPU could have done in its time."""
    return preset.flops() / (seconds * peak["tflops"] * 1e12) if peak else None
