"""Which cells a request means. Versions are given loosely: `2.4` is any patch of it."""

from __future__ import annotations

import re

from apexlab.build import nearest
from apexlab.build.errors import NoCellError
from apexlab.build.rows import Cell, Matrix, minor, numbers
from apexlab.verify.errors import UsageError

_TORCH = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?")
_CUDA = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")


def find_cell(matrix: Matrix, torch: str, cuda: str) -> Cell:
    """The cell with the newest patch that fits `torch` and `cuda`; NoCellError if there is none."""
    return max(pick(matrix, torch, cuda), key=lambda cell: numbers(cell.torch))


def pick(matrix: Matrix, torch: str | None, cuda: str | None) -> tuple[Cell, ...]:
    """All cells that fit, None meaning any version. Raises UsageError for what is no version, and
    NoCellError when nothing fits."""
    if torch is not None and not _TORCH.fullmatch(torch):
        raise UsageError(nearest.malformed(matrix, "TORCH", torch))
    if cuda is not None and not _CUDA.fullmatch(cuda):
        raise UsageError(nearest.malformed(matrix, "CUDA", cuda))
    fitting = tuple(
        cell for cell in matrix.cells
        if cuda in (None, cell.cuda) and torch in (None, cell.torch, minor(cell.torch))
    )
    if not fitting:
        raise NoCellError(nearest.no_cell(matrix, torch, cuda))
    return fitting
