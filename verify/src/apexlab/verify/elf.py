"""One ELF file: mapped, its sections found, and every size checked before it is used.

pyelftools knows the structures; this module decides what is asked of it, because a hostile file
may promise a billion sections. The file is mapped and not read in, and each list has a bound.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from elftools.common.utils import struct_parse
from elftools.elf.structs import ELFStructs

from apexlab.verify.errors import UnreadableError

MAX_SECTIONS = 4096  # a linked library has about forty
MAX_SECTION_NAME = 256
MAX_TAGS = 1 << 16  # of the dynamic section, which has about thirty
MAX_SYMBOLS = 4_000_000  # libtorch_cpu.so, the largest there is, has some hundred thousand
MAX_NAME = 1 << 16
MAX_NAME_BYTES = 64 << 20  # for all names that are kept, together

_DYNAMIC = struct.Struct("<qQ")


@dataclass(frozen=True)
class Section:
    """`type` as pyelftools spells it ("SHT_DYNSYM"); `offset` and `size` in bytes of the file."""

    name: str
    type: str
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Elf:
    """A linked library: `machine` such as "x86_64"; its sections lie within `data`."""

    path: Path
    data: mmap.mmap
    machine: str
    sections: tuple[Section, ...]

    def bytes(self, section: Section) -> memoryview:
        return memoryview(self.data)[section.offset:section.offset + section.size]

    def only(self, kind: str) -> Section:
        """The one section of this type. Raises UnreadableError for none and for several."""
        found = [section for section in self.sections if section.type == kind]
        if len(found) != 1:
            raise UnreadableError(
                self.path, "it has no dynamic section, so it is not a shared library"
                if not found else f"it has {len(found)} sections {kind}")
        return found[0]

    def strings_of(self, section: Section) -> Section:
        """The string table that belongs to a section."""
        strings = self.sections[section.link] if section.link < len(self.sections) else None
        if strings is None or strings.type != "SHT_STRTAB":
            raise UnreadableError(
                self.path, f"the string table of {section.name or 'a section'} is absent")
        return strings

    def tags(self, section: Section) -> Iterator[tuple[int, int]]:
        """The entries of a dynamic section."""
        for index, (tag, value) in enumerate(_DYNAMIC.iter_unpack(self.bytes(section))):
            if tag == 0:
                return
            if index > MAX_TAGS:
                raise UnreadableError(self.path, "its dynamic section has no end")
            yield tag, value


class Names:
    """Reads names from string tables, with one budget for all: in a hostile file millions of
    symbols may share the same long name."""

    def __init__(self, elf: Elf) -> None:
        self._elf, self._left = elf, MAX_NAME_BYTES

    def at(self, strings: Section, at: int) -> str:
        data = self._elf.data
        end = strings.offset + strings.size
        start = strings.offset + at
        stop = data.find(b"\0", start, min(end, start + MAX_NAME)) if start < end else -1
        if stop < 0:
            raise UnreadableError(self._elf.path, "a name lies outside of its string table")
        self._left -= stop - start + 1
        if self._left < 0:
            raise UnreadableError(self._elf.path, "its names have no end")
        return data[start:stop].decode("utf-8", "backslashreplace")


@contextmanager
def opened(path: Path) -> Iterator[Elf]:
    """The shared object `path`. Raises UnreadableError with the reason, also for whatever goes
    wrong while it is being read."""
    data = map_file(path)
    try:
        yield _parse(path, data)
    except UnreadableError:
        raise
    except Exception as error:
        # pyelftools raises whatever its parts raise when a structure lies (construct, struct,
        # assertions, Unicode): for us all of that is one thing, a file that cannot be read.
        raise UnreadableError(path, f"its ELF structure is damaged ({error})") from error


def map_file(path: Path) -> mmap.mmap:
    """The regular file `path`, mapped read-only. Raises UnreadableError, also for an empty one."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(path, f"it cannot be opened ({why})") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(path, "it is not a regular file")
        if status.st_size == 0:
            raise UnreadableError(path, "the file is empty")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise UnreadableError(path, f"it cannot be mapped ({error})") from error
    finally:
        os.close(descriptor)


def _parse(path: Path, data: mmap.mmap) -> Elf:
    _check_header(path, data)
    header = _header(_structs(None, None, None).Elf_Ehdr, data, 0)
    if header["e_type"] not in ("ET_DYN", "ET_EXEC"):
        raise UnreadableError(path, f"not a linked library ({header['e_type']})")
    structs = _structs(header["e_type"], header["e_machine"], header["e_ident"]["EI_OSABI"])
    sections = _sections(path, data, header, structs)
    _check_segments(path, data, header, structs)
    machine = str(header["e_machine"]).removeprefix("EM_").lower()
    return Elf(path, data, machine, sections)


@lru_cache(maxsize=8)
def _structs(kind: Any, machine: Any, system: Any) -> Any:
    """pyelftools' structures alone: its ELFFile brings DWARF readers along, and its section
    objects read whole hash tables in, which has no bound for a hostile file."""
    structs = ELFStructs(little_endian=True, elfclass=64)
    structs.create_basic_structs()
    if kind is not None:
        structs.create_advanced_structs(kind, machine, system)
    return structs


def _header(form: Any, data: Any, at: int) -> Any:
    # A map reads, seeks and tells, which is all that is asked of a stream.
    return struct_parse(form, data, at)


def _check_header(path: Path, data: mmap.mmap) -> None:
    start = data[:64]
    if start.startswith(b"version https://git-lfs"):
        raise UnreadableError(path, "it is a Git LFS pointer, not the file itself")
    if not start.startswith(b"\x7fELF"):
        raise UnreadableError(path, "not an ELF file")
    if len(start) < 64:
        raise UnreadableError(path, "truncated: it ends inside the ELF header")
    if start[4:6] != b"\x02\x01":
        raise UnreadableError(path, "not a 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", start, 40)
    entry, count, names = struct.unpack_from("<HHH", start, 58)
    if table == 0 or count == 0:
        raise UnreadableError(path, "it has no section table")
    if entry != 64 or count > MAX_SECTIONS or names >= count:
        raise UnreadableError(path, "its section table is damaged")
    if table + entry * count > len(data):
        raise UnreadableError(
            path, f"truncated: its section table ends at byte {table + entry * count}, "
            f"the file at {len(data)}")


def _sections(path: Path, data: mmap.mmap, elf: Any, structs: Any) -> tuple[Section, ...]:
    headers = [_header(structs.Elf_Shdr, data, elf["e_shoff"] + 64 * index)
               for index in range(elf["e_shnum"])]
    names = headers[elf["e_shstrndx"]]
    sections = []
    if names["sh_type"] != "SHT_STRTAB":
        raise UnreadableError(path, "the names of its sections are damaged")
    for header in headers:
        start, length = header["sh_offset"], header["sh_size"]
        if header["sh_type"] not in ("SHT_NOBITS", "SHT_NULL") and start + length > len(data):
            raise UnreadableError(path, f"truncated: a section ends at byte {start + length}, "
                                  f"the file at {len(data)}")
        at = names["sh_offset"] + header["sh_name"]
        end = data.find(b"\0", at, at + MAX_SECTION_NAME)
        if end < 0:
            raise UnreadableError(path, "the names of its sections are damaged")
        name = data[at:end].decode("ascii", "backslashreplace")
        sections.append(Section(name, str(header["sh_type"]), start, length, header["sh_link"]))
    # With the wrong table every section has another name, and none of them the one we look for.
    if sections[elf["e_shstrndx"]].name not in (".shstrtab", ".strtab"):
        raise UnreadableError(path, "the names of its sections are damaged")
    return tuple(sections)


def _check_segments(path: Path, data: mmap.mmap, elf: Any, structs: Any) -> None:
    """A segment that the file does not hold becomes a bus error when it is loaded."""
    size = len(data)
    if elf["e_phnum"] > MAX_SECTIONS or elf["e_phoff"] + 56 * elf["e_phnum"] > size:
        raise UnreadableError(path, "its program headers are damaged")
    for index in range(elf["e_phnum"]):
        segment = _header(structs.Elf_Phdr, data, elf["e_phoff"] + 56 * index)
        end = segment["p_offset"] + segment["p_filesz"]
        if segment["p_type"] == "PT_LOAD" and end > size:
            raise UnreadableError(
                path, f"truncated: a segment ends at byte {end}, the file at {size}")
