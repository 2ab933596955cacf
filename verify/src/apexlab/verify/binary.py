"""What one shared object is: its ELF facts and the device code inside. Reads, never loads."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.verify import arch, elf, kernels
from apexlab.verify.elf import MAX_SYMBOLS, Elf, Names, Section
from apexlab.verify.errors import UnreadableError
from apexlab.verify.fatbin import PTX, SASS, Fatbin, read_fatbins
from apexlab.verify.versions import required

_SYMBOL = struct.Struct("<IBBHQQ")
_DT_NEEDED, _DT_RPATH, _DT_RUNPATH = 1, 15, 29
_WEAK = 2
_LARGEST = 4 << 30  # of a file that is hashed: one full of holes may claim any size
_CUDART = re.compile(r"libcudart\.so\.(\d{1,4})")

# Names that torch owns: of its C++ functions, type informations and tables, and of its stable C
# interface. How the C++ ones spell std::string tells the C++ ABI.
TORCH_CPP = re.compile(r"_Z(T[ISVT])?N[KVRO]*(3c10|2at|5torch|6caffe2)")
TORCH_STABLE = re.compile(r"(aoti_torch|torch)_[a-z]")
_NEW_STRING = re.compile(r"__cxx11")
_OLD_STRING = re.compile(r"(RK|I|E|O|P|PK|R)Ss|(?<!__cxx11)12basic_stringI")


@dataclass(frozen=True)
class Binary:
    """One shared object. `undefined` are the strong symbols without a version that others must
    define; `pyinit` the modules that it defines an initialiser for; `kernels` None where the
    number cannot be told; `cxx_abi` "old", "new" or "unknown"; `versions` the symbol versions that
    it asks other libraries for, such as GLIBCXX_3.4.30."""

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
    versions: tuple[str, ...] = ()


def read_binary(path: Path, digest: bool = True) -> Binary:
    """The facts about the shared object `path`; its sha256 is "" unless a digest is wanted.

    Raises UnreadableError with the reason.
    """
    with elf.opened(path) as opened:
        return _read(opened, digest)


def _read(opened: Elf, digest: bool) -> Binary:
    needed, runpath = libraries(opened)
    undefined, pyinit = _symbols(opened)
    fatbins = read_fatbins(opened)
    targets, ptx = device_code(fatbins)
    return Binary(
        path=opened.path, size=len(opened.data),
        sha256=_sha256(opened) if digest else "",
        machine=opened.machine, needed=needed, runpath=runpath, undefined=undefined, pyinit=pyinit,
        targets=targets, ptx=ptx, kernels=kernels.count(fatbins),
        cuda_major=cuda_major(needed), cxx_abi=cxx_abi(undefined),
        versions=required(opened))


def _sha256(opened: Elf) -> str:
    if len(opened.data) > _LARGEST:
        raise UnreadableError(opened.path, f"it has {len(opened.data)} bytes, which no extension "
                                           "has")
    import hashlib  # late: it loads OpenSSL

    return hashlib.sha256(opened.data).hexdigest()


def libraries(opened: Elf) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The libraries that it needs, and the places where it has them looked for."""
    dynamic = opened.only("SHT_DYNAMIC")
    strings, names = opened.strings_of(dynamic), Names(opened)
    texts = [(tag, names.at(strings, at)) for tag, at in opened.tags(dynamic)
             if tag in (_DT_NEEDED, _DT_RPATH, _DT_RUNPATH)]
    needed = tuple(text for tag, text in texts if tag == _DT_NEEDED)
    return needed, tuple(
        part for tag, text in texts if tag != _DT_NEEDED for part in text.split(":"))


def cuda_major(needed: Iterable[str], libraries: re.Pattern[str] = _CUDART) -> int | None:
    """The CUDA major version, told by a library that is needed; None where none tells it."""
    return max((int(found[1]) for name in needed if (found := libraries.fullmatch(name))),
               default=None)


def _symbols(opened: Elf) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The undefined symbols that the link check asks about, and the modules of PyInit_*."""
    table = opened.only("SHT_DYNSYM")
    strings, names = opened.strings_of(table), Names(opened)
    versions = _versions(opened, table)
    undefined, pyinit = [], []
    for index, (at, info, _, section, _, _) in enumerate(symbols(opened, table)):
        if index == 0:
            continue
        if section:
            start = strings.offset + at
            if opened.data[start:start + 7] == b"PyInit_":
                pyinit.append(names.at(strings, at).removeprefix("PyInit_"))
        elif info >> 4 != _WEAK and (versions is None or versions[index] & 0x7FFF < 2):
            undefined.append(names.at(strings, at))
    return tuple(undefined), tuple(pyinit)


def symbols(opened: Elf, table: Section) -> Iterator[tuple[Any, ...]]:
    """The entries of a symbol table: name, info, other, section, value, size."""
    if table.size > MAX_SYMBOLS * _SYMBOL.size:
        raise UnreadableError(opened.path, f"it has more than {MAX_SYMBOLS} symbols")
    return _SYMBOL.iter_unpack(opened.bytes(table))


def _versions(opened: Elf, table: Section) -> memoryview | None:
    """One number per symbol: 0 local, 1 global, from 2 on a version of a library."""
    found = next((one for one in opened.sections if one.type == "SHT_GNU_versym"), None)
    if found is None:
        return None
    if found.size < table.size // _SYMBOL.size * 2:
        raise UnreadableError(opened.path, "its table of symbol versions is too short")
    return opened.bytes(found)[:found.size // 2 * 2].cast("H")


def device_code(fatbins: Iterable[Fatbin]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The targets of the machine code, and those of the PTX."""
    entries = [entry for fatbin in fatbins for entry in fatbin.entries]
    return (_in_order(one.target for one in entries if one.kind == SASS),
            _in_order(one.target for one in entries if one.kind == PTX))


def _in_order(targets: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(targets), key=arch.parse_target))


def is_torchs(symbol: str) -> bool:
    """Whether torch owns the symbol."""
    return bool(TORCH_CPP.match(symbol) or TORCH_STABLE.match(symbol))


def cxx_abi(symbols: Iterable[str]) -> str:
    """The C++ ABI that torch's functions are called with: "old", "new", or "unknown" where no
    name tells it (a library that passes no strings, or one on torch's stable C interface)."""
    return next(_abis(symbols), "unknown")


def _abis(symbols: Iterable[str]) -> Iterator[str]:
    for name in symbols:
        if TORCH_CPP.match(name):
            if _NEW_STRING.search(name):
                yield "new"
            elif _OLD_STRING.search(name):
                yield "old"
