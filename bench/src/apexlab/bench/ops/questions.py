"""What is asked of the times: who against whom. A table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """`part` against `rival`, as readers know them; `provider` and `base` as the table does.
    `own`: the preset's own tensors decide, and not all cases together; `top`: it is part of the
    headline."""

    op: str
    direction: str
    part: str
    provider: str
    base: str
    rival: str
    own: bool = False
    top: bool = False

    @property
    def apex(self) -> bool:
        return self.provider.startswith("apex")


# Of each operation, the provider that is measured twice in every round: the noise control.
CONTROL = {"adam": "torch-fused", "layernorm": "torch", "rmsnorm": "torch", "clip": "torch"}
_FUSED = "torch's fused AdamW"
QUESTIONS = (
    Question("adam", "step", "FusedAdam", "apex", "torch-fused", _FUSED, own=True, top=True),
    Question("adam", "step", "FusedAdam, capturable", "apex-capturable", "torch-fused", _FUSED,
             own=True),
    Question("layernorm", "forward+backward", "FusedLayerNorm", "apex", "torch",
             "torch's LayerNorm", top=True),
    Question("rmsnorm", "forward+backward", "FusedRMSNorm", "apex", "torch", "torch's RMSNorm",
             top=True),
    Question("clip", "unscale", "amp_C.multi_tensor_scale", "apex", "torch",
             "torch's unscaling", own=True),
    Question("clip", "clip", "contrib.clip_grad", "apex", "torch", "torch's clip_grad_norm_",
             own=True),
    Question("adam", "step", "torch fused AdamW", "torch-fused", "torch-foreach",
             "torch's foreach AdamW", own=True, top=True),
    Question("adam", "step", "DeepSpeed's FusedAdam", "deepspeed", "torch-fused", _FUSED,
             own=True),
    Question("layernorm", "forward+backward", "torch.compile on LayerNorm", "torch-compiled",
             "torch", "torch's LayerNorm", top=True),
    Question("rmsnorm", "forward+backward", "torch.compile on RMSNorm", "torch-compiled", "torch",
             "torch's RMSNorm", top=True),
    Question("layernorm", "forward+backward", "LayerNorm kept in 16 bits", "torch-lowp", "torch",
             "torch's LayerNorm"),
    Question("rmsnorm", "forward+backward", "RMSNorm kept in 16 bits", "torch-lowp", "torch",
             "torch's RMSNorm"),
)
