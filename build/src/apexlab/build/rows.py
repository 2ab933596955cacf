"""What the rows of the matrix are: frozen values with their look-ups, and no judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from packaging.specifiers import SpecifierSet

from apexlab.verify.arch import Arch
from apexlab.verify.extensions import CORE_FLAGS

PROFILES = ("core", "full")
PYTORCH_INDEX = "https://download.pytorch.org/whl/"


def numbers(version: str) -> tuple[int, ...]:
    """The version as a sort key: `2.10.0` is after `2.9.1`."""
    return tuple(int(part) for part in version.split("."))


def minor(version: str) -> str:
    """Major and minor alone: `2.4` of `2.4.1`."""
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True)
class Os:
    """A base system: its own python3, its C++ compiler, its C library."""

    name: str
    python: str
    gcc: str
    glibc: str


@dataclass(frozen=True)
class Toolkit:
    """One CUDA minor: its image versions and systems, what its nvcc accepts and targets.

    gcc_max is a major version; archs are the targets of its nvcc.
    """

    cuda: str
    images: tuple[str, ...]
    os: tuple[str, ...]
    gcc_max: str
    archs: tuple[Arch, ...]
    driver_min: str


@dataclass(frozen=True)
class Wheel:
    """torch, as it comes for one CUDA minor. `pypi`: this is the build that PyPI has.

    archs is what torch's own binaries hold; confidence says how sure we are that it exists.
    """

    torch: str
    cuda: str
    pypi: bool
    pythons: tuple[str, ...]
    archs: tuple[Arch, ...]
    cxx11_abi: bool
    cxx_std: str
    gcc_min: str
    confidence: str
    patches: tuple[str, ...]

    @property
    def tag(self) -> str:
        """The folder of PyTorch's own index, and the local part of the version: `cu124`."""
        return "cu" + self.cuda.replace(".", "")


@dataclass(frozen=True)
class Ref:
    """One Apex commit we know how to ask for extensions.

    flags: what each flag builds. own_targets: for an extension that sets its own `-gencode` and
    so ignores the architecture list, its targets from a CUDA minor on; below the first of them it
    is not built. torch and cuda: the versions it fits.
    """

    commit: str
    date: str
    style: str
    python_min: str
    torch: SpecifierSet
    cuda: SpecifierSet
    flags: Mapping[str, tuple[str, ...]]
    own_targets: Mapping[str, Mapping[str, tuple[str, ...]]]

    def profile_flags(self, profile: str) -> tuple[str, ...]:
        """The flags behind `core` or `full`, in the order of the table."""
        return tuple(f for f in self.flags if profile == "full" or f in CORE_FLAGS)

    def extensions(self, flags: tuple[str, ...], cuda: str) -> tuple[str, ...]:
        """The extensions that `flags` build with this CUDA minor."""
        names = (name for flag in flags for name in self.flags[flag])
        return tuple(name for name in names if self.targets(name, cuda) != ())

    def targets(self, extension: str, cuda: str) -> tuple[str, ...] | None:
        """The targets that `extension` sets itself (`sm_90`, `compute_120`); () when this CUDA is
        too old for it to be built; None when it follows the architecture list."""
        if extension not in self.own_targets:
            return None
        steps = self.own_targets[extension]
        reached = [since for since in steps if numbers(since) <= numbers(cuda)]
        return steps[max(reached, key=numbers)] if reached else ()


@dataclass(frozen=True)
class Cell:
    """One row of the matrix. `index` is "" for PyPI or the folder of PyTorch's index (`cu124`);
    `source` backs `evidence`, `note` says what is known beside it."""

    torch: str
    cuda: str
    image: str
    os: str
    python: str
    ref: str
    archs: tuple[Arch, ...]
    index: str
    evidence: str
    source: str
    note: str


@dataclass(frozen=True)
class Matrix:
    """All tables. Look-ups return None where there is no such row."""

    systems: tuple[Os, ...]
    toolkits: tuple[Toolkit, ...]
    wheels: tuple[Wheel, ...]
    refs: tuple[Ref, ...]
    cells: tuple[Cell, ...]

    def system(self, name: str) -> Os | None:
        """The base system called `name`."""
        return next((row for row in self.systems if row.name == name), None)

    def toolkit(self, cuda: str) -> Toolkit | None:
        """The toolkit of a CUDA minor."""
        return next((row for row in self.toolkits if row.cuda == cuda), None)

    def wheel(self, torch: str, cuda: str) -> Wheel | None:
        """The wheel of a torch minor or patch version for a CUDA minor."""
        rows = (w for w in self.wheels if w.cuda == cuda)
        return next((w for w in rows if minor(w.torch) == torch or torch in w.patches), None)

    def ref(self, commit: str) -> Ref | None:
        """The ref with this full commit."""
        return next((row for row in self.refs if row.commit == commit), None)

    @cached_property
    def newest_ref(self) -> Ref:
        """The ref with the latest date."""
        return max(self.refs, key=lambda row: row.date)
