"""The static judgement of each extension: what its file says, held against what was expected.

Pure but for reading the files: nothing is imported, nothing is run, nothing is printed.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from apexlab.verify import arch, extensions
from apexlab.verify.arch import Arch
from apexlab.verify.binary import Binary, cxx_abi, is_torchs, read_binary
from apexlab.verify.demangle import readable
from apexlab.verify.errors import UnreadableError
from apexlab.verify.expectations import Expectations
from apexlab.verify.findings import LOST_LATER, NOT_BUILT, finding
from apexlab.verify.found import LIBRARY, MODULE, PYTHON, Found
from apexlab.verify.link import Linked, Scope
from apexlab.verify.record import Built
from apexlab.verify.report import Finding
from apexlab.verify.site import Subject, Torch

_UNKNOWN = extensions.Extension("", "", "", "unknown", "")
_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
_TORCH_CUDA = ("libc10_cuda.so", "libtorch_cuda.so")
_TORCH_OWN = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")
_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")


@dataclass(frozen=True)
class Coverage:
    """A GPU that the device code has to run on."""

    arch: Arch
    name: str


@dataclass(frozen=True)
class Demand:
    """What the device code is held against. `built` are the record's entries and `archs` its
    list; `own` names the targets of extensions that ignore the list; with `gate` the record is
    made from this very wheel, so its entries prove nothing and the list decides."""

    archs: tuple[Arch, ...] = ()
    built: Mapping[str, Built] | None = None
    own: Mapping[str, tuple[str, ...]] | None = None
    gate: bool = False
    devices: tuple[Coverage, ...] = ()

    def targets(self, name: str) -> tuple[str, ...]:
        """The targets that the extension has to hold; empty where nothing is known."""
        if self.own and name in self.own:
            return tuple(self.own[name])
        entry = (self.built or {}).get(name)
        if entry is not None and not self.gate:
            return (*entry.targets, *entry.ptx)
        return tuple(target for one in self.archs for target in one.targets)


@dataclass(frozen=True)
class Seen:
    """What was seen of one extension; `found` None where it is absent."""

    name: str
    found: Found | None
    binary: Binary | None
    findings: tuple[Finding, ...]


def examine(subject: Subject, wanted: Expectations, demand: Demand) -> tuple[Seen, ...]:
    """Judge each extension that is expected, known, or in the record."""
    scope = Scope(subject.torch.lib, subject.python.executable) if subject.torch else None
    known = [extension.name for extension in extensions.EXTENSIONS]
    built = list(demand.built or ())
    more = list(subject.files) if subject.kind == "wheel" else []
    # What the record names with an underscore is the file that was found without it.
    names = dict.fromkeys([*wanted.why, *built, *known, *more])
    names = {name: None for name in names if "_" + name not in names}
    # What was built or installed once was lost later, and not by the build.
    once = subject.listed | frozenset(() if demand.gate else built)
    seen = tuple(_examine(subject, name, wanted, demand, scope, name in once) for name in names)
    return tuple(_flag_lost(seen, once, rebuild_line(subject)))


def _flag_lost(seen: tuple[Seen, ...], once: frozenset[str], rebuild: str) -> Iterator[Seen]:
    """Where nothing of what a flag builds is there, and something else is, the flag was lost."""
    absent: dict[str, list[str]] = {}
    there: set[str] = set()
    for one in seen:
        extension = extensions.BY_NAME.get(one.name)
        if extension is None:
            continue
        if one.found is not None or one.name in once:
            there.add(extension.flag)
        elif any(found.code == "not-installed" for found in one.findings):
            absent.setdefault(extension.flag, []).append(one.name)
    for one in seen:
        flag = next((flag for flag, names in absent.items() if one.name in names), None)
        if flag and there and flag not in there and len(absent[flag]) > 1:
            lost = finding("flag-lost", name=one.name, flag=flag, variable=f"APEX_{flag.upper()}=1",
                           rebuild=rebuild)
            yield replace(one, findings=(lost,))
        else:
            yield one


def _examine(subject: Subject, name: str, wanted: Expectations, demand: Demand,
             scope: Scope | None, once: bool) -> Seen:
    found = subject.find(name)
    extension = extensions.BY_NAME.get(name.removeprefix("_"), _UNKNOWN)
    if found is not None and found.layout == PYTHON:
        if extension.device_code == "none":
            return Seen(name, found, None, (finding("python-code", name=name),))
        found = None  # a shim without its library serves nobody
    if found is None:
        return Seen(name, None, None, tuple(_absent(subject, name, wanted, once)))
    fill = {"name": name, "rebuild": rebuild_line(subject), "python": subject.python.version}
    try:
        binary = read_binary(found.path)
    except UnreadableError as error:
        code = "wrong-file" if error.part == "file" else "unreadable-fatbin"
        return Seen(name, found, None, (finding(code, reason=error.reason, **fill),))
    if found.stem in binary.pyinit and found.layout == LIBRARY:
        found = replace(found, layout=MODULE, shim=None)
    stops = tuple(_file_findings(subject, found, binary, fill))
    findings = (
        *_recorded(binary, (demand.built or {}).get(name), fill), *stops,
        *_device_code(binary, extension, demand, fill),
        # A file for another Python or machine would only repeat its cause here.
        *(() if stops or scope is None else _link(subject, binary, scope, fill)))
    return Seen(name, found, binary, findings)


def _absent(subject: Subject, name: str, wanted: Expectations, built: bool,
            ) -> Iterator[Finding]:
    if name in wanted:
        advice = (LOST_LATER if built else NOT_BUILT).format(rebuild=rebuild_line(subject))
        yield finding("not-installed", name=name, why=wanted.why[name], advice=advice)
    elif name in extensions.OPTIONAL_WITHOUT_RECORD:
        yield finding("not-requested", name=name,
                      note="apex.optimizers.FusedAdam uses amp_C")


def _file_findings(subject: Subject, found: Found, binary: Binary, fill: dict[str, str],
                   ) -> Iterator[Finding]:
    machine = platform.machine().lower()
    own = _MACHINES.get(machine, machine)
    here = next((one for one in _MACHINES.values() if subject.platform.endswith(one)), own)
    if binary.machine != here:
        yield finding("wrong-machine", machine=binary.machine, here=here, **fill)
    elif found.layout == LIBRARY:
        # No Python imports it, so the tag in its name is no matter; but somebody has to load it.
        if found.shim is None and subject.package is not None:
            yield finding("shim-missing", file=found.path.name, **fill)
    elif found.inside:
        yield finding("misplaced", file=found.path, **fill)
    elif found.tag not in (None, subject.python.abi):
        tag = found.tag or ""
        yield finding("wrong-python-abi", tag=f"Python {tag[0]}.{tag[1:]}", file=found.path.name,
                      **fill)
    elif found.stem not in binary.pyinit:
        other = f", only PyInit_{binary.pyinit[0]}" if binary.pyinit else ""
        yield finding("not-a-module", other=other, **fill)
    elif os.path.isfile(package := found.path.parent / found.stem / "__init__.py"):  # noqa: PTH113
        yield finding("shadowed", other=package, **fill)


def _recorded(binary: Binary, entry: Built | None, fill: dict[str, str]) -> Iterator[Finding]:
    if entry is not None and entry.sha256 and entry.sha256 != binary.sha256:
        yield finding("tampered", found=binary.sha256[:12], recorded=entry.sha256[:12], **fill)


def _device_code(binary: Binary, extension: extensions.Extension, demand: Demand,
                 fill: dict[str, str]) -> Iterator[Finding]:
    name = fill["name"]
    have = (*binary.targets, *binary.ptx)
    text = spell(have)
    if extension.device_code == "none":
        return
    asked = demand.targets(name) if extension is not _UNKNOWN or not demand.gate else ()
    if not have:
        if extension is not _UNKNOWN or asked:
            yield finding("no-device-code", **fill)
        return
    if extension.device_code == "kernels" and binary.kernels == 0:
        yield finding("no-kernels", targets=text, **fill)
        return
    if missing := [target for target in asked if target not in have]:
        yield finding("fewer-architectures", missing=spell(missing), targets=text, **fill)
    if extension.device_code == "empty":
        return  # no kernel of its own, so no GPU can refuse one
    for device in demand.devices:
        how = arch.covers(have, device.arch)
        if how != "sass":
            code = "no-kernel-image" if how == "none" else "jit-only"
            yield finding(code, targets=text, device=device.name, arch=device.arch,
                          since=_since(device.arch), **fill)


def _since(device: Arch) -> str:
    """What the build needs for that GPU, where not every toolkit of the matrix will do."""
    first = arch.KNOWN.get((device.major, device.minor))
    return f", which needs CUDA {first} or later" if first and first != arch.OLDEST_CUDA else ""


def _link(subject: Subject, binary: Binary, scope: Scope, fill: dict[str, str],
          ) -> Iterator[Finding]:
    torch = subject.torch
    assert torch is not None  # noqa: S101 - a scope is made from a torch
    linked = scope.check(binary)
    fill = {**fill, "torch": torch.version}
    for library in linked.missing:
        code = _missing_code(library)
        yield finding(code, library=library, **fill)
        if code == "torch-cpu-only":
            return  # its other CUDA libraries are absent for the same reason
    for old in linked.old:
        code = "glibc-too-old" if old.version.startswith("GLIBC_") else "libstdcxx-too-old"
        yield finding(code, version=old.version, library=old.library, newest=old.newest, **fill)
    if not linked.missing and _other_cuda(binary, torch):
        yield finding("cuda-major-mismatch", built=binary.cuda_major, cuda=torch.cuda or "none",
                      **fill)
    elif linked.unreadable:
        yield finding("link-unchecked", library=linked.unreadable[0], **fill)
    elif linked.unresolved:
        yield _unresolved(linked, binary.cxx_abi, scope.cxx_abi, fill)


def _unresolved(linked: Linked, abi: str, torch_abi: str, fill: dict[str, str]) -> Finding:
    first = next((name for name in linked.unresolved if is_torchs(name)), None)
    code = "torch-abi-mismatch" if first else "undefined-symbol"
    if first and "unknown" not in (abi, torch_abi) and abi != torch_abi:
        code = "cxx-abi-mismatch"
        first = next((name for name in linked.unresolved if cxx_abi([name]) == abi), first)
    rest = len(linked.unresolved) - 1
    return finding(code, symbol=readable(first or linked.unresolved[0]), abi=abi,
                   torch_abi=torch_abi, more=f", and {rest} more" if rest else "", **fill)


def _missing_code(library: str) -> str:
    if library.startswith("libcudart.so"):
        return "cudart-missing"
    if library in _TORCH_CUDA:
        return "torch-cpu-only"
    if library in _TORCH_OWN:
        return "torch-not-imported"
    return "driver-lib-missing" if library in _DRIVER else "library-missing"


def missing_library(library: str, **fill: str) -> Finding:
    """The finding for a library that the loader does not find."""
    return finding(_missing_code(library), library=library, **fill)


def _other_cuda(binary: Binary, torch: Torch) -> bool:
    return None not in (binary.cuda_major, torch.cuda_major) and (
        binary.cuda_major != torch.cuda_major)


def spell(targets: Iterable[str]) -> str:
    """Targets for a sentence: `sm_80, sm_90 and compute_90`."""
    *rest, last = list(targets) or ["nothing"]
    return f"{', '.join(rest)} and {last}" if rest else last


def rebuild_line(subject: Subject) -> str:
    """The command that builds for the torch that is here, else for the record's."""
    version, cuda = (subject.torch.version, subject.torch.cuda) if subject.torch else (None, None)
    if version is None and subject.record:
        version, cuda = subject.record.torch.get("version"), subject.record.torch.get("cuda")
    if not version or not cuda:
        return "make image TORCH=... CUDA=..."
    minor = ".".join(version.split("+")[0].split(".")[:2])
    return f"make image TORCH={minor} CUDA={'.'.join(cuda.split('.')[:2])}"
