"""The kernels that a binary registers: their mangled names, per target, and how people read them.

Machine code says it best: the symbol table of each cubin, unpacked where it is compressed. PTX is
asked where there is no machine code beside it. What cannot be unpacked here leaves the answer open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apexlab.verify import arch, cubin, elf
from apexlab.verify.decompress import CannotUnpack, payload
from apexlab.verify.elf import Elf
from apexlab.verify.errors import UnreadableError
from apexlab.verify.fatbin import LTO_IR, PTX, SASS, SECTION, Entry, Fatbin, read_fatbins

MOST_UNPACKED = 16 << 30  # for one library; libtorch_cuda.so 2.11 has 4.7 GB
MOST_NAME_BYTES = 64 << 20  # for all names of one library

_PTX_HEAD = 1 << 16
_PTX_ENTRY = re.compile(rb"\.entry\s+([\w$]{1,16383})", re.ASCII)
_HOST_NAME = re.compile(rb"_Z[\x21-\x7e]{1,16383}(?=\0)")


@dataclass(frozen=True)
class Kernels:
    """The kernels for one target: `names` as the binary has them (mangled). With `why`, which says
    what could not be read, more kernels may be there than `names` has."""

    target: str
    names: frozenset[str]
    why: str | None = None


def names(path: Path) -> frozenset[str]:
    """The mangled names of the kernels that the binary `path` registers, over all its targets.

    Where some of its code cannot be unpacked, the C++ names in the host code's data are added:
    all its C++ kernels are among them, and other names too. Raises UnreadableError.
    """
    with elf.opened(path) as opened:
        found = read(read_fatbins(opened))
        all_names: frozenset[str] = frozenset().union(*(one.names for one in found))
        if any(one.why for one in found):
            all_names |= _host_names(opened)
    return all_names


def host_names(path: Path) -> frozenset[str]:
    """The C++ names in the data of the binary's host code: all its C++ kernels are among them, and
    other names too. Unpacks nothing; empty for a binary without device code. Raises
    UnreadableError."""
    with elf.opened(path) as opened:
        if not any(section.name == SECTION for section in opened.sections):
            return frozenset()
        return _host_names(opened)


def count(fatbins: Iterable[Fatbin]) -> int | None:
    """How many different kernels there are over all targets; None where it cannot be told without
    unpacking."""
    fatbins = tuple(fatbins)
    if any(entry.compression != "none" for _, entry in _wanted(fatbins)):
        return None
    found = read(fatbins)
    if any(one.why for one in found):
        return None
    return len(frozenset().union(*(one.names for one in found)))


def read(fatbins: Iterable[Fatbin]) -> tuple[Kernels, ...]:
    """The kernels of each target, in the targets' order."""
    found: dict[str, set[str]] = {}
    why: dict[str, str] = {}
    reader = _Reader()
    for buffer, entry in _wanted(fatbins):
        names = found.setdefault(entry.target, set())
        try:
            names.update(reader.names(buffer, entry))
        except CannotUnpack as error:
            why.setdefault(entry.target, f"some of its code is {error}")
    return tuple(Kernels(target, frozenset(found[target]), why.get(target))
                 for target in sorted(found, key=arch.parse_target))


def _wanted(fatbins: Iterable[Fatbin]) -> Iterator[tuple[memoryview, Entry]]:
    """The entries that are asked: machine code, or what a container has in its place."""
    for fatbin in fatbins:
        kinds: dict[int, set[int]] = {}
        for entry in fatbin.entries:
            kinds.setdefault(entry.container, set()).add(entry.kind)
        best = {number: next(kind for kind in (SASS, PTX, LTO_IR) if kind in there)
                for number, there in kinds.items()}
        for entry in fatbin.entries:
            if entry.kind == best[entry.container]:
                yield fatbin.buffer, entry


class _Reader:
    """Reads names entry by entry, within one budget for the whole library."""

    def __init__(self) -> None:
        self._left = MOST_UNPACKED
        self._name_bytes = MOST_NAME_BYTES
        self._known: dict[bytes, str] = {}  # the same kernel comes once for each target

    def names(self, buffer: memoryview, entry: Entry) -> Iterator[str]:
        """The names in one entry. Raises CannotUnpack with the reason."""
        if entry.kind == LTO_IR:
            raise CannotUnpack("LTO-IR, which only a linker reads")
        code = payload(buffer, entry, self._left)
        self._left -= len(code) if entry.compression != "none" else 0
        for name in _cubin_names(code) if entry.kind == SASS else _ptx_names(code):
            if name not in self._known:
                self._name_bytes -= len(name)
                if self._name_bytes < 0:
                    raise CannotUnpack("full of names without end")
                self._known[name] = name.decode("utf-8", "backslashreplace")
            yield self._known[name]


def _cubin_names(code: memoryview) -> set[bytes]:
    found = cubin.kernel_names(code)
    if found is None:
        raise CannotUnpack("of an unknown form")
    return found


def _ptx_names(code: memoryview) -> set[bytes]:
    # A PTX file begins with comments and its version.
    if not re.search(rb"^\s*\.version\s", code[:_PTX_HEAD], re.MULTILINE):
        raise CannotUnpack("of an unknown form")
    return set(_PTX_ENTRY.findall(code))


def _host_names(opened: Elf) -> frozenset[str]:
    """The C++ names in the host code's constants: the registration of each kernel holds its own."""
    found: set[str] = set()
    left = MOST_NAME_BYTES
    for section in opened.sections:
        if section.name == ".rodata" or section.name.startswith(".rodata."):
            for match in _HOST_NAME.finditer(opened.bytes(section)):
                left -= len(match[0])
                if left < 0:
                    raise UnreadableError(opened.path, "its names have no end")
                found.add(match[0].decode("ascii"))
    return frozenset(found)
