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

from apexlab.verify.elf import Elf
from apexlab.verify.errors import UnreadableError

SECTION, WRAPPERS = ".nv_fatbin", ".nvFatBinSegment"
RELOCATABLE = "__nv_relfatbin"  # input of a device link, never loaded
MAGIC = 0xBA55ED50
WRAPPER_MAGIC = 0x466243B1
PTX, SASS, LTO_IR = 1, 2, 8
LZ4, ZSTD = 0x2000, 0x8000
ARCH_SPECIFIC, FAMILY = 0x100000, 0x200000

# libtorch_cuda.so, the largest there is, has 2,975 entries; beyond this a file is hostile.
MAX_ENTRIES = 100_000

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQI4x2x2xI8xQ8xQ")
_SMALLEST_HEADER = 64
_FORM = 0x101  # in every entry of nvcc 11.8 to 13.2
_WRAPPER = struct.Struct("<IIQQ")


@dataclass(frozen=True)
class Entry:
    """One piece of code: `kind` PTX, SASS or LTO_IR; `start` and `end` of its stored payload, of
    which `packed` bytes are compressed data; `size` its bytes when unpacked; `container` its
    container's number."""

    kind: int
    arch: int
    flags: int
    start: int
    end: int
    packed: int = 0
    size: int = 0
    container: int = 0

    @property
    def target(self) -> str:
        """Its name as reports have it: `sm_90a`, `compute_90`."""
        suffix = "a" if self.flags & ARCH_SPECIFIC else "f" if self.flags & FAMILY else ""
        return f"{'sm' if self.kind == SASS else 'compute'}_{self.arch}{suffix}"

    @property
    def compression(self) -> str:
        """"none", "lz4", "zstd", or "unknown"."""
        known = {0: "none", LZ4: "lz4", ZSTD: "zstd"}.get(self.flags & (LZ4 | ZSTD), "unknown")
        return "unknown" if known == "none" and self.packed else known


@dataclass(frozen=True)
class Fatbin:
    """A section of device code and its entries, whose offsets count from its start."""

    buffer: memoryview
    entries: tuple[Entry, ...]


def read_fatbins(elf: Elf) -> tuple[Fatbin, ...]:
    """The device code that a library registers; empty only if there is no trace of any.

    Raises UnreadableError for what is not understood, and where the host's side of the library
    speaks of more device code than was found.
    """
    found, containers = [], 0
    for section in elf.sections:
        if section.name == SECTION:
            if section.type == "SHT_NOBITS":
                raise _unreadable(elf.path, "its fatbin section holds no data")
            buffer = elf.bytes(section)
            if len(buffer) != section.size:
                raise _unreadable(elf.path, "its fatbin section reaches beyond the file")
            number, entries = read_containers(buffer, elf.path)
            containers += number
            found.append(Fatbin(buffer, entries))
    announced = _announced(elf)
    if containers < announced or (found and not containers):
        raise _unreadable(
            elf.path, f"it registers {announced} fatbins, but {containers} were found")
    if not found and (others := elsewhere(elf)):
        raise _unreadable(
            elf.path, f"it has device code in the unknown section {others[0]!r} alone")
    return tuple(found)


def elsewhere(elf: Elf) -> tuple[str, ...]:
    """The sections that begin as device code does, and are not where CUDA looks for it: libraries
    such as cuBLAS keep some of their code in places of their own."""
    start = struct.pack("<I", MAGIC)
    return tuple(section.name for section in elf.sections
                 if section.name not in (SECTION, RELOCATABLE)
                 and bytes(elf.bytes(section)[:4]) == start)


def _announced(elf: Elf) -> int:
    """How many containers there are at least, told by the wrappers that the host code registers.

    A wrapper has version 1 and one container, except after a device link: then those of version 1
    belong to its inputs, and one of version 2 stands for the result.
    """
    versions = []
    for section in elf.sections:
        if section.name == WRAPPERS:
            raw = bytes(elf.bytes(section)[:24 * MAX_ENTRIES])
            versions += [version for magic, version, _, _ in _WRAPPER.iter_unpack(
                raw[:len(raw) // 24 * 24]) if magic == WRAPPER_MAGIC]
    return versions.count(2) or versions.count(1)


def read_containers(buffer: memoryview, path: Path) -> tuple[int, tuple[Entry, ...]]:
    """The number of containers in `buffer`, the bytes of a section `.nv_fatbin`, and all their
    entries. Raises UnreadableError for anything that is not a container or zero padding."""
    entries: list[Entry] = []
    containers = 0
    position = _skip_padding(buffer, 0)
    while position < len(buffer):
        end = _container_end(buffer, position, path)
        for entry in _container_entries(
                buffer, position + _CONTAINER.size, end, containers, path):
            entries.append(entry)
            if len(entries) > MAX_ENTRIES:
                raise _unreadable(path, f"its fatbin has more than {MAX_ENTRIES} entries")
        position = _skip_padding(buffer, end)
        containers += 1
    return containers, tuple(entries)


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


def _container_entries(buffer: memoryview, position: int, end: int, container: int, path: Path,
                       ) -> Iterator[Entry]:
    while position < end:
        if position + _SMALLEST_HEADER > end:
            raise _unreadable(path, f"its fatbin ends inside an entry header at {position:#x}")
        kind, form, header, stored, packed, arch, flags, size = _ENTRY.unpack_from(buffer, position)
        start = position + header
        if header < _SMALLEST_HEADER or start + stored > end:
            raise _unreadable(path, f"a fatbin entry at {position:#x} does not fit its container")
        if form != _FORM:
            raise _unreadable(path, f"a fatbin entry at {position:#x} has the form {form:#x}")
        if kind not in (PTX, SASS, LTO_IR):
            raise _unreadable(path, f"a fatbin entry at {position:#x} has the unknown kind {kind}")
        if not 10 <= arch <= 999:
            raise _unreadable(path, f"a fatbin entry at {position:#x} is for architecture {arch}")
        if packed > stored:
            raise _unreadable(path, f"a fatbin entry at {position:#x} holds more than it stores")
        yield Entry(kind, arch, flags, start, start + stored, packed, size, container)
        position = start + stored


def _unreadable(path: Path, reason: str) -> UnreadableError:
    return UnreadableError(path, reason, part="fatbin")
