"""Which cells a change concerns: the plan of a pull request. git says what changed; the rest is
pure."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apexlab.build import pins
from apexlab.build.bake import images
from apexlab.build.matrix import DEFAULT_PATH, parse, parse_text
from apexlab.build.resolve import plan_of
from apexlab.build.rows import Cell, Matrix, numbers
from apexlab.verify.errors import ApexlabError, CannotError, UsageError

# What all images are made from. The tables are left out: they are compared row by row.
SHARED = ("docker/", "build/src/", "verify/src/", "bench/src/", "build/pyproject.toml",
          "verify/pyproject.toml", "bench/pyproject.toml", ".dockerignore",
          ".github/workflows/images.yml", ".github/actions/")  # fmt: skip
TABLES = ("build/src/apexlab/build/matrix.toml", "build/src/apexlab/build/pins.toml")


@dataclass(frozen=True)
class Before:
    """The state that is compared with: `matrix` None where today's apexlab cannot read it, `pins`
    the digests of the base images, `paths` what differs from it now."""

    matrix: Matrix | None
    pins: Mapping[str, str]
    paths: tuple[str, ...]


def concerned(before: Before, now: Matrix, digests: Mapping[str, str],
              cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Those of `cells` whose rows or base images changed; where what all of them are made from
    changed, also the newest cell of each commit of Apex, for all of them would take days."""
    old = before.matrix
    if old is None:
        return tuple(cells)
    shared = shared_changes(before.paths)
    return tuple(cell for cell in cells
                 if _rows(old, cell) != _rows(now, cell)
                 or _digests(now, cell, before.pins) != _digests(now, cell, digests)
                 or (shared and cell in _samples(now)))


def shared_changes(paths: Iterable[str]) -> tuple[str, ...]:
    """Those of `paths` that go into every image."""
    return tuple(path for path in paths
                 if path.startswith(SHARED) and path not in TABLES and not path.endswith(".md"))


def _rows(matrix: Matrix, cell: Cell) -> tuple[object, ...] | None:
    """All that the matrix says of the pair of `cell`; None where it has no such cell."""
    own = next((one for one in matrix.cells if (one.torch, one.cuda) == (cell.torch, cell.cuda)),
               None)
    if own is None:
        return None
    # Who reports a cell, and what is noted of it, goes into no layer.
    built = (own.image, own.os, own.python, own.ref, own.archs, own.index)
    return (built, matrix.wheel(own.torch, own.cuda), matrix.toolkit(own.cuda),
            matrix.ref(own.ref), matrix.system(own.os))


def _digests(matrix: Matrix, cell: Cell, digests: Mapping[str, str]) -> list[str | None]:
    return [digests.get(name) for name in images(plan_of(matrix, cell), "nvidia").values()]


def _samples(matrix: Matrix) -> set[Cell]:
    """The newest cell of each commit of Apex: each way of building, once."""
    newest: dict[str, Cell] = {}
    for cell in sorted(matrix.cells, key=lambda one: (numbers(one.torch), numbers(one.cuda))):
        newest[cell.ref] = cell
    return set(newest.values())


def since(root: Path, ref: str) -> Before:
    """What changed in the checkout `root`, committed or not, since its history left that of `ref`.
    Raises UsageError for a `ref` that is none here, CannotError without git."""
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if not commit:
        raise UsageError(f"--changed-since {ref!r} is no commit of this checkout. A shallow clone "
                         "lacks the older ones: fetch it first.")
    base = _git(root, "merge-base", commit, "HEAD")
    if not base:
        raise UsageError(f"--changed-since {ref!r} and this checkout have no common commit. A "
                         "shallow clone lacks it: fetch the whole history.")
    changed = _git(root, "diff", "--name-only", "-z", "--no-renames", base)
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if changed is None or new is None:
        raise CannotError(f"git cannot compare {root} with {base}. Run `git status` there.")
    texts = [_git(root, "show", f"{base}:{name}") for name in TABLES]
    return Before(_matrix(texts[0]), pins.parse(texts[1] or "", f"{base}:{TABLES[1]}"),
                  tuple(filter(None, (changed + "\0" + new).split("\0"))))


def _matrix(text: str | None) -> Matrix | None:
    """An older matrix, if it can be read: its format may have been another."""
    try:
        return None if text is None else parse(parse_text(text, DEFAULT_PATH))
    except (ApexlabError, KeyError, TypeError, ValueError):
        return None


def _git(root: Path, *words: str) -> str | None:
    """What git prints; None where it refuses."""
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True,
                              timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotError(f"git does not run here ({error}), and only it knows what changed. "
                          "Install it, or leave --changed-since out.") from error
    return done.stdout.strip("\n") if done.returncode == 0 else None
