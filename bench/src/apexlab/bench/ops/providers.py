"""Who can do each operation: a table, and what is left out of it with the reason. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apexlab.bench.ops.cases import LOW_LISTS, NORMS, Case

COMPILED_WIDTHS = (1024, 4096)
COMPILED_LIST = 255  # tensors
LONGEST_LIST = 1000  # tensors; more make the loop launch 50,000 kernels a call


@dataclass(frozen=True)
class Provider:
    """`package`: what has to be installed. `extension`: of Apex's, whose kernels have to be proven.
    `autocast`: it is for that alone."""

    name: str
    ops: tuple[str, ...]
    package: str = "torch"
    extension: str | None = None
    autocast: bool = False

    @property
    def compiled(self) -> bool:
        return self.name == "torch-compiled"


PROVIDERS = (
    Provider("torch-loop", ("adam",)),
    Provider("torch-foreach", ("adam",)),
    Provider("torch-fused", ("adam",)),
    Provider("torch", (*NORMS, "clip")),
    Provider("torch-lowp", NORMS, autocast=True),
    Provider("torch-compiled", ("adam", *NORMS)),
    Provider("apex", ("adam", "clip"), "apex", "amp_C"),
    Provider("apex-capturable", ("adam",), "apex", "amp_C"),
    Provider("apex", NORMS, "apex", "fused_layer_norm_cuda"),
    Provider("deepspeed", ("adam",), "deepspeed"),
)


def providers(case: Case) -> Iterator[Provider]:
    """Those that are for this case, in the table's order."""
    return (one for one in PROVIDERS if case.op in one.ops and (case.autocast or not one.autocast))


def left_out(case: Case, provider: Provider, device: str, quick: bool) -> str:
    """Why a provider is not measured for a case that it could do; "" when it is."""
    if provider.name == "torch-loop" and len(case.sizes) > LONGEST_LIST:
        return "left out: a loop over so many tensors launches about 50,000 kernels a step"
    if not provider.compiled:
        return ""
    if device == "cpu" and quick:
        return "left out with --quick on a CPU: compiling takes longer than all else"
    if case.op == "adam":
        return _uncompiled_adam(case, quick)
    widths = COMPILED_WIDTHS[:1] if quick else COMPILED_WIDTHS
    if case.sizes[0][1] not in widths:
        return f"left out: compiled at the width {' and '.join(map(str, widths))} alone"
    return "left out with --quick: compiled under autocast alone" \
        if quick and not case.autocast else ""


def _uncompiled_adam(case: Case, quick: bool) -> str:
    if case.dtype != "float32":
        return "left out: compiled with FP32 parameters alone"
    if len(case.sizes) > COMPILED_LIST:
        return "left out: one compiled step over so many tensors takes minutes to compile"
    if quick and case.name not in LOW_LISTS:
        return "left out with --quick: compiled for few large tensors alone"
    return ""


# As readers know them.
TITLES = {
    "torch-loop": "torch, for-loop", "torch-foreach": "torch, foreach",
    "torch-fused": "torch, fused", "torch": "torch", "torch-lowp": "torch, in 16 bits",
    "torch-compiled": "torch, compiled", "apex": "Apex", "apex-capturable": "Apex, capturable",
    "deepspeed": "DeepSpeed",
}
