"""GPU architectures: how people write them (`9.0+PTX`) and how binaries name them (`sm_90`).

Pure values, used by every part of apexlab that speaks of architectures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from apexlab.verify.errors import UsageError

# Each compute capability that NVIDIA has, and the first CUDA whose compiler knows it; the oldest
# that apexlab builds with stands for all before it.
OLDEST_CUDA = "11.8"
KNOWN = {
    (3, 5): "11.8", (3, 7): "11.8", (5, 0): "11.8", (5, 2): "11.8", (5, 3): "11.8",
    (6, 0): "11.8", (6, 1): "11.8", (6, 2): "11.8", (7, 0): "11.8", (7, 2): "11.8",
    (7, 5): "11.8", (8, 0): "11.8", (8, 6): "11.8", (8, 7): "11.8", (8, 8): "13.0",
    (8, 9): "11.8", (9, 0): "11.8", (10, 0): "12.8", (10, 1): "12.8", (10, 3): "12.9",
    (10, 7): "13.4", (11, 0): "13.0", (12, 0): "12.8", (12, 1): "12.9",
}  # fmt: skip

_WRITTEN = re.compile(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?", re.IGNORECASE | re.ASCII)
_TARGET = re.compile(r"(sm|compute)_(\d{1,2})(\d)([af]?)", re.ASCII)


@dataclass(frozen=True, order=True)
class Arch:
    """One entry of an architecture list: compute capability, suffix, and whether PTX is added.

    `suffix` is "" or "a" (this very architecture) or "f" (its family), as nvcc has them.
    """

    major: int
    minor: int
    suffix: str = ""
    ptx: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}{'+PTX' if self.ptx else ''}"

    @property
    def sm(self) -> str:
        """The name of its machine code: `sm_90a`."""
        return f"sm_{self.major}{self.minor}{self.suffix}"

    @property
    def compute(self) -> str:
        """The name of its PTX: `compute_90a`."""
        return f"compute_{self.major}{self.minor}{self.suffix}"

    @property
    def targets(self) -> tuple[str, ...]:
        """All that the compiler is asked for: machine code, and PTX where `ptx` is set."""
        return (self.sm, self.compute) if self.ptx else (self.sm,)


def parse_archs(text: str) -> tuple[Arch, ...]:
    """The architectures in `text`: `9.0`, `9.0a`, `9.0+PTX`; commas, semicolons or blanks between.

    Raises UsageError for anything else, for an empty list and for an entry given twice.
    """
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    if not words:
        raise UsageError("The list of architectures is empty. Give at least one, such as 9.0.")
    archs = tuple(_parse_one(word, text) for word in words)
    names = [arch.sm for arch in archs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"The architecture list {text!r} names {', '.join(twice)} twice.")
    return archs


def _parse_one(word: str, text: str) -> Arch:
    found = _WRITTEN.fullmatch(word)
    if not found:
        raise UsageError(
            f"{word!r} in the architecture list {text!r} is not an architecture. Write them as "
            "8.6, 9.0a or 9.0+PTX, with commas, semicolons or blanks between.")
    major, minor, suffix, ptx = found.groups()
    return Arch(int(major), int(minor), suffix.lower(), bool(ptx))


def parse_target(name: str) -> Arch:
    """The architecture behind a binary's name for it, `sm_90a` or `compute_90` (then `ptx`)."""
    found = _TARGET.fullmatch(name)
    if not found:
        raise ValueError(f"not a target: {name!r}")
    kind, major, minor, suffix = found.groups()
    return Arch(int(major), int(minor), suffix, kind == "compute")


def format_archs(archs: tuple[Arch, ...]) -> str:
    """The list as TORCH_CUDA_ARCH_LIST takes it: `8.0;9.0+PTX`."""
    return ";".join(str(arch) for arch in archs)


def covers(targets: tuple[str, ...], device: Arch) -> str:
    """How code for `targets` runs on `device`: "sass", "jit" or "none".

    sm_XY runs on the same major from its minor up; sm_XYf likewise within its family; sm_XYa and
    compute_XYa on that very device; PTX on the same or any later capability, by JIT.
    """
    here = (device.major, device.minor)
    found = "none"
    for name in targets:
        target = parse_target(name)
        there = (target.major, target.minor)
        same_major = target.major == device.major and target.minor <= device.minor
        if target.suffix == "a":
            fits = there == here
        elif target.suffix == "f" or not target.ptx:
            fits = same_major
        else:
            fits = there <= here
        if fits and not target.ptx:
            return "sass"
        if fits:
            found = "jit"
    return found
