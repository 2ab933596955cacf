"""The scenarios and the ladders that are made from them.

Every optimizer is AdamW. `torch-` without more is the foreach form, which torch takes by itself
on a GPU; `torch-fused-` is its fused form, the fair rival of Apex's FusedAdam. `apex-adam-` is
FusedAdam with torch's norm, `apex-norm-` Apex's norm with torch's AdamW, `apex-` both.
"""

from __future__ import annotations

from apexlab.bench.model.settings import Settings
from apexlab.bench.planning.scenario import Ladder, Scenario, Step


def _scenario(name: str, precision: str, norm: str = "torch", optimizer: str = "torch-foreach",
              compile: bool = False, graph: bool = False) -> Scenario:
    return Scenario(name, Settings(norm, optimizer, precision, compile, graph))


SCENARIOS = (
    _scenario("torch-fp32", "fp32"),
    _scenario("torch-amp-fp16", "amp-fp16"),
    _scenario("apex-fp32", "fp32", norm="apex", optimizer="apex"),
    _scenario("apex-amp-fp16", "amp-fp16", norm="apex", optimizer="apex"),
    # the ladder's, beyond those
    _scenario("apex-adam-fp32", "fp32", optimizer="apex"),
    _scenario("apex-amp-bf16", "amp-bf16", norm="apex", optimizer="apex"),
    _scenario("torch-fused-fp32", "fp32", optimizer="torch-fused"),
    _scenario("torch-fused-amp-bf16", "amp-bf16", optimizer="torch-fused"),
    _scenario("apex-norm-amp-bf16", "amp-bf16", norm="apex"),
    _scenario("apex-adam-amp-bf16", "amp-bf16", optimizer="apex"),
    # today's PyTorch, and what separates one cause from another
    _scenario("torch-tf32", "tf32"),
    _scenario("torch-fused-tf32", "tf32", optimizer="torch-fused"),
    _scenario("apex-tf32", "tf32", norm="apex", optimizer="apex"),
    _scenario("torch-amp-bf16", "amp-bf16"),
    _scenario("torch-fused-amp-fp16", "amp-fp16", optimizer="torch-fused"),
    _scenario("torch-lowp-norm-amp", "amp-bf16", norm="torch-lowp", optimizer="torch-fused"),
    _scenario("apex-norm-fused-amp-bf16", "amp-bf16", norm="apex", optimizer="torch-fused"),
    _scenario("apex-capturable-amp-fp16", "amp-fp16", norm="apex", optimizer="apex-capturable"),
    _scenario("torch-fused-amp-bf16-compile", "amp-bf16", optimizer="torch-fused", compile=True),
    _scenario("apex-adam-amp-bf16-compile", "amp-bf16", optimizer="apex", compile=True),
    _scenario("torch-fused-amp-bf16-graph", "amp-bf16", optimizer="torch-fused", graph=True),
)

_OPTIMIZER, _NORM, _PRECISION = ("optimizer",), ("norm",), ("precision",)
_BOTH = ("norm", "optimizer")
_BASELINE = Step("torch-fp32", "rung", None, (), "the baseline: PyTorch as it comes, IEEE FP32")
_TF32 = Step("torch-tf32", "control", "torch-fp32", _PRECISION,
             "the second baseline: TF32 products, which one line of code turns on")

LADDERS = (
    Ladder("classic", (
        _BASELINE,
        Step("torch-amp-fp16", "rung", "torch-fp32", _PRECISION, "torch.amp alone"),
        Step("apex-fp32", "rung", "torch-fp32", _BOTH, "Apex alone"),
        Step("apex-amp-fp16", "rung", "torch-amp-fp16", _BOTH, "Apex on top of torch.amp"),
    )),
    Ladder("incremental", (
        _BASELINE,
        Step("apex-adam-fp32", "rung", "torch-fp32", _OPTIMIZER, "FusedAdam"),
        Step("apex-fp32", "rung", "apex-adam-fp32", _NORM, "then Apex's norm"),
        Step("apex-amp-bf16", "rung", "apex-fp32", _PRECISION, "then torch.amp BF16"),
        # torch's own norm is fused as it comes, so this one stands beside the rungs 2 and 3
        Step("torch-fused-fp32", "own-part", "torch-fp32", _OPTIMIZER,
             "the rungs 2 and 3 with torch's own fused parts"),
        Step("torch-fused-amp-bf16", "own-part", "torch-fused-fp32", _PRECISION,
             "the rung 4 with torch's own fused parts"),
        Step("apex-norm-amp-bf16", "left-out", "apex-amp-bf16", _OPTIMIZER,
             "the top without FusedAdam"),
        Step("apex-adam-amp-bf16", "left-out", "apex-amp-bf16", _NORM,
             "the top without Apex's norm"),
        # the top without torch.amp is the rung 3
    )),
    Ladder("modern", (
        _BASELINE,
        _TF32,
        Step("torch-fused-fp32", "rung", "torch-fp32", _OPTIMIZER, "torch's fused AdamW, FP32"),
        Step("torch-fused-tf32", "rung", "torch-tf32", _OPTIMIZER, "torch's fused AdamW, TF32"),
        Step("apex-tf32", "rung", "torch-tf32", _BOTH, "Apex, TF32"),
        Step("torch-amp-bf16", "rung", "torch-tf32", _PRECISION, "torch.amp BF16"),
        Step("torch-fused-amp-bf16", "rung", "torch-amp-bf16", _OPTIMIZER,
             "torch's fused AdamW, BF16"),
        Step("apex-adam-amp-bf16", "rung", "torch-fused-amp-bf16", _OPTIMIZER,
             "FusedAdam in place of torch's fused AdamW"),
        Step("apex-norm-fused-amp-bf16", "rung", "torch-fused-amp-bf16", _NORM,
             "Apex's norm in place of torch's: fusion and 16 bits together"),
        Step("torch-lowp-norm-amp", "control", "torch-fused-amp-bf16", _NORM,
             "torch's norm in 16 bits: the precision without Apex's fusion"),
        Step("apex-amp-bf16", "rung", "torch-fused-amp-bf16", _BOTH, "both parts of Apex, BF16"),
        Step("torch-fused-amp-fp16", "control", "torch-fused-amp-bf16", _PRECISION,
             "FP16 with a scaler in place of BF16"),
        Step("apex-amp-fp16", "rung", "torch-fused-amp-fp16", _BOTH, "both parts of Apex, FP16"),
        Step("apex-capturable-amp-fp16", "control", "apex-amp-fp16", _OPTIMIZER,
             "FusedAdam that lets the scaler skip a step on the GPU"),
        Step("torch-fused-amp-bf16-compile", "rung", "torch-fused-amp-bf16", ("compile",),
             "torch.compile"),
        Step("apex-adam-amp-bf16-compile", "rung", "torch-fused-amp-bf16-compile", _OPTIMIZER,
             "FusedAdam beside a compiled model"),
        Step("torch-fused-amp-bf16-graph", "rung", "torch-fused-amp-bf16", ("graph",),
             "the step as a CUDA graph"),
    )),
)
