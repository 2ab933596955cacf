"""What `apexlab inspect` tells of a shared object: the facts that decide where it can run.

Works on any library, and reads no more of it than it needs: headers and tables, not the code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apexlab.verify import binary, demangle, elf, kernels, versions
from apexlab.verify.arch import parse_target
from apexlab.verify.elf import Elf, Names
from apexlab.verify.errors import UnreadableError
from apexlab.verify.fatbin import LTO_IR, PTX, SASS, Entry, Fatbin, elsewhere, read_fatbins
from apexlab.verify.kernels import Kernels

SCHEMA = "apexlab.inspect/1"
KINDS = {SASS: "sass", PTX: "ptx", LTO_IR: "lto-ir"}

# How a library calls torch: C++ names of torch's own namespaces, or its stable C functions.
CPP, STABLE, NONE = "c++", "stable", "none"
# Libraries whose major version is CUDA's own: the runtime may be linked in, and name no version.
_CUDA = re.compile(r"lib(?:cudart|cublas|cublasLt)\.so\.(\d{1,4})")
# Device code that is not CUDA's, by the names of its sections.
_FOREIGN = re.compile(r"\.hip_fatbin|\.llvm\.offloading|__CLANG_OFFLOAD_BUNDLE__.*")


@dataclass(frozen=True)
class Code:
    """The fatbin entries of one kind, target and compression: how many, and their bytes as
    `stored` and when `unpacked`."""

    kind: str
    target: str
    compression: str
    entries: int
    stored: int
    unpacked: int


@dataclass(frozen=True)
class Anatomy:
    """One shared object. `torch` is CPP, STABLE or NONE; `symbol_versions` the oldest versions of
    GLIBC, GLIBCXX and CXXABI that do; `other_code` sections of device code that CUDA does not
    register; `kernels` None where they were not asked for."""

    path: Path
    size: int
    machine: str
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    symbol_versions: dict[str, str]
    torch: str
    cxx_abi: str
    cuda_major: int | None
    targets: tuple[str, ...]
    ptx: tuple[str, ...]
    code: tuple[Code, ...]
    other_code: tuple[str, ...]
    kernels: tuple[Kernels, ...] | None


def read(path: Path, with_kernels: bool = False) -> Anatomy:
    """The anatomy of the shared object `path`. Raises UnreadableError."""
    with elf.opened(path) as opened:
        needed, runpath = binary.libraries(opened)
        fatbins = read_fatbins(opened)
        targets, ptx = binary.device_code(fatbins)
        torch, abi = torch_link(opened)
        return Anatomy(
            path=path, size=len(opened.data), machine=opened.machine, needed=needed,
            runpath=runpath, symbol_versions=symbol_versions(opened), torch=torch, cxx_abi=abi,
            cuda_major=binary.cuda_major(needed, _CUDA), targets=targets, ptx=ptx,
            code=tuple(_code(fatbins)),
            other_code=tuple(one.name for one in opened.sections if _FOREIGN.fullmatch(one.name))
            + elsewhere(opened),
            kernels=kernels.read(fatbins) if with_kernels else None)


def torch_link(opened: Elf) -> tuple[str, str]:
    """How the library calls torch, and with which C++ ABI ("old", "new" or "unknown")."""
    table = opened.only("SHT_DYNSYM")
    strings, names = opened.strings_of(table), Names(opened)
    link = NONE
    for at, _, _, section, _, _ in binary.symbols(opened, table):
        if section or not at:
            continue
        name = names.at(strings, at)
        if binary.TORCH_CPP.match(name):
            link = CPP
            if (abi := binary.cxx_abi([name])) != "unknown":
                return CPP, abi  # the rest, which may be a million names, adds nothing
        elif link == NONE and binary.TORCH_STABLE.match(name):
            link = STABLE
    return link, "unknown"


def symbol_versions(opened: Elf) -> dict[str, str]:
    """The newest version of each of the system's interfaces that the library asks for."""
    asked = versions.required(opened)
    kinds = sorted(filter(None, {versions.kind(one) for one in asked}))
    return {kind: versions.newest(kind, asked).removeprefix(f"{kind}_") for kind in kinds}


def _code(fatbins: Iterable[Fatbin]) -> Iterator[Code]:
    groups: Counter[tuple[int, str, str]] = Counter()
    stored: Counter[tuple[int, str, str]] = Counter()
    unpacked: Counter[tuple[int, str, str]] = Counter()
    for entry in (entry for fatbin in fatbins for entry in fatbin.entries):
        key = (entry.kind, entry.target, entry.compression)
        groups[key] += 1
        stored[key] += entry.end - entry.start
        unpacked[key] += _unpacked(entry)
    order = list(KINDS)
    for key in sorted(groups, key=lambda k: (order.index(k[0]), parse_target(k[1]), k[2])):
        kind, target, compression = key
        yield Code(KINDS[kind], target, compression, groups[key], stored[key], unpacked[key])


def _unpacked(entry: Entry) -> int:
    return entry.size if entry.compression != "none" else entry.end - entry.start


def document(anatomies: Iterable[Anatomy], unreadable: Iterable[UnreadableError],
             ) -> dict[str, Any]:
    """The JSON document of schema/inspect-1.json."""
    return {
        "schema": SCHEMA,
        "files": [_file(one) for one in anatomies],
        "unreadable": [{"path": one.where, "reason": one.reason} for one in unreadable]}


def _file(one: Anatomy) -> dict[str, Any]:
    found = {**asdict(one), "path": str(one.path)}
    if one.kernels is None:
        return {**found, "kernels": None}
    readable = demangle.demangled(name for each in one.kernels for name in each.names)
    # Without all names there are none: a list that lacks some would be taken for the whole.
    return {**found, "kernels": [
        {"target": each.target, "why": each.why, "names": None if each.why else [
            {"mangled": name, "demangled": readable[name]} for name in sorted(each.names)]}
        for each in one.kernels]}
