"""The anatomy of a shared object for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import click

from apexlab.verify import demangle
from apexlab.verify.anatomy import CPP, STABLE, Anatomy, Code
from apexlab.verify.render import printable

_KINDS = {"sass": "machine code", "ptx": "PTX", "lto-ir": "LTO-IR"}
_LABEL = 17


def text(one: Anatomy, bold: bool) -> str:
    """All about one file, under its path."""
    title = printable(str(one.path))
    head = click.style(title, bold=True) if bold else title
    return "".join(f"{line}\n" for line in (head, *_lines(one)))


def _lines(one: Anatomy) -> Iterator[str]:
    for label, text in _facts(one):
        yield f"  {label:{_LABEL}}{printable(text)}"
    if one.code:
        yield from _table(one.code)
    if one.kernels is not None:
        yield from _kernels(one)


def _facts(one: Anatomy) -> Iterator[tuple[str, str]]:
    yield "file", f"{_size(one.size)}, {one.machine}"
    yield "machine code", " ".join(one.targets) or "none for CUDA"
    yield "PTX", " ".join(one.ptx) or "none"
    if one.other_code:
        yield "other code", f"{' '.join(one.other_code)} (not looked into)"
    yield "CUDA", str(one.cuda_major) if one.cuda_major else "not told by the libraries it needs"
    yield "torch", _torch(one)
    yield "needs", " ".join(one.needed) or "nothing"
    if one.runpath:
        yield "looks in", " ".join(one.runpath)
    yield "symbol versions", " ".join(
        f"{name} {version}" for name, version in one.symbol_versions.items()) or "none"


def _torch(one: Anatomy) -> str:
    if one.torch == STABLE:
        return "by its stable C interface"
    if one.torch != CPP:
        return "not called"
    abi = {"unknown": "C++ ABI not told by the names"}.get(one.cxx_abi, f"{one.cxx_abi} C++ ABI")
    return f"by its C++ interface, {abi}"


def _table(code: tuple[Code, ...]) -> Iterator[str]:
    yield (f"  {'entries':{_LABEL}}{'target':14}{'compression':13}{'number':>7}{'stored':>12}"
           f"{'unpacked':>12}")
    for one in code:
        yield (f"    {_KINDS[one.kind]:{_LABEL - 2}}{one.target:14}{one.compression:13}"
               f"{one.entries:7}{_size(one.stored):>12}{_size(one.unpacked):>12}")


def _kernels(one: Anatomy) -> Iterator[str]:
    groups: dict[tuple[frozenset[str], str | None], list[str]] = {}
    for each in one.kernels or ():
        groups.setdefault((each.names, each.why), []).append(each.target)
    if not groups:
        yield f"  {'kernels':{_LABEL}}none"
    readable = demangle.demangled(name for names, _ in groups for name in names)
    for (names, why), targets in groups.items():
        counted = f"at least {len(names)}: {why}" if why else str(len(names))
        yield f"  {'kernels':{_LABEL}}{' '.join(targets)}: {printable(counted)}"
        yield from sorted(f"    {printable(readable[name])}" for name in names)


def _size(count: int) -> str:
    if count < 100_000:
        return f"{count} B"
    return f"{count / 1e6:.1f} MB"
