"""Symbol versions: those that a library of the system has, and where they stop.

A file built beside a newer C or C++ library asks for versions (`GLIBCXX_3.4.30`) that an older one
lacks, and then the loader refuses it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from apexlab.verify import elf
from apexlab.verify.errors import UnreadableError

# The library that has the versions of each kind.
LIBRARIES = {"GLIBC": "libc.so.6", "GLIBCXX": "libstdc++.so.6", "CXXABI": "libstdc++.so.6"}

_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI)_(\d{1,4}(?:\.\d{1,4})*)")
_DEFINITION = struct.Struct("<HHHHIII")
_NAME = struct.Struct("<II")
_NEED = struct.Struct("<HHIII")
_NEEDED = struct.Struct("<IHHII")
_MOST = 10_000  # the C library has about fifty


def kind(version: str) -> str | None:
    """`GLIBCXX` for `GLIBCXX_3.4.30`; None for what is no numbered version of these libraries."""
    found = _VERSION.fullmatch(version)
    return found[1] if found else None


def order(version: str) -> tuple[int, ...]:
    """The numbers of a version, for sorting."""
    found = _VERSION.fullmatch(version)
    return tuple(int(part) for part in found[2].split(".")) if found else ()


def required(library: elf.Elf) -> tuple[str, ...]:
    """The versions that a library asks others for. Raises UnreadableError, or what following an
    offset that lies comes to."""
    section = next((one for one in library.sections if one.type == "SHT_GNU_verneed"), None)
    if section is None:
        return ()
    data, strings = library.bytes(section), library.strings_of(section)
    names, found = elf.Names(library), dict[str, None]()
    at, place, left = 0, 0, 0
    for _ in range(_MOST):
        if not left:
            _, left, _, to_name, to_next = _NEED.unpack_from(data, at)
            place = at + to_name
        *_, text, further = _NEEDED.unpack_from(data, place)
        found[names.at(strings, text)] = None
        place, left = place + further, left - 1 if further else 0
        if not left and not to_next:
            return tuple(found)
        at += 0 if left else to_next
    raise UnreadableError(library.path, "the versions that it needs have no end")


@cache
def defined(path: Path) -> frozenset[str]:
    """The versions that the library `path` defines. Raises UnreadableError."""
    with elf.opened(path) as library:
        section = next((one for one in library.sections if one.type == "SHT_GNU_verdef"), None)
        if section is None:
            return frozenset()
        data, strings = library.bytes(section), library.strings_of(section)
        names = elf.Names(library)
        found, at = set(), 0
        for _ in range(_MOST):
            *_, to_name, to_next = _DEFINITION.unpack_from(data, at)
            text, _ = _NAME.unpack_from(data, at + to_name)
            found.add(names.at(strings, text))
            if not to_next:
                return frozenset(found)
            at += to_next
        raise UnreadableError(path, "its symbol versions have no end")


def newest(kind_: str, versions: Iterable[str]) -> str:
    """The highest of the versions of one kind; "none" where there is none."""
    return max((one for one in versions if kind(one) == kind_), key=order, default="none")
