"""The matrix as text for people, JSON for programs, and a GitHub job matrix. Pure: no printing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from apexlab.build.resolve import plan_of
from apexlab.build.rows import Cell, Matrix, minor

SCHEMA = "apexlab.matrix/1"
HEAD = ("torch", "CUDA", "Python", "system", "Apex", "architectures", "evidence")


def _fields(cell: Cell) -> tuple[str, ...]:
    archs = " ".join(str(arch) for arch in cell.archs)
    return (cell.torch, cell.cuda, cell.python, cell.os, cell.ref[:8], archs, cell.evidence)


def table(cells: Sequence[Cell]) -> str:
    """Aligned columns for a terminal, and who reports what below them."""
    rows = [HEAD, *map(_fields, cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n\n".join(filter(None, ("\n".join(lines), "\n".join(sources(cells)))))


def markdown(matrix: Matrix) -> str:
    """The table of the README, without its markers."""
    rows = [HEAD, ("---",) * len(HEAD), *map(_fields, matrix.cells)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"- {line}" for line in sources(matrix.cells))])


def sources(cells: Sequence[Cell]) -> list[str]:
    """Who says what about which cells, a line for each text: `2.9 × 12.9: reported by ...`."""
    said: dict[str, list[str]] = {}
    for cell in cells:
        lead = "reported by " if cell.evidence == "reported" else f"{cell.evidence}: "
        for text in (lead + cell.source if cell.source else "", cell.note):
            if text:
                said.setdefault(text, []).append(f"{minor(cell.torch)} × {cell.cuda}")
    return [f"{', '.join(who)}: {text}" for text, who in said.items()]


def as_json(matrix: Matrix, cells: Sequence[Cell]) -> str:
    """One document, `apexlab.matrix/1`, with what a cell resolves to."""
    entries = [_entry(matrix, cell) for cell in cells]
    return json.dumps({"schema": SCHEMA, "cells": entries}, indent=2)


def _entry(matrix: Matrix, cell: Cell) -> dict[str, object]:
    plan = plan_of(matrix, cell)
    wheel, toolkit = matrix.wheel(cell.torch, cell.cuda), matrix.toolkit(cell.cuda)
    return {
        "name": plan.slug, "torch": plan.torch, "torch_requirement": plan.torch_requirement,
        "torch_index": plan.torch_index, "cuda": plan.cuda, "cuda_image": plan.cuda_image,
        "os": plan.os, "python": plan.python, "ref": plan.ref, "style": plan.style,
        "archs": [str(arch) for arch in plan.archs], "extensions": list(plan.extensions),
        "cxx_std": plan.cxx_std, "cxx11_abi": wheel.cxx11_abi if wheel else None,
        "driver_min": toolkit.driver_min if toolkit else None,
        "evidence": cell.evidence, "source": cell.source, "note": cell.note,
    }


def github(cells: Sequence[Cell]) -> str:
    """A job matrix on one line, for `fromJSON` in a workflow."""
    include = [
        {"name": f"torch{minor(cell.torch)}-cuda{cell.cuda}", "torch": cell.torch,
         "cuda": cell.cuda, "python": cell.python, "os": cell.os, "evidence": cell.evidence}
        for cell in cells
    ]
    return json.dumps({"include": include}, separators=(",", ":"))
