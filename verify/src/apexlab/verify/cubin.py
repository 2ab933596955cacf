"""Kernel names from the symbol table of a cubin, the ELF file inside a fatbin entry.

A general ELF reader takes some milliseconds per cubin, and a build for six architectures holds
hundreds of them, so this reads the two tables that it needs and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from apexlab.verify.fatbin import SASS, Entry

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB = 2
_FUNCTION = 2
_KERNEL = 0x10  # in st_other: an entry point, as opposed to a device function
_LONGEST_NAME = 1 << 14
# All names of a library together; libtorch_cuda.so, the largest there is, has 23,021 kernels.
_MOST_NAME_BYTES = 64 << 20


def kernel_count(buffer: memoryview, entries: Iterable[Entry]) -> int | None:
    """How many different kernels the machine code holds, over all architectures.

    None when it cannot be told: one of the cubins is compressed or has an unknown form.
    """
    names: set[bytes] = set()
    left = _MOST_NAME_BYTES
    for entry in entries:
        if entry.kind != SASS:
            continue
        found = None if entry.compressed else kernel_names(buffer[entry.start:entry.end])
        if found is None:
            return None
        left -= sum(map(len, found - names))
        if left < 0:
            return None
        names |= found
    return len(names)


def kernel_names(cubin: memoryview) -> set[bytes] | None:
    """The mangled names of the kernels in one raw cubin; None if it has not the form we know."""
    if bytes(cubin[:6]) != b"\x7fELF\x02\x01":
        return None
    try:
        return _kernel_names(cubin)
    except (struct.error, IndexError, ValueError):
        return None


def _kernel_names(cubin: memoryview) -> set[bytes]:
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count = struct.unpack_from("<HH", cubin, 58)
    if size != _SECTION.size:
        raise ValueError("section headers of an unknown size")
    sections = list(_SECTION.iter_unpack(_piece(cubin, table, size * count)))
    # The first symbol table only: a hostile file could name the same one thousands of times.
    symtab = next((section for section in sections if section[1] == _SYMTAB), None)
    if symtab is None:
        return set()
    strings = sections[symtab[6]]
    text = bytes(_piece(cubin, strings[4], strings[5]))
    symbols = _piece(cubin, symtab[4], symtab[5])
    names: set[bytes] = set()
    left = _MOST_NAME_BYTES
    for at, info, other, *_ in _SYMBOL.iter_unpack(symbols):
        if info & 0xF == _FUNCTION and other & _KERNEL:
            name = text[at:text.index(b"\0", at, at + _LONGEST_NAME)]
            left -= 0 if name in names else len(name) + 1
            if left < 0:
                raise ValueError("its names have no end")
            names.add(name)
    return names


def _piece(buffer: memoryview, offset: int, size: int) -> memoryview:
    if offset + size > len(buffer):
        raise ValueError("it reaches beyond the cubin")
    return buffer[offset:offset + size]
