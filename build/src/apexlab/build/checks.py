"""What must hold between the rows of the matrix. Pure: every finding is collected, none raised.

Each check takes the matrix and yields one sentence per contradiction, which names the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from apexlab.build.rows import Cell, Matrix, Ref, Toolkit, Wheel, minor, numbers
from apexlab.verify.arch import Arch, covers
from apexlab.verify.extensions import BY_NAME, EXTENSIONS

Check = Callable[[Matrix], Iterator[str]]


def check(matrix: Matrix) -> tuple[str, ...]:
    """All contradictions in the matrix, as sentences; () when it is sound."""
    # Each once: the refs share the table of flags, and would all say the same of it.
    return tuple(dict.fromkeys(finding for one in CHECKS for finding in one(matrix)))


def untargetable(archs: tuple[Arch, ...], toolkit: Toolkit, wheel: Wheel) -> tuple[str, ...]:
    """Why some of `archs` cannot be built, one sentence part for each; () when all can.

    Known to torch means that its own binaries run there: an extension for a GPU on which torch
    has no code would never be called.
    """
    known = {(arch.major, arch.minor, arch.suffix) for arch in toolkit.archs}
    held = tuple(arch.sm for arch in wheel.archs)
    parts = []
    for arch in archs:
        unknown = (arch.major, arch.minor, arch.suffix) not in known
        unheld = covers(held, Arch(arch.major, arch.minor)) == "none"
        nvcc, torch = f"nvcc {toolkit.cuda}", f"torch {wheel.torch}+{wheel.tag}"
        who = [f"{nvcc} cannot target it"] * unknown + [f"{torch} has no code for it"] * unheld
        if who:
            parts.append(f"{arch} ({' and '.join(who)})")
    return tuple(parts)


def refuses_compiler(gcc: str, toolkit: Toolkit, wheel: Wheel) -> str:
    """Why this gcc cannot build for the pair; "" when it can."""
    if int(gcc.split(".")[0]) > int(toolkit.gcc_max):
        return f"nvcc {toolkit.cuda} takes gcc up to {toolkit.gcc_max}"
    if numbers(gcc) < numbers(wheel.gcc_min):
        return f"the headers of torch {wheel.torch} need gcc {wheel.gcc_min}"
    return ""


def misfits(ref: Ref, torch: str, cuda: str, python: str) -> str:
    """Why this ref cannot be built for the three; "" when it can."""
    if not ref.torch.contains(Version(torch)):
        return f"it fits torch {_range(ref.torch)}"
    if not ref.cuda.contains(Version(cuda)):
        return f"it fits CUDA {_range(ref.cuda)}"
    if numbers(python) < numbers(ref.python_min):
        return f"it needs Python {ref.python_min}"
    return ""


def _range(versions: SpecifierSet) -> str:
    """`>=2.3,<2.12`: packaging itself keeps no order."""
    return ",".join(sorted(map(str, versions), reverse=True))


def _title(cell: Cell) -> str:
    return f"cell torch {cell.torch} x CUDA {cell.cuda}"


def _found(matrix: Matrix) -> Iterator[tuple[Cell, Wheel, Toolkit]]:
    """The cells whose wheel and toolkit exist: the others have a finding of their own."""
    for cell in matrix.cells:
        wheel, toolkit = matrix.wheel(cell.torch, cell.cuda), matrix.toolkit(cell.cuda)
        if wheel and toolkit:
            yield cell, wheel, toolkit


def duplicates(matrix: Matrix) -> Iterator[str]:
    """No row is there twice, wheels not even for two patches of one minor."""
    keys = {
        "os": [row.name for row in matrix.systems],
        "toolkit": [row.cuda for row in matrix.toolkits],
        "wheel": [f"torch {minor(row.torch)} x CUDA {row.cuda}" for row in matrix.wheels],
        "ref": [row.commit for row in matrix.refs],
        "cell": [f"torch {minor(row.torch)} x CUDA {row.cuda}" for row in matrix.cells],
    }
    for table, names in keys.items():
        for name, times in Counter(names).items():
            if times > 1:
                yield f"The {table} row {name} is there {times} times."


def wheels_exist(matrix: Matrix) -> Iterator[str]:
    """A cell's torch comes for its CUDA, and the index it names has it."""
    for cell in matrix.cells:
        wheel = matrix.wheel(cell.torch, cell.cuda)
        if wheel is None:
            yield f"The {_title(cell)}: no wheel row has this torch for this CUDA."
        elif not cell.index and not wheel.pypi:
            yield f"The {_title(cell)}: PyPI's torch {cell.torch} is not built for this CUDA, so " \
                  f"field index must be {wheel.tag}."
        elif cell.index and cell.index != wheel.tag:
            yield f"The {_title(cell)}: index {cell.index} is not this CUDA's, {wheel.tag} is."


def wheels_are_newest(matrix: Matrix) -> Iterator[str]:
    """A wheel row is named after the newest of its patches."""
    for wheel in matrix.wheels:
        if wheel.torch != max(wheel.patches, key=numbers):
            yield f"The wheel torch {wheel.torch} x CUDA {wheel.cuda}: field patches does not " \
                  "end with it."


def pypi_has_one_build(matrix: Matrix) -> Iterator[str]:
    """PyPI holds one CUDA build of each torch version."""
    for torch, times in Counter(row.torch for row in matrix.wheels if row.pypi).items():
        if times > 1:
            yield f"The wheel torch {torch}: {times} rows say that PyPI has it, and it has one."


def images_fit(matrix: Matrix) -> Iterator[str]:
    """nvcc's minor is torch's CUDA minor: the image is of that toolkit, on a system it has."""
    for cell in matrix.cells:
        toolkit = matrix.toolkit(cell.cuda)
        if toolkit is None:
            yield f"The {_title(cell)}: no toolkit row has this CUDA."
        elif cell.image not in toolkit.images:
            yield f"The {_title(cell)}: image {cell.image} is not one of CUDA {cell.cuda} " \
                  f"({', '.join(toolkit.images)})."
        elif cell.os not in toolkit.os:
            yield f"The {_title(cell)}: CUDA {cell.cuda} has no image for {cell.os} " \
                  f"({', '.join(toolkit.os)})."
    for toolkit in matrix.toolkits:
        wrong = [image for image in toolkit.images if minor(image) != toolkit.cuda]
        if wrong:
            yield f"The toolkit CUDA {toolkit.cuda}: image {wrong[0]} is of another minor."


def systems_exist(matrix: Matrix) -> Iterator[str]:
    """Every system that is named has a row."""
    named = [(f"toolkit CUDA {row.cuda}", name) for row in matrix.toolkits for name in row.os]
    named += [(_title(cell), cell.os) for cell in matrix.cells]
    for who, name in named:
        if matrix.system(name) is None:
            yield f"The {who}: no os row is called {name}."


def archs_are_known(matrix: Matrix) -> Iterator[str]:
    """Toolkit and torch both know each architecture."""
    for cell, wheel, toolkit in _found(matrix):
        if parts := untargetable(cell.archs, toolkit, wheel):
            yield f"The {_title(cell)}: architecture {', '.join(parts)}."


def pythons_exist(matrix: Matrix) -> Iterator[str]:
    """The wheel exists for the cell's Python."""
    for cell, wheel, _ in _found(matrix):
        if cell.python not in wheel.pythons:
            yield f"The {_title(cell)}: there is no wheel for Python {cell.python} " \
                  f"({', '.join(wheel.pythons)})."


def compilers_fit(matrix: Matrix) -> Iterator[str]:
    """nvcc and torch accept the system's own gcc."""
    for cell, wheel, toolkit in _found(matrix):
        system = matrix.system(cell.os)
        if system and (why := refuses_compiler(system.gcc, toolkit, wheel)):
            yield f"The {_title(cell)}: {cell.os} has gcc {system.gcc}, and {why}."


def refs_fit(matrix: Matrix) -> Iterator[str]:
    """The cell's ref has a row and fits the torch, the CUDA and the Python."""
    for cell in matrix.cells:
        ref = matrix.ref(cell.ref)
        if ref is None:
            yield f"The {_title(cell)}: no ref row is {cell.ref}."
        elif why := misfits(ref, cell.torch, cell.cuda, cell.python):
            yield f"The {_title(cell)}: ref {cell.ref[:8]} does not fit: {why}."


def evidence_has_a_source(matrix: Matrix) -> Iterator[str]:
    """Evidence names its source, and no evidence names none."""
    for cell in matrix.cells:
        if (cell.evidence == "none") == bool(cell.source):
            needs = "must not have" if cell.source else "needs"
            yield f"The {_title(cell)}: evidence {cell.evidence} {needs} a source."


def extensions_are_known(matrix: Matrix) -> Iterator[str]:
    """What the table of flags says of core extensions agrees with verify's own table, and
    own_targets names extensions that the ref has."""
    core = {extension.flag for extension in EXTENSIONS}
    for ref in matrix.refs:
        for flag, names in ref.flags.items():
            for name in names:
                expected = BY_NAME[name].flag if name in BY_NAME else None
                if expected != (flag if flag in core else None):
                    yield f"The table flags: {name} is not an extension of {flag}."
        everything = {name for names in ref.flags.values() for name in names}
        for name in sorted(set(ref.own_targets) - everything):
            yield f"The ref {ref.commit[:8]}: own_targets has {name}, which no flag builds."


CHECKS: tuple[Check, ...] = (
    duplicates, wheels_exist, wheels_are_newest, pypi_has_one_build, images_fit, systems_exist,
    archs_are_known, pythons_exist, compilers_fit, refs_fit, evidence_has_a_source,
    extensions_are_known,
)  # fmt: skip
