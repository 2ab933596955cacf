"""Kernel names from the symbol table of a cubin, the ELF file inside a fatbin entry.

A general ELF reader takes some milliseconds per cubin, and a build for six architectures holds
hundreds of them, so this reads the two tables that it needs and nothing else.
"""

from __future__ import annotations

import struct

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _STRTAB = 2, 3
_EXECUTABLE = 4  # in sh_flags
_FUNCTION = 2
_KERNEL = 0x10  # in st_other: an entry point, as opposed to a device function
_LONGEST_NAME = 1 << 14
MOST_NAME_BYTES = 64 << 20  # of one cubin; libtorch_cuda.so's names are 9 MB for all of them


def kernel_names(cubin: memoryview) -> set[bytes] | None:
    """The mangled names of the kernels in one raw cubin; None if it has not the form we know."""
    if bytes(cubin[:6]) != b"\x7fELF\x02\x01":
        return None
    try:
        return _kernel_names(cubin)
    except (struct.error, IndexError, ValueError, StopIteration):
        return None


def _kernel_names(cubin: memoryview) -> set[bytes]:
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count = struct.unpack_from("<HH", cubin, 58)
    if size != _SECTION.size:
        raise ValueError("section headers of an unknown size")
    sections = list(_SECTION.iter_unpack(_piece(cubin, table, size * count)))
    # The first symbol table only: a hostile file could name the same one thousands of times.
    symtab = next(section for section in sections if section[1] == _SYMTAB)
    strings = sections[symtab[6]]
    symbols = _piece(cubin, symtab[4], symtab[5])
    # Every cubin that a compiler writes has all of this, also one without kernels.
    if strings[1] != _STRTAB or bytes(symbols[:_SYMBOL.size]) != bytes(_SYMBOL.size):
        raise ValueError("its symbol table is damaged")
    if strings[5] > MOST_NAME_BYTES:
        raise ValueError("its names have no end")
    text = bytes(_piece(cubin, strings[4], strings[5]))
    names: set[bytes] = set()
    left = MOST_NAME_BYTES
    for at, info, other, *_ in _SYMBOL.iter_unpack(symbols):
        if info & 0xF == _FUNCTION and other & _KERNEL:
            name = text[at:text.index(b"\0", at, at + _LONGEST_NAME)]
            left -= 0 if name in names else len(name) + 1
            if left < 0:
                raise ValueError("its names have no end")
            names.add(name)
    if not names and any(section[2] & _EXECUTABLE for section in sections):
        raise ValueError("it has code, but no kernel that the code is of")
    return names


def _piece(buffer: memoryview, offset: int, size: int) -> memoryview:
    if offset + size > len(buffer):
        raise ValueError("it reaches beyond the cubin")
    return buffer[offset:offset + size]
