"""The link check: would the loader resolve all that a binary asks for, after `import torch`?

The scope is what torch has loaded by then: its own libraries, and cuBLAS, which torch loads
globally and which three of Apex's modules use without naming it. With torch's libraries alone
those three would be false alarms.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from apexlab.verify.binary import Binary
from apexlab.verify.errors import UnreadableError
from apexlab.verify.library import Library, gnu_hash
from apexlab.verify.loader import Search

_PYTHON = re.compile(r"_?Py[A-Z_]")
# Small libraries that most names are in come first; the order changes nothing but the time.
_FIRST = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libc10_cuda.so",
          "libtorch_cuda.so")
_LOADED_GLOBALLY = re.compile(r"libcublas(Lt)?\.so\.\d+")


@dataclass(frozen=True)
class Linked:
    """What the link check found: `missing` libraries, symbols that are `unresolved`, and
    libraries that are there and `unreadable`, so that nothing can be said about the rest."""

    missing: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


class Scope:
    """The libraries of one torch, opened once and asked by every extension."""

    def __init__(self, torch_lib: Path) -> None:
        site = torch_lib.parents[1]
        nvidia = sorted(site.glob("nvidia/*/lib"))
        self.search = Search([torch_lib, *nvidia])
        order = {name: index for index, name in enumerate(_FIRST)}
        own = sorted(torch_lib.glob("lib*.so*"),
                     key=lambda path: (order.get(path.name, len(order)), path.name))
        blas = [path for folder in nvidia for path in sorted(folder.glob("libcublas*.so.*"))
                if _LOADED_GLOBALLY.fullmatch(path.name)]
        self._paths = [path for path in (*own, *blas) if path.is_file()]
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
        own = [path for path in found.values() if path and path not in self._paths]
        wanted = [name for name in binary.undefined if not _PYTHON.match(name)]
        unresolved = tuple(name for name in wanted if not self._defined(name, own))
        unreadable = tuple(str(path) for path, opened in self._libraries.items() if opened is None)
        return Linked(unresolved=unresolved, unreadable=unreadable if unresolved else ())

    def _defined(self, name: str, own: Iterable[Path]) -> bool:
        text = name.encode("utf-8", "backslashreplace")
        value = gnu_hash(text)
        if name not in self._known:
            self._known[name] = any(self._asks(path, text, value) for path in self._paths)
        return self._known[name] or any(self._asks(path, text, value) for path in own)

    def _asks(self, path: Path, name: bytes, value: int) -> bool:
        if path not in self._libraries:
            try:
                self._libraries[path] = Library(path)
            except UnreadableError:
                self._libraries[path] = None
        library = self._libraries[path]
        try:
            return library is not None and library.defines(name, value)
        except UnreadableError:
            self._libraries[path] = None
            return False


def demangle(symbol: str) -> str:
    """The C++ name behind a symbol, by the C++ library's own function; else the symbol itself."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
        status = ctypes.c_int()
        text = library.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
        if status.value or not text:
            return symbol
        name = ctypes.string_at(text).decode("utf-8", "replace")
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
        return name
    except OSError:
        return symbol
