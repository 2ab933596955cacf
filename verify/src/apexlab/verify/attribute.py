"""Whose kernels ran: from what the instruments saw to the kernels of one extension. Pure.

Two instruments: the profiler knows the name of each kernel that ran on the GPU, the interposer the
file that registered each kernel that was launched. A name can be registered by several binaries,
so the file decides where there is one. Where the two contradict each other, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apexlab.verify.report import Kernel

PROFILER, INTERPOSER = "profiler", "interposer"
CONTROLS = ("add", "layer_norm")  # what torch itself surely runs on the GPU

Launch = Mapping[str, Any]  # name, count, file (interposer only), us (profiler only)


@dataclass(frozen=True)
class Registered:
    """The kernels that binaries register, by their demangled names.

    `names` by extension; one whose binary cannot be read has only its `paths` entry, the resolved
    path. `dynamic`: the extensions with a shared CUDA runtime, where the interposer sees launches.
    `torch`: all names that torch's libraries may register, and maybe more.
    """

    names: Mapping[str, frozenset[str]]
    paths: Mapping[str, str]
    dynamic: frozenset[str]
    torch: frozenset[str]

    def own(self, extension: str, launch: Launch) -> bool:
        """Whether the launch is of the extension, as far as its name tells: no kernel of torch may
        have the same."""
        name = launch["name"]
        return name in self.names.get(extension, ()) and name not in self.torch


def working(controls: Mapping[str, Any], registered: Registered) -> frozenset[str]:
    """The instruments that saw what torch ran for the controls, and took none of it for an
    extension's."""
    return frozenset(
        instrument for instrument in (PROFILER, INTERPOSER)
        if all(_is_torch(controls[control].get(instrument), registered) for control in CONTROLS))


def _is_torch(launches: Iterable[Launch] | None, registered: Registered) -> bool:
    launches = list(launches or ())
    files = set(registered.paths.values())
    theirs = any(
        launch.get("file") in files or any(registered.own(one, launch) for one in registered.names)
        for launch in launches)
    return not theirs and any(launch["name"] in registered.torch for launch in launches)


def kernels(extension: str, phase: Mapping[str, Any], registered: Registered,
            working: frozenset[str]) -> tuple[Kernel, ...] | None:
    """The kernels that ran in one phase, and which of them are the extension's. None: it cannot be
    told, since no working instrument can see this extension's, or the two contradict each other.
    """
    profiled = phase.get(PROFILER) if PROFILER in working else None
    launched = phase.get(INTERPOSER) if INTERPOSER in working else None
    if extension not in registered.dynamic:
        launched = None
    if launched is not None:
        found = _by_file(extension, launched, registered)
        if profiled is not None and _contradict(extension, found, launched, profiled, registered):
            return None
        return (*found, *_launched_elsewhere(extension, launched, profiled or (), registered))
    if profiled is None or extension not in registered.names:
        return None
    return _by_name(extension, profiled, registered)


def _by_file(extension: str, launches: Iterable[Launch], registered: Registered,
             ) -> tuple[Kernel, ...]:
    """The interposer's view. A launch without a certain file is judged by its name."""
    path = registered.paths.get(extension)

    def own(launch: Launch) -> bool:
        file = launch.get("file")
        return file == path if file else registered.own(extension, launch)

    return _summed(extension, registered, ((launch, own(launch)) for launch in launches))


def _launched_elsewhere(extension: str, launched: Iterable[Launch], profiled: Iterable[Launch],
                        registered: Registered) -> tuple[Kernel, ...]:
    """What only the profiler sees: Triton's kernels, cuBLAS's, and others that go past the CUDA
    runtime of the process."""
    known = {launch["name"] for launch in launched}
    return _summed(extension, registered, (
        (launch, False) for launch in profiled if launch["name"] not in known))


def _by_name(extension: str, launches: Iterable[Launch], registered: Registered,
             ) -> tuple[Kernel, ...] | None:
    """The profiler's view. None where all that may be the extension's may be torch's as well."""
    launches = list(launches)
    possible = [one for one in launches if one["name"] in registered.names[extension]]
    if possible and not any(registered.own(extension, launch) for launch in possible):
        return None
    return _summed(extension, registered, (
        (launch, registered.own(extension, launch)) for launch in launches))


def _summed(extension: str, registered: Registered, judged: Iterable[tuple[Launch, bool]],
            ) -> tuple[Kernel, ...]:
    counts: dict[tuple[str, bool], int] = {}
    for launch, own in judged:
        key = (str(launch["name"]), own)
        counts[key] = counts.get(key, 0) + int(launch["count"])
    return tuple(
        Kernel(name, count, own, tuple(_others(extension, name, registered)) if own else ())
        for (name, own), count in counts.items() if count)


def _others(extension: str, name: str, registered: Registered) -> Iterator[str]:
    return (other for other in sorted(registered.names)
            if other != extension and name in registered.names[other])


def _contradict(extension: str, found: Iterable[Kernel], launched: Iterable[Launch],
                profiled: Iterable[Launch], registered: Registered) -> bool:
    """Whether one instrument saw kernels of the extension of which the other saw none."""
    ran = {launch["name"] for launch in profiled}
    own = {kernel.name for kernel in found if kernel.in_extension}
    if own and not own & ran:
        return True
    # A kernel of that name from another file is no contradiction: the file tells them apart.
    known = {launch["name"] for launch in launched}
    return any(registered.own(extension, launch) and launch["name"] not in known
               for launch in profiled)
