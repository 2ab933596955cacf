"""The questions that a run may answer, and the pairs of scenarios that answer them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """`part`: what is asked about, `condition` where; `pairs`: (with it, without it), of which the
    first that was measured answers. `rival`: what `part` stands against; `apex`: it is Apex's;
    `core`: what is said of it even when a run did not ask; `note`: said when it is of use."""

    part: str
    condition: str
    rival: str
    pairs: tuple[tuple[str, str], ...]
    apex: bool = False
    core: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.part} ({self.condition})" if self.condition else self.part


_FUSED, _FOREACH = "torch's fused AdamW", "torch's foreach AdamW"
_BOTH = "Apex's norm and FusedAdam together"
_TORCH_FUSED = "torch's norm and fused AdamW"

QUESTIONS = (
    # how the precision is chosen comes first: it is the largest figure
    Question("torch.amp BF16", "", "FP32", (
        ("torch-amp-bf16", "torch-fp32"), ("torch-fused-amp-bf16", "torch-fused-fp32"))),
    Question("torch.amp FP16", "", "FP32", (
        ("torch-amp-fp16", "torch-fp32"), ("torch-fused-amp-fp16", "torch-fused-fp32"))),
    Question("TF32", "", "IEEE FP32", (
        ("torch-tf32", "torch-fp32"), ("torch-fused-tf32", "torch-fused-fp32")),
        note="One line turns it on: torch.set_float32_matmul_precision(\"high\")."),
    Question("FP16 with a scaler", "", "BF16", (
        ("torch-fused-amp-fp16", "torch-fused-amp-bf16"), ("torch-amp-fp16", "torch-amp-bf16"))),
    Question(_FUSED, "BF16", _FOREACH, (("torch-fused-amp-bf16", "torch-amp-bf16"),)),
    Question(_FUSED, "FP32", _FOREACH, (("torch-fused-fp32", "torch-fp32"),)),
    Question("Apex's FusedAdam", "BF16", _FUSED, (
        ("apex-adam-amp-bf16", "torch-fused-amp-bf16"),
        ("apex-amp-bf16", "apex-norm-fused-amp-bf16")), apex=True, core=True),
    Question("Apex's FusedAdam", "FP32", _FUSED, (
        ("apex-adam-fp32", "torch-fused-fp32"),), apex=True),
    Question("Apex's FusedAdam", "FP32, against torch as it comes", _FOREACH, (
        ("apex-adam-fp32", "torch-fp32"),), apex=True),
    Question("Apex's norm", "BF16 autocast", "torch's norm", (
        ("apex-norm-fused-amp-bf16", "torch-fused-amp-bf16"),
        ("apex-amp-bf16", "apex-adam-amp-bf16"), ("apex-norm-amp-bf16", "torch-amp-bf16")),
        apex=True, core=True),
    Question("Apex's norm", "BF16 autocast, at equal precision", "torch's norm in 16 bits", (
        ("apex-norm-fused-amp-bf16", "torch-lowp-norm-amp"),), apex=True),
    Question("Apex's norm", "FP32", "torch's norm", (
        ("apex-fp32", "apex-adam-fp32"),), apex=True),
    Question(_BOTH, "BF16", _TORCH_FUSED, (
        ("apex-amp-bf16", "torch-fused-amp-bf16"),), apex=True),
    Question(_BOTH, "FP16", _TORCH_FUSED, (
        ("apex-amp-fp16", "torch-fused-amp-fp16"),), apex=True),
    Question(_BOTH, "FP16, against torch as it comes", "torch's norm and foreach AdamW", (
        ("apex-amp-fp16", "torch-amp-fp16"),), apex=True),
    Question(_BOTH, "TF32", _TORCH_FUSED, (
        ("apex-tf32", "torch-fused-tf32"),), apex=True),
    Question(_BOTH, "FP32", _TORCH_FUSED, (
        ("apex-fp32", "torch-fused-fp32"),), apex=True),
    Question(_BOTH, "FP32, against torch as it comes", "torch's norm and foreach AdamW", (
        ("apex-fp32", "torch-fp32"),), apex=True),
    Question("Apex's FusedAdam, capturable", "FP16", "FusedAdam as it comes", (
        ("apex-capturable-amp-fp16", "apex-amp-fp16"),), apex=True),
    Question("torch.compile", "", "eager BF16", (
        ("torch-fused-amp-bf16-compile", "torch-fused-amp-bf16"),), core=True,
        note="A compiled model does not run Apex's norm modules, so it takes their place."),
    Question("Apex's FusedAdam beside a compiled model", "BF16", _FUSED, (
        ("apex-adam-amp-bf16-compile", "torch-fused-amp-bf16-compile"),), apex=True),
    Question("A CUDA graph of the step", "", "eager BF16", (
        ("torch-fused-amp-bf16-graph", "torch-fused-amp-bf16"),)),
)

# What is claimed for some scenarios over torch-fp32, by a tutorial whose model, batch and GPU are
# not known: shown beside what was measured, and no target.
PUBLISHED = {"torch-amp-fp16": (1.5, 2.5), "apex-fp32": (1.1, 1.3), "apex-amp-fp16": (1.8, 3.0),
             "apex-amp-bf16": (1.5, 2.5)}
