"""Which GPU an image has code for: its own extensions and torch's binaries both need it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apexlab.build.rows import Cell, Matrix, minor, numbers
from apexlab.verify.arch import Arch, covers
from apexlab.verify.extensions import CORE_FLAGS

Targets = Mapping[str, tuple[str, ...]]  # what each extension has code for


@dataclass(frozen=True)
class Gpu:
    """GPUs of one compute capability, as people call them."""

    names: str
    arch: Arch

    @property
    def capability(self) -> str:
        return str(self.arch)


GPUS = (
    Gpu("V100", Arch(7, 0)), Gpu("T4, RTX 20", Arch(7, 5)), Gpu("A100, A30", Arch(8, 0)),
    Gpu("A10, A40, RTX 30", Arch(8, 6)), Gpu("L4, L40, RTX 40", Arch(8, 9)),
    Gpu("H100, H200", Arch(9, 0)), Gpu("B200", Arch(10, 0)), Gpu("B300", Arch(10, 3)),
    Gpu("RTX 50, RTX PRO Blackwell", Arch(12, 0)),
)  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """How a cell runs on a GPU. `good`: nothing is missing; `text` says it in words."""

    good: bool
    text: str


def fit(matrix: Matrix, cell: Cell, gpu: Gpu, judged: Targets | None = None) -> Fit:
    """Whether torch and every extension have code for this GPU. `judged`: what verify found in an
    image; without it, what the cell is to be built for."""
    wheel = matrix.wheel(cell.torch, cell.cuda)
    own = tuple(target for arch in wheel.archs for target in arch.targets) if wheel else ()
    if covers(own, gpu.arch) == "none":
        return Fit(False, f"no: torch {cell.torch} for CUDA {cell.cuda} itself has no code for it")
    asked = _targets(matrix, cell) if judged is None else judged
    how = {name: covers(targets, gpu.arch) for name, targets in asked.items()}
    without = [name for name, found in how.items() if found == "none"]
    if len(without) == len(how):
        return Fit(False, "no: Apex in this image has no code for it")
    if without:
        return Fit(False, f"in part: no code for it in {', '.join(without)}")
    if "jit" in how.values():
        return Fit(True, "yes: the driver compiles for it at the first start, which takes a while")
    return Fit(True, "yes: machine code for it")


def _targets(matrix: Matrix, cell: Cell) -> Targets:
    """What each extension of the core is compiled for; C++ alone runs anywhere."""
    ref = matrix.ref(cell.ref) or matrix.newest_ref
    usual = tuple(target for arch in cell.archs for target in arch.targets)
    names = ref.extensions(tuple(flag for flag in ref.flags if flag in CORE_FLAGS), cell.cuda)
    return {name: ref.targets(name, cell.cuda) or usual for name in names}


def nearest(matrix: Matrix, cell: Cell, gpu: Gpu) -> Cell | None:
    """The cell nearest to this one that has code for the GPU: as little change of torch as can be,
    then of CUDA; the newer of two."""
    torches = sorted({minor(one.torch) for one in matrix.cells}, key=numbers)
    cudas = sorted({one.cuda for one in matrix.cells}, key=numbers)

    def steps(one: Cell) -> tuple[int, int, int]:
        torch = torches.index(minor(one.torch)) - torches.index(minor(cell.torch))
        cuda = cudas.index(one.cuda) - cudas.index(cell.cuda)
        return abs(torch), abs(cuda), -torch - cuda

    able = [one for one in matrix.cells if fit(matrix, one, gpu).good]
    return min(able, key=steps, default=None)
