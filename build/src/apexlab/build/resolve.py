"""From a loose request to a plan: the cell that is meant, or why there is none and what is near.

Pure: takes the matrix and the words of the request, returns a Plan or raises UsageError.
"""

from __future__ import annotations

import re
from dataclasses import replace

from apexlab.build import nearest
from apexlab.build.checks import misfits, refuses_compiler, untargetable
from apexlab.build.errors import NoCellError
from apexlab.build.pick import find_cell
from apexlab.build.plan import Plan
from apexlab.build.rows import (
    PROFILES,
    PYTORCH_INDEX,
    Cell,
    Matrix,
    Ref,
    Toolkit,
    Wheel,
    minor,
)
from apexlab.verify.arch import Arch, parse_archs
from apexlab.verify.errors import UsageError

BASES = ("nvidia", "offline")
OFFLINE_OS = "debian12"


def resolve(
    matrix: Matrix, torch: str, cuda: str, *, python: str | None = None,
    apex_ref: str | None = None, archs: str | None = None, profile: str = "core",
    base: str = "nvidia",
) -> Plan:
    """The plan for `torch` ("2.4" or "2.4.1") and `cuda` ("12.4").

    python, apex_ref (a full commit), archs and profile override the cell; base "offline" moves it
    to the system that is built without a registry. Raises UsageError, in one paragraph, for all
    that cannot be built.
    """
    _one_of(profile, PROFILES, "a profile")
    _one_of(base, BASES, "a base")
    cell = find_cell(matrix, torch, cuda)
    wheel, toolkit = _rows(matrix, cell)
    if base == "offline":
        cell = _offline(matrix, cell)
    system = matrix.system(cell.os)
    chosen = cell.python if python is None else _python(python, wheel, cell, base)
    commit = cell.ref if apex_ref is None else _commit(matrix, apex_ref)
    ref = _ref(matrix, commit, cell, chosen)
    flags = ref.profile_flags(profile)
    return Plan(
        torch=cell.torch,
        torch_requirement=f"torch=={cell.torch}" + (f"+{cell.index}" if cell.index else ""),
        torch_index=PYTORCH_INDEX + cell.index if cell.index else "",
        cuda=cell.cuda, cuda_image=cell.image, os=cell.os,
        python=chosen, python_is_os=system is not None and chosen == system.python,
        ref=commit, style=ref.style,
        archs=cell.archs if archs is None else _archs(archs, cell, wheel, toolkit),
        profile=profile, flags=flags, extensions=ref.extensions(flags, cell.cuda),
        cxx_std=wheel.cxx_std,
        # Another ref is another build: what is said of the cell's own does not speak for it.
        evidence=cell.evidence if commit == cell.ref else "none",
        evidence_source="; ".join(filter(None, (cell.source, cell.note) * (commit == cell.ref))),
    )


def plan_of(matrix: Matrix, cell: Cell) -> Plan:
    """The plan of a cell as it stands in the matrix."""
    return resolve(matrix, cell.torch, cell.cuda)


def _one_of(value: str, allowed: tuple[str, ...], what: str) -> None:
    if value not in allowed:
        raise UsageError(f"{value!r} is not {what}. It is one of {nearest.listed(allowed)}.")


def _rows(matrix: Matrix, cell: Cell) -> tuple[Wheel, Toolkit]:
    wheel, toolkit = matrix.wheel(cell.torch, cell.cuda), matrix.toolkit(cell.cuda)
    # The checks at load rule this out; a Matrix that was made by hand has not passed them.
    if wheel is None or toolkit is None:
        raise NoCellError(f"The matrix lacks a row for torch {cell.torch} or CUDA {cell.cuda}.")
    return wheel, toolkit


def why_not_offline(matrix: Matrix, cell: Cell) -> str:
    """Why this cell cannot be built without a registry; "" when it can."""
    wheel, toolkit = _rows(matrix, cell)
    system = matrix.system(OFFLINE_OS)
    if system is None or OFFLINE_OS not in toolkit.os:
        return f"the toolkit of CUDA {cell.cuda} cannot be put together from packages"
    if cell.index:
        return f"PyPI's torch {cell.torch} is built for another CUDA"
    if system.python not in wheel.pythons:
        return f"torch {cell.torch} has no wheel for the Python {system.python} of {OFFLINE_OS}"
    return refuses_compiler(system.gcc, toolkit, wheel)


def _offline(matrix: Matrix, cell: Cell) -> Cell:
    system = matrix.system(OFFLINE_OS)
    why = why_not_offline(matrix, cell)
    if why or system is None:
        able = [f"{minor(other.torch)} with CUDA {other.cuda}" for other in matrix.cells
                if not why_not_offline(matrix, other)]
        raise UsageError(
            f"torch {cell.torch} with CUDA {cell.cuda} cannot be built with BASE=offline: {why}. "
            f"Without a registry there is torch {nearest.listed(able)}.")
    return replace(cell, os=OFFLINE_OS, python=system.python)


def _python(python: str, wheel: Wheel, cell: Cell, base: str) -> str:
    if python not in wheel.pythons:
        raise UsageError(
            f"torch {wheel.torch} has no wheel for Python {python or '(empty)'}. It comes for "
            f"{nearest.listed(wheel.pythons)}; without PYTHON this cell takes {cell.python}, "
            f"which {cell.os} brings.")
    if base == "offline" and python != cell.python:
        raise UsageError(
            f"BASE=offline has Python {cell.python} alone, which {OFFLINE_OS} brings; Python "
            f"{python} would have to come from elsewhere. Leave PYTHON out, or take BASE=nvidia.")
    return python


def _commit(matrix: Matrix, text: str) -> str:
    """`text` as a full commit; an unknown one is taken at its word."""
    if re.fullmatch(r"[0-9a-fA-F]{40}", text):
        return text.lower()
    known = [ref.commit for ref in matrix.refs if text and ref.commit.startswith(text.lower())]
    raise UsageError(
        f"APEX_REF={text!r} is not a full commit of 40 hexadecimal digits: a branch or a short "
        f"hash may be another commit tomorrow. {f'Give {known[0]}.' if known else ''}".rstrip())


def _ref(matrix: Matrix, commit: str, cell: Cell, python: str) -> Ref:
    """The row to ask `commit` by. An unknown commit is asked as the newest known one is."""
    ref = matrix.ref(commit)
    if ref is None:
        return matrix.newest_ref
    if why := misfits(ref, cell.torch, cell.cuda, python):
        own = f" This cell's own ref is {cell.ref}." if commit != cell.ref else ""
        raise UsageError(
            f"Apex {commit[:8]} cannot be built for torch {cell.torch}, CUDA {cell.cuda} and "
            f"Python {python}: {why}." + own)
    return ref


def _archs(text: str, cell: Cell, wheel: Wheel, toolkit: Toolkit) -> tuple[Arch, ...]:
    archs = parse_archs(text)
    if parts := untargetable(archs, toolkit, wheel):
        own = " ".join(str(arch) for arch in cell.archs)
        raise UsageError(
            f"ARCHS={text!r} cannot be built for torch {cell.torch} with CUDA {cell.cuda}: "
            f"{'; '.join(parts)}. This cell's own architectures are {own}.")
    return archs
