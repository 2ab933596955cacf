"""The link check: would the loader resolve all that a binary asks for, after `import torch`?

The scope is what torch has loaded by then: its own libraries, and cuBLAS, which torch loads
globally and which three of Apex's modules use without naming it. With torch's libraries alone
those three would be false alarms.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from apexlab.verify import versions
from apexlab.verify.binary import Binary, read_binary
from apexlab.verify.errors import UnreadableError
from apexlab.verify.found import names_in
from apexlab.verify.library import Library, gnu_hash
from apexlab.verify.loader import Search

_PYTHON = re.compile(r"_?Py[A-Z_]")
# Small libraries that most names are in come first; the order changes nothing but the time.
_FIRST = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libc10_cuda.so",
          "libtorch_cuda.so")
# TORCH_CHECK's own function, by which every extension of torch can be told: both its spellings.
_CHECK_FAIL = "_ZN3c106detail14torchCheckFailEPKcS2_jRK"
_ABI_SYMBOLS = {
    "new": _CHECK_FAIL + "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "old": _CHECK_FAIL + "Ss"}
_LIBRARY = re.compile(r"lib.*\.so")
_LOADED_GLOBALLY = re.compile(r"libcublas(Lt)?\.so\.\d+")


@dataclass(frozen=True)
class TooOld:
    """The symbol `version` is asked for, and `library` stops at `newest`."""

    version: str
    library: Path
    newest: str


@dataclass(frozen=True)
class Linked:
    """What the link check found: `missing` libraries, symbols that are `unresolved`, and
    libraries that are there and `unreadable`, so that nothing can be said about the rest; `old`
    are the libraries that lack a symbol version."""

    missing: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    old: tuple[TooOld, ...] = ()


class Scope:
    """The libraries of one torch, opened once and asked by every extension."""

    def __init__(self, torch_lib: Path, python: Path | None = None) -> None:
        """`python` is the interpreter whose own search path comes first, as in conda."""
        site = torch_lib.parents[1]
        nvidia = [site / "nvidia" / name / "lib" for name in names_in(site / "nvidia")]
        self.search = Search([torch_lib, *nvidia])
        self._system = Search(_runpath(python))
        order = {name: index for index, name in enumerate(_FIRST)}
        own = sorted(filter(_LIBRARY.match, names_in(torch_lib)),
                     key=lambda name: (order.get(name, len(order)), name))
        paths = [torch_lib / name for name in own]
        paths += [folder / name for folder in nvidia for name in names_in(folder)
                  if _LOADED_GLOBALLY.fullmatch(name)]
        self._paths = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113
        self._libraries: dict[Path, Library | None] = {}
        self._known: dict[str, bool] = {}

    def check(self, binary: Binary) -> Linked:
        """Judge one binary. Unversioned strong symbols only: versioned ones are glibc's and
        libstdc++'s matter, and the interpreter itself has Python's."""
        found = {name: self.search.find(name, binary.runpath, binary.path.parent)
                 for name in binary.needed}
        missing = tuple(name for name, path in found.items() if path is None)
        if missing:
            # Whatever those libraries define would be called unresolved: one cause, said once.
            return Linked(missing=missing)
        old, closed = self._too_old(binary)
        # Where a library lies that the loader refuses, nothing about symbols matters any more.
        closed += tuple(str(path) for path in found.values() if path and not self._opened(path))
        if old or closed:
            return Linked(old=old, unreadable=tuple(dict.fromkeys(closed)))
        own = [path for path in found.values() if path and path not in self._paths]
        wanted = [name for name in binary.undefined if not _PYTHON.match(name)]
        unresolved = tuple(name for name in wanted if not self._defined(name, own))
        unreadable = tuple(str(path) for path, opened in self._libraries.items() if opened is None)
        return Linked(unresolved=unresolved, unreadable=unreadable if unresolved else ())

    def _too_old(self, binary: Binary) -> tuple[tuple[TooOld, ...], tuple[str, ...]]:
        """The system's libraries that lack a version which is asked for, the highest of each
        kind; and those that cannot be read."""
        old: dict[str, TooOld] = {}
        closed = []
        for version in sorted(binary.versions, key=versions.order):
            kind = versions.kind(version)
            library = self._system.find(versions.LIBRARIES[kind]) if kind else None
            if kind is None or library is None:
                continue
            try:
                has = versions.defined(library)
            except UnreadableError:
                closed.append(str(library))
                continue
            if version not in has:
                old[kind] = TooOld(version, library, versions.newest(kind, has))
        return tuple(old.values()), tuple(dict.fromkeys(closed))

    @cached_property
    def cxx_abi(self) -> str:
        """The C++ ABI of this torch: "old", "new" or "unknown"."""
        for abi, symbol in _ABI_SYMBOLS.items():
            if self._defined(symbol, ()):
                return abi
        return "unknown"

    def _defined(self, name: str, own: Iterable[Path]) -> bool:
        text = name.encode("utf-8", "backslashreplace")
        value = gnu_hash(text)
        if name not in self._known:
            self._known[name] = any(self._asks(path, text, value) for path in self._paths)
        return self._known[name] or any(self._asks(path, text, value) for path in own)

    def _opened(self, path: Path) -> Library | None:
        if path not in self._libraries:
            try:
                self._libraries[path] = Library(path)
            except UnreadableError:
                self._libraries[path] = None
        return self._libraries[path]

    def _asks(self, path: Path, name: bytes, value: int) -> bool:
        library = self._opened(path)
        try:
            return library is not None and library.defines(name, value)
        except UnreadableError:
            self._libraries[path] = None
            return False


def _runpath(python: Path | None) -> list[Path]:
    """The folders that an interpreter names for its libraries: those of its environment in conda,
    which come before the system's."""
    try:
        place = python.resolve() if python else None
        binary = read_binary(place, digest=False) if place else None
    except (UnreadableError, OSError):
        return []
    if place is None or binary is None:
        return []
    return [Path(part.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(place.parent)))
            for part in binary.runpath if part]
