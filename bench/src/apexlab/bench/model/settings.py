"""The switches of a training step, without torch: what a scenario fills, and what fits together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from apexlab.verify.errors import UsageError

# Apex's norms default to 1e-5 and torch's RMSNorm to the machine epsilon, so it is always passed.
NORM_EPS = 1e-5


@dataclass(frozen=True)
class Precision:
    """Names of torch dtypes: of the parameters, and of what autocast turns products into."""

    weights: str = "float32"
    autocast: str | None = None
    tf32: bool = False
    scaler: bool = False


PRECISIONS = {
    "fp32": Precision(),
    "tf32": Precision(tf32=True),
    "amp-bf16": Precision(autocast="bfloat16"),
    "amp-fp16": Precision(autocast="float16", scaler=True),
    "fp16-weights": Precision(weights="float16", scaler=True),
}
# torch-lowp is torch's norm kept in the 16 bits of autocast, as Apex's norms do it.
NORMS = ("torch", "torch-lowp", "apex")
# Where the class is, and what chooses its implementation. The loop, foreach and fused are three
# different baselines, so none of them is "torch's Adam".
OPTIMIZERS: dict[str, tuple[str, dict[str, bool]]] = {
    "torch-loop": ("torch.optim", {"foreach": False, "fused": False}),
    "torch-foreach": ("torch.optim", {"foreach": True}),
    "torch-fused": ("torch.optim", {"fused": True}),
    "apex": ("apex.optimizers", {}),
    "apex-capturable": ("apex.optimizers", {"capturable": True}),
    "apex-master": ("apex.optimizers", {"capturable": True, "master_weights": True}),
}


@dataclass(frozen=True)
class Hyperparameters:
    """AdamW's, equal for every implementation; the decay holds for all parameters."""

    lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1


@dataclass(frozen=True)
class Settings:
    """One setting of all switches. `clip` is the longest gradient (2-norm); `graph` a CUDA graph
    of the whole step. What does not fit together is refused, and never measured as something else.
    """

    norm: str = "torch"
    optimizer: str = "torch-foreach"
    precision: str = "fp32"
    compile: bool = False
    graph: bool = False
    clip: float | None = None
    adamw: Hyperparameters = field(default_factory=Hyperparameters)

    def __post_init__(self) -> None:
        known("norm", self.norm, NORMS)
        known("optimizer", self.optimizer, OPTIMIZERS)
        known("precision", self.precision, PRECISIONS)
        if problem := next((text for wrong, text in self._misfits() if wrong), None):
            raise UsageError(problem)

    @property
    def numbers(self) -> Precision:
        return PRECISIONS[self.precision]

    def _misfits(self) -> list[tuple[bool, str]]:
        return [
            (self.norm == "torch-lowp" and not self.numbers.autocast,
             "The norm torch-lowp is torch's in the 16 bits of autocast: choose the precision "
             "amp-bf16 or amp-fp16 with it."),
            ((self.optimizer == "apex-master") != (self.precision == "fp16-weights"),
             "The optimizer apex-master and the precision fp16-weights belong together: Apex keeps "
             "master weights for FP16 parameters alone, and torch's scaler refuses their "
             "gradients to any other optimizer."),
            (self.graph and self.numbers.scaler,
             "A CUDA graph is measured without a loss scaler: choose the precision amp-bf16."),
            (self.graph and self.optimizer == "apex",
             "Apex's plain FusedAdam counts its steps on the host, so a CUDA graph would repeat "
             "one of them: choose apex-capturable."),
            (self.clip is not None and self.clip <= 0,
             f"Gradients are clipped to a length above 0, not {self.clip}."),
        ]


def known(what: str, name: str, names: Iterable[str]) -> None:
    """UsageError for a name that is not in the table."""
    listed = list(names)
    if name not in listed:
        raise UsageError(f"There is no {what} {name!r}; there are {', '.join(listed)}.")
