"""What one shared object is: its ELF facts and the device code inside. Reads, never loads.

pyelftools knows the structures; this module decides what is asked of it, because a hostile file
may promise a billion sections. Each size is checked against the file before it is used, the file
is mapped and not read in, and each list has an upper bound.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from apexlab.verify import arch, cubin, fatbin
from apexlab.verify.errors import UnreadableError

MAX_SECTIONS = 4096  # a linked library has about forty
MAX_TAGS = 1 << 16  # of the dynamic section, which has about thirty
MAX_SYMBOLS = 4_000_000  # libtorch_cpu.so, the largest there is, has some hundred thousand
MAX_NAME = 1 << 16
MAX_NAME_BYTES = 64 << 20  # for all names that are kept, together

_DYNAMIC = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DT_NEEDED, _DT_RPATH, _DT_RUNPATH = 1, 15, 29
_WEAK = 2
_CUDART = re.compile(r"libcudart\.so\.(\d+)")

# Names of functions that torch owns; how they spell std::string tells the C++ ABI.
TORCH_SYMBOL = re.compile(r"_ZN[KVR]*(3c10|2at|5torch|6caffe2)|aoti_torch_")
_NEW_STRING = re.compile(r"__cxx11")
_OLD_STRING = re.compile(r"(RK|I|E|O|P|PK|R)Ss|(?<!__cxx11)12basic_stringI")


@dataclass(frozen=True)
class Binary:
    """One shared object. `undefined` are the strong symbols without a version that others must
    define; `pyinit` the modules that it defines an initialiser for; `kernels` None where the
    number cannot be told; `cxx_abi` "old", "new" or "unknown"."""

    path: Path
    size: int
    sha256: str
    machine: str
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    undefined: tuple[str, ...]
    pyinit: tuple[str, ...]
    targets: tuple[str, ...]
    ptx: tuple[str, ...]
    kernels: int | None
    cuda_major: int | None
    cxx_abi: str


@dataclass(frozen=True)
class _Section:
    name: str
    type: str
    offset: int
    size: int
    link: int


def read_binary(path: Path) -> Binary:
    """The facts about the shared object `path`. Raises UnreadableError with the reason."""
    data = map_file(path)
    try:
        return _read(path, data)
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
        raise UnreadableError(path, f"it cannot be opened ({error})") from error
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


def _read(path: Path, data: mmap.mmap) -> Binary:
    elf = _open_elf(path, data)
    sections = _sections(path, elf, len(data))
    _check_segments(path, elf, len(data))
    dynamic = _only(path, sections, "SHT_DYNAMIC")
    strings = _linked(path, sections, dynamic)
    names = _Names(path, data)
    texts = [(tag, names.at(strings, at)) for tag, at in _tags(path, data, dynamic)]
    needed = tuple(text for tag, text in texts if tag == _DT_NEEDED)
    runpath = tuple(part for tag, text in texts if tag != _DT_NEEDED for part in text.split(":"))
    undefined, pyinit = _symbols(path, data, sections, names)
    targets, ptx, kernels = _device_code(path, data, sections)
    majors = {int(found[1]) for name in needed if (found := _CUDART.fullmatch(name))}
    return Binary(
        path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest(),
        machine=str(elf["e_machine"]).removeprefix("EM_").lower(),
        needed=needed, runpath=runpath, undefined=undefined, pyinit=pyinit,
        targets=targets, ptx=ptx, kernels=kernels,
        cuda_major=max(majors, default=None), cxx_abi=cxx_abi(undefined))


def _open_elf(path: Path, data: mmap.mmap) -> Any:
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
    # Checked before pyelftools sees the file: its constructor already follows these.
    if table == 0 or count == 0:
        raise UnreadableError(path, "it has no section table")
    if entry != 64 or count > MAX_SECTIONS or names >= count:
        raise UnreadableError(path, "its section table is damaged")
    if table + entry * count > len(data):
        raise UnreadableError(
            path, f"truncated: its section table ends at byte {table + entry * count}, "
            f"the file at {len(data)}")
    elf = ELFFile(cast("IO[bytes]", data))  # a map reads, seeks and tells: all that is asked
    if elf["e_type"] not in ("ET_DYN", "ET_EXEC"):
        raise UnreadableError(path, f"not a linked library ({elf['e_type']})")
    return elf


def _sections(path: Path, elf: Any, size: int) -> tuple[_Section, ...]:
    # Header by header: pyelftools' own section objects read the hash tables in as well, which
    # takes seconds for torch's libraries and has no bound for a hostile file.
    headers = [
        struct_parse(elf.structs.Elf_Shdr, elf.stream, elf["e_shoff"] + 64 * index)
        for index in range(elf["e_shnum"])]
    names = headers[elf["e_shstrndx"]]
    sections = []
    for header in headers:
        start, length = header["sh_offset"], header["sh_size"]
        if header["sh_type"] not in ("SHT_NOBITS", "SHT_NULL") and start + length > size:
            raise UnreadableError(
                path, f"truncated: a section ends at byte {start + length}, the file at {size}")
        at = names["sh_offset"] + header["sh_name"]
        end = elf.stream.find(b"\0", at, at + 256)
        name = elf.stream[at:end].decode("ascii", "replace") if end >= 0 else ""
        sections.append(_Section(name, str(header["sh_type"]), start, length, header["sh_link"]))
    return tuple(sections)


def _check_segments(path: Path, elf: Any, size: int) -> None:
    """A segment that the file does not hold becomes a bus error when it is loaded."""
    if elf["e_phnum"] > MAX_SECTIONS or elf["e_phoff"] + 56 * elf["e_phnum"] > size:
        raise UnreadableError(path, "its program headers are damaged")
    for index in range(elf["e_phnum"]):
        segment = struct_parse(elf.structs.Elf_Phdr, elf.stream, elf["e_phoff"] + 56 * index)
        end = segment["p_offset"] + segment["p_filesz"]
        if segment["p_type"] == "PT_LOAD" and end > size:
            raise UnreadableError(
                path, f"truncated: a segment ends at byte {end}, the file at {size}")


def _only(path: Path, sections: Iterable[_Section], kind: str) -> _Section:
    found = [section for section in sections if section.type == kind]
    if len(found) != 1:
        raise UnreadableError(path, "it has no dynamic section, so it is not a shared library"
                              if not found else f"it has {len(found)} sections {kind}")
    return found[0]


def _linked(path: Path, sections: tuple[_Section, ...], section: _Section) -> _Section:
    strings = sections[section.link] if section.link < len(sections) else None
    if strings is None or strings.type != "SHT_STRTAB":
        raise UnreadableError(path, f"the string table of {section.name or 'a section'} is absent")
    return strings


def _bytes(data: mmap.mmap, section: _Section) -> memoryview:
    return memoryview(data)[section.offset:section.offset + section.size]


class _Names:
    """Reads names from string tables, with one budget for all: in a hostile file millions of
    symbols may share the same long name."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._left = path, data, MAX_NAME_BYTES

    def at(self, strings: _Section, at: int) -> str:
        end = strings.offset + strings.size
        start = strings.offset + at
        stop = self._data.find(b"\0", start, min(end, start + MAX_NAME)) if start < end else -1
        if stop < 0:
            raise UnreadableError(self._path, "a name lies outside of its string table")
        self._left -= stop - start + 1
        if self._left < 0:
            raise UnreadableError(self._path, "its names have no end")
        return self._data[start:stop].decode("utf-8", "backslashreplace")


def _tags(path: Path, data: mmap.mmap, dynamic: _Section) -> Iterator[tuple[int, int]]:
    """The entries of the dynamic section that name libraries and places."""
    for index, (tag, value) in enumerate(_DYNAMIC.iter_unpack(_bytes(data, dynamic))):
        if tag == 0:
            return
        if index > MAX_TAGS:
            raise UnreadableError(path, "its dynamic section has no end")
        if tag in (_DT_NEEDED, _DT_RPATH, _DT_RUNPATH):
            yield tag, value


def _symbols(
    path: Path, data: mmap.mmap, sections: tuple[_Section, ...], names: _Names,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The undefined symbols that the link check asks about, and the modules of PyInit_*."""
    table = _only(path, sections, "SHT_DYNSYM")
    if table.size > MAX_SYMBOLS * _SYMBOL.size:
        raise UnreadableError(path, f"it has more than {MAX_SYMBOLS} symbols")
    strings = _linked(path, sections, table)
    versions = _versions(path, data, sections, table)
    undefined, pyinit = [], []
    for index, (at, info, _, section, _, _) in enumerate(_SYMBOL.iter_unpack(_bytes(data, table))):
        if index == 0:
            continue
        if section:
            start = strings.offset + at
            if data[start:start + 7] == b"PyInit_":
                pyinit.append(names.at(strings, at).removeprefix("PyInit_"))
        elif info >> 4 != _WEAK and (versions is None or versions[index] & 0x7FFF < 2):
            undefined.append(names.at(strings, at))
    return tuple(undefined), tuple(pyinit)


def _versions(
    path: Path, data: mmap.mmap, sections: Iterable[_Section], table: _Section,
) -> memoryview | None:
    """One number per symbol: 0 local, 1 global, from 2 on a version of a library."""
    found = next((entry for entry in sections if entry.type == "SHT_GNU_versym"), None)
    if found is None:
        return None
    if found.size < table.size // _SYMBOL.size * 2:
        raise UnreadableError(path, "its table of symbol versions is too short")
    return _bytes(data, found)[:found.size // 2 * 2].cast("H")


def _device_code(
    path: Path, data: mmap.mmap, sections: Iterable[_Section],
) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
    # __nv_relfatbin is not among them: it is input of a device link and never loaded.
    targets: set[str] = set()
    ptx: set[str] = set()
    kernels: int | None = 0
    for section in sections:
        if section.name != ".nv_fatbin":
            continue
        if section.type == "SHT_NOBITS":
            raise UnreadableError(path, "its fatbin section holds no data", part="fatbin")
        buffer = _bytes(data, section)
        entries = fatbin.read_entries(buffer, path)
        targets |= {entry.target for entry in entries if entry.kind == fatbin.SASS}
        ptx |= {entry.target for entry in entries if entry.kind == fatbin.PTX}
        count = cubin.kernel_count(buffer, entries)
        kernels = None if count is None or kernels is None else kernels + count
    return _in_order(targets), _in_order(ptx), kernels


def _in_order(targets: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(targets, key=arch.parse_target))


def cxx_abi(symbols: Iterable[str]) -> str:
    """The C++ ABI that torch's functions are called with: "old", "new", or "unknown" where no
    name tells it (a library that passes no strings, or one on torch's stable C interface)."""
    return next(_abis(symbols), "unknown")


def _abis(symbols: Iterable[str]) -> Iterator[str]:
    for name in symbols:
        if TORCH_SYMBOL.match(name):
            if _NEW_STRING.search(name):
                yield "new"
            elif _OLD_STRING.search(name):
                yield "old"
