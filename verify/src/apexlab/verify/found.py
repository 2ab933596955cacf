"""The files that can be extensions of Apex, in both of its layouts; which one Apex would get.

Only names are looked at here. The order is that of import for modules, and that of the shims in
apex/_extensions for the libraries that torch loads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from apexlab.verify.errors import CannotError

MODULE, LIBRARY, PYTHON = "module", "library", "python"

_FILE = re.compile(
    r"_?(?P<name>[A-Za-z]\w*?)(\.cpython-(?P<tag>\d+[a-z]*)(-[\w-]+)?|\.abi3)?\.so")
_SHIMS = "apex/_extensions"
# In the order in which the shims look: their own folder, its parent, its grandparent.
_LAYOUT_FOLDERS = (_SHIMS, "apex", "")


@dataclass(frozen=True)
class Found:
    """One extension's file. `layout` is "module" (imported by name), "library" (loaded through
    torch.ops) or "python" (a shim without a library); `tag` its Python tag such as "311"; `shim`
    the Python file in apex/_extensions that loads a library. `inside` of apex/, no import finds
    a module, and a shim does find a library."""

    name: str
    path: Path
    layout: str
    tag: str | None
    shim: Path | None = None
    inside: bool = False

    @property
    def stem(self) -> str:
        """What it is imported as: the file name up to its first dot."""
        return self.path.name.split(".")[0]


def find_files(folders: Iterable[Path], abi: str, package: Path | None) -> dict[str, Found]:
    """Every file in `folders` that can be an extension of Apex, by its name.

    A module as import finds it: the first folder wins, and a file for another Python is passed
    over. A library as its shim finds it. Inside of apex/ only the imported `package` counts.
    """
    entries: dict[str, list[tuple[int, Found]]] = {}
    shims: dict[str, Path] = {}
    for place, folder in enumerate(folders):
        own = package is None or folder == package.parent
        for layout in _LAYOUT_FOLDERS if own else ("",):
            for entry in _files_of(folder / layout, layout):
                entries.setdefault(entry.name, []).append((place, entry))
                if entry.layout == PYTHON:
                    shims.setdefault(entry.name, entry.path)
    return {name: replace(_first(found, abi, name in shims), shim=shims.get(name))
            for name, found in entries.items()}


def _first(entries: list[tuple[int, Found]], abi: str, shim: bool) -> Found:
    """The one of them that Apex gets. Equals keep their order, which is that of the shims."""
    def rank(placed: tuple[int, Found]) -> tuple[bool, bool, bool, int, int]:
        place, entry = placed
        module = entry.layout == MODULE
        unseen = module and (entry.inside or entry.tag not in (None, abi))
        # With a shim, a module of the same name at the top is a leftover that Apex never imports.
        return (entry.layout == PYTHON, unseen, module == shim, place, _suffix(entry))

    return min(entries, key=rank)[1]


def _suffix(entry: Found) -> int:
    """Among the files of one folder: import prefers the full tag, the shims a name without one."""
    if entry.layout == LIBRARY:
        return 0
    return 0 if entry.tag else 1 if entry.path.name.endswith(".abi3.so") else 2


def _files_of(folder: Path, layout: str) -> list[Found]:
    found = []
    for name in names_in(folder):
        if match := _FILE.fullmatch(name):
            kind = LIBRARY if name.startswith("_") else MODULE
            found.append(Found(match["name"], folder / name, kind, match["tag"],
                               inside=bool(layout)))
        elif layout == _SHIMS and name.endswith(".py") and not name.startswith("_"):
            # A shim: it loads the library of its name, or is all there is (apex_C).
            found.append(Found(name.removesuffix(".py"), folder / name, PYTHON, None))
    # Stable, so that the shims' preference within one folder is kept.
    return sorted(found, key=lambda entry: entry.layout == LIBRARY and entry.tag is not None)


def extension_of(name: str) -> str | None:
    """The extension that a file of this name would be; None if its name is not of that form."""
    match = _FILE.fullmatch(name)
    return match["name"] if match else None


def names_in(folder: Path) -> list[str]:
    """What lies in a folder, in order; nothing where there is no such folder. Raises CannotError
    for one that cannot be read."""
    try:
        found = sorted(os.listdir(folder))  # noqa: PTH208 - thousands of names, and no Path each
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise closed(folder, getattr(error, "strerror", None) or str(error)) from error
    if not os.access(folder, os.X_OK):  # its names are told, and nothing about them
        raise closed(folder, "it may not be entered")
    return found


def closed(path: Path, why: str) -> CannotError:
    """The error for what is there and cannot be read."""
    return CannotError(f"{path} cannot be read ({why}), so nothing is said about what it holds. "
                       "Run this as a user who may read it, or repair it.")
