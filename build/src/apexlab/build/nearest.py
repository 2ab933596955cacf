"""What to say when a request meets no cell: what exists, and the nearest cells that can be built.

Pure texts, made from the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from apexlab.build.rows import Cell, Matrix, minor, numbers


def listed(words: Iterable[str]) -> str:
    """`a, b and c`; `none` for nothing."""
    *most, last = list(words) or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


def no_cell(matrix: Matrix, torch: str | None, cuda: str | None) -> str:
    """Why there is no cell for a well-formed torch, CUDA or both, and what to type instead."""
    if torch is None or cuda is None:
        name, have = ("torch", _minors(matrix)) if cuda is None else ("CUDA", _cudas(matrix))
        return f"No cell of the matrix has {name} {torch or cuda}. It has {listed(have)}."
    short = minor(torch)
    cells = [cell for cell in matrix.cells if minor(cell.torch) == short]
    wheel = matrix.wheel(short, cuda)
    if short not in {minor(row.torch) for row in matrix.wheels}:
        why = f"There is no torch {torch} here. {_torches(matrix, cuda)}"
    elif wheel is None:
        why = f"torch {short} has no wheels for CUDA {cuda}. {_comes_for(matrix, short)}" \
              f"; {_torches(matrix, cuda, inside=True)}"
    elif any(cell.cuda == cuda for cell in cells):
        built = listed(cell.torch for cell in cells if cell.cuda == cuda)
        why = f"torch {torch} is not built here: for CUDA {cuda}, the matrix has torch {built}."
    else:
        sure = ", although there are wheels for it" if wheel.confidence != "low" else ""
        why = f"No cell of the matrix builds torch {short} for CUDA {cuda}{sure}. " + (
            f"torch {short} is built for CUDA {listed(cell.cuda for cell in cells)}."
            if cells else f"The oldest torch that is built is {_minors(matrix)[0]}.")
    return f"{why}\n{attempt(matrix, short, cuda)}"


def attempt(matrix: Matrix, torch: str, cuda: str) -> str:
    """`Try: make image TORCH=2.4 CUDA=12.4`, for each of the nearest cells."""
    commands = (f"make image TORCH={minor(cell.torch)} CUDA={cell.cuda}"
                for cell in near(matrix, torch, cuda))
    return f"Try: {' or '.join(dict.fromkeys(commands))}"


def near(matrix: Matrix, torch: str, cuda: str) -> tuple[Cell, ...]:
    """The nearest cell of this torch minor, and the nearest of this CUDA; the newest cell of all
    where there is neither."""
    same_torch = [cell for cell in matrix.cells if minor(cell.torch) == torch]
    same_cuda = [cell for cell in matrix.cells if cell.cuda == cuda]
    found = []
    if same_torch:
        found.append(_nearest(same_torch, cuda, [cell.cuda for cell in same_torch]))
    if same_cuda:
        found.append(_nearest(same_cuda, torch, [minor(cell.torch) for cell in same_cuda]))
    if not found:
        found.append(max(matrix.cells, key=lambda cell: (numbers(cell.torch), numbers(cell.cuda))))
    return tuple(dict.fromkeys(found))


def _nearest(cells: list[Cell], wanted: str, have: list[str]) -> Cell:
    """The cell with the newest version up to `wanted`, else the oldest beyond it."""
    pairs = sorted(zip(have, cells, strict=True), key=lambda pair: numbers(pair[0]))
    below = [cell for version, cell in pairs if numbers(version) <= numbers(wanted)]
    return below[-1] if below else pairs[0][1]


def _comes_for(matrix: Matrix, torch: str) -> str:
    rows = [row for row in matrix.wheels if minor(row.torch) == torch]
    rows = [row for row in rows if row.confidence != "low"] or rows
    rows.sort(key=lambda row: numbers(row.cuda))
    return f"torch {rows[0].torch} comes for {listed(row.cuda for row in rows)}"


def _torches(matrix: Matrix, cuda: str, inside: bool = False) -> str:
    """Which torch this CUDA comes with; `inside` a sentence or as one of its own."""
    names = [minor(row.torch) for row in matrix.wheels
             if row.cuda == cuda and row.confidence != "low"]
    if names:
        return f"CUDA {cuda} comes with torch {listed(sorted(set(names), key=numbers))}."
    minors = _minors(matrix)
    return f"{'no' if inside else 'No'} torch comes for CUDA {cuda}; the matrix builds torch " \
           f"{minors[0]} to {minors[-1]}, for CUDA {listed(_cudas(matrix))}."


def _minors(matrix: Matrix) -> list[str]:
    return sorted({minor(cell.torch) for cell in matrix.cells}, key=numbers)


def _cudas(matrix: Matrix) -> list[str]:
    return sorted({cell.cuda for cell in matrix.cells}, key=numbers)


def malformed(matrix: Matrix, name: str, value: str) -> str:
    """That TORCH or CUDA is not a version at all; `name` is the variable."""
    shape, have = {
        "TORCH": ("2.4, or as 2.4.1", _minors(matrix)), "CUDA": ("12.4", _cudas(matrix)),
    }[name]
    what = f"{name}={value!r} is not a version" if value.strip() else f"{name} is empty"
    return f"{what}. Write it as {shape}. The matrix has {listed(have)}."
