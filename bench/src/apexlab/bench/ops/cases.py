"""What is measured: each operation in its sizes, dtypes and directions. Data, and no torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apexlab.bench.ops import bytes as least
from apexlab.bench.planning.preset import Preset, Sizes, numbers_of, tensors

OPS = ("adam", "layernorm", "rmsnorm", "clip")
NORMS = ("layernorm", "rmsnorm")
LOW = "bfloat16"  # what autocast turns products into, and the dtype of the 16-bit cases

KI, MI = 2**10, 2**20
# Many small against few large tensors; the third is a model of very many, very small parts.
LISTS: dict[str, Sizes] = {
    "256 x 64 Ki": ((64 * KI,),) * 256,
    "4 x 4 Mi": ((4 * MI,),) * 4,
    "4000 x 4096": ((4096,),) * 4000,
}
QUICK_LISTS = ("256 x 64 Ki", "4 x 4 Mi")
CPU_LISTS: dict[str, Sizes] = {"64 x 4 Ki": ((4 * KI,),) * 64, "2 x 256 Ki": ((256 * KI,),) * 2}
LOW_LISTS = ("4 x 4 Mi", "2 x 256 Ki")  # which of them in BF16 as well, with the preset's own

WIDTHS, QUICK_WIDTHS, CPU_WIDTHS = (768, 1024, 4096, 8192), (1024, 4096), (256, 1024)
ELEMENTS, QUICK_ELEMENTS, CPU_ELEMENTS = 2**26, 2**24, 2**18


@dataclass(frozen=True)
class Case:
    """One operation on tensors of `sizes` (of a norm: one tensor, rows and width) and `dtype`.
    `autocast`: FP32 residual and weights in, a 16-bit result out."""

    op: str
    name: str
    dtype: str
    direction: str
    sizes: Sizes
    autocast: bool = False

    @property
    def setting(self) -> tuple[str, str, str, bool]:
        """What it shares with its other directions: tensors, modules, compiled code."""
        return self.op, self.name, self.dtype, self.autocast

    @property
    def key(self) -> tuple[str, str, bool, str]:
        """What tells it from the other cases of its operation, in a point's order."""
        return self.name, self.dtype, self.autocast, self.direction

    @property
    def numbers(self) -> int:
        return numbers_of(self.sizes)

    def least_bytes(self, moment: str = "float32") -> int:
        """The fewest bytes that one call moves; `moment`: the dtype that Adam's moments have."""
        if self.op == "adam":
            return least.adam(self.numbers, self.dtype, moment)
        if self.op == "clip":
            each = least.unscale if self.direction == "unscale" else least.clip
            return each(self.numbers, self.dtype)
        (rows, width), = self.sizes
        norm = least.Norm(rows, width, self.dtype, LOW if self.autocast else self.dtype,
                          self.dtype, self.op == "rmsnorm")
        return norm.forward() + (norm.backward() if "backward" in self.direction else 0)


def cases(ops: Iterable[str], preset: Preset, device: str, quick: bool) -> tuple[Case, ...]:
    """All cases of these operations, in the order of OPS; those of one setting side by side."""
    wanted = set(ops)
    lists = CPU_LISTS if device == "cpu" else LISTS
    chosen = {name: sizes for name, sizes in lists.items()
              if device == "cpu" or not quick or name in QUICK_LISTS}
    chosen[preset.name] = tensors(preset.shape)
    widths = CPU_WIDTHS if device == "cpu" else QUICK_WIDTHS if quick else WIDTHS
    elements = CPU_ELEMENTS if device == "cpu" else QUICK_ELEMENTS if quick else ELEMENTS
    every = {"adam": _adam(chosen, preset.name, quick), "clip": _clip(chosen, preset.name),
             **{op: _norm(op, widths, elements) for op in NORMS}}
    return tuple(case for op in OPS if op in wanted for case in every[op])


def settings(every: Iterable[Case]) -> list[tuple[Case, ...]]:
    """The cases that share tensors and modules, together."""
    return [tuple(group) for _, group in itertools.groupby(every, lambda case: case.setting)]


def _adam(lists: dict[str, Sizes], own: str, quick: bool) -> Iterator[Case]:
    for name, sizes in lists.items():
        yield Case("adam", name, "float32", "step", sizes)
    for name, sizes in lists.items():
        if name in LOW_LISTS or (name == own and not quick):
            yield Case("adam", name, LOW, "step", sizes)


def _clip(lists: dict[str, Sizes], own: str) -> Iterator[Case]:
    for name, sizes in lists.items():
        if name in (own, next(iter(lists))):
            for direction in ("unscale", "clip"):
                yield Case("clip", name, "float32", direction, sizes)


def _norm(op: str, widths: Iterable[int], elements: int) -> Iterator[Case]:
    for width in widths:
        size = ((elements // width, width),)
        for dtype, autocast in (("float32", False), (LOW, False), ("float32", True)):
            for direction in ("forward", "forward+backward"):
                yield Case(op, f"width {width}", dtype, direction, size, autocast)
