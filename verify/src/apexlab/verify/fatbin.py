"""The fatbin container: which architectures a CUDA binary carries code for, and which kernels.

NVIDIA documents none of it; what is read here was compared with cuobjdump's answers on nvcc 11.8
to 13.2 output. Every offset is checked against the buffer, and what is not understood is an
UnreadableError, never an empty answer. Nothing is decompressed: the headers never are compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apexlab.verify.errors import UnreadableError

MAGIC = 0xBA55ED50
PTX, SASS, LTO_IR = 1, 2, 8
LZ4, ZSTD = 0x2000, 0x8000
ARCH_SPECIFIC, FAMILY = 0x100000, 0x200000

# libtorch_cuda.so, the largest there is, has 2,975 entries; beyond this a file is hostile.
MAX_ENTRIES = 100_000

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ4x4x2x2xI8xQ8x8x")
_SMALLEST_HEADER = 64


@dataclass(frozen=True)
class Entry:
    """One piece of code: `kind` PTX, SASS or LTO_IR; `start` and `end` of its stored payload."""

    kind: int
    arch: int
    flags: int
    start: int
    end: int

    @property
    def target(self) -> str:
        """Its name as reports have it: `sm_90a`, `compute_90`."""
        suffix = "a" if self.flags & ARCH_SPECIFIC else "f" if self.flags & FAMILY else ""
        return f"{'sm' if self.kind == SASS else 'compute'}_{self.arch}{suffix}"

    @property
    def compressed(self) -> bool:
        return bool(self.flags & (LZ4 | ZSTD))


def read_entries(buffer: memoryview, path: Path) -> tuple[Entry, ...]:
    """All entries of the containers in `buffer`, the bytes of a section `.nv_fatbin`.

    Raises UnreadableError for anything that is not a container or zero padding.
    """
    entries: list[Entry] = []
    position = _skip_padding(buffer, 0)
    while position < len(buffer):
        end = _container_end(buffer, position, path)
        for entry in _container_entries(buffer, position + _CONTAINER.size, end, path):
            entries.append(entry)
            if len(entries) > MAX_ENTRIES:
                raise _unreadable(path, f"its fatbin has more than {MAX_ENTRIES} entries")
        position = _skip_padding(buffer, end)
    return tuple(entries)


def _skip_padding(buffer: memoryview, position: int) -> int:
    # In large steps: a section of nothing but zeros may be hundreds of megabytes long.
    while position < len(buffer):
        chunk = bytes(buffer[position:position + (1 << 16)])
        rest = chunk.lstrip(b"\0")
        position += len(chunk) - len(rest)
        if rest:
            break
    return position


def _container_end(buffer: memoryview, position: int, path: Path) -> int:
    if position + _CONTAINER.size > len(buffer):
        raise _unreadable(path, f"its fatbin ends inside a container header at {position:#x}")
    magic, version, header, size = _CONTAINER.unpack_from(buffer, position)
    if magic != MAGIC:
        raise _unreadable(path, f"its fatbin has unknown data ({magic:#010x}) at {position:#x}")
    if version != 1 or header != _CONTAINER.size:
        raise _unreadable(path, f"its fatbin has the unknown version {version}.{header}")
    end = position + header + size
    if end > len(buffer):
        raise _unreadable(path, f"a fatbin container of {size} bytes at {position:#x} does not fit")
    return int(end)


def _container_entries(buffer: memoryview, position: int, end: int, path: Path) -> Iterator[Entry]:
    while position < end:
        if position + _SMALLEST_HEADER > end:
            raise _unreadable(path, f"its fatbin ends inside an entry header at {position:#x}")
        kind, _, header, stored, arch, flags = _ENTRY.unpack_from(buffer, position)
        start = position + header
        if header < _SMALLEST_HEADER or start + stored > end:
            raise _unreadable(path, f"a fatbin entry at {position:#x} does not fit its container")
        if kind not in (PTX, SASS, LTO_IR):
            raise _unreadable(path, f"a fatbin entry at {position:#x} has the unknown kind {kind}")
        if not 10 <= arch <= 999:
            raise _unreadable(path, f"a fatbin entry at {position:#x} is for architecture {arch}")
        yield Entry(kind, arch, flags, start, start + stored)
        position = start + stored


def _unreadable(path: Path, reason: str) -> UnreadableError:
    return UnreadableError(path, reason, part="fatbin")
