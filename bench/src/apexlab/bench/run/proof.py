"""Whose kernels a process ran: from its launches to a proof that may carry Apex's name. Pure.

A compiled scenario is watched after it compiled. A CUDA graph is watched while it is captured: what
is launched then is what every replay repeats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.run.apex import NEEDED, Subject
from apexlab.verify import attribute
from apexlab.verify.attribute import INTERPOSER, PROFILER, Registered
from apexlab.verify.report import Kernel

PROVEN, NOT_PROVEN, BLIND, NOT_NEEDED = "proven", "not-proven", "blind", "not-needed"
TORCH, TRITON = "torch", "triton"
_TRITON = "triton_"  # what torch.compile calls the kernels that it makes
Result = Mapping[str, Any]


def judge(scenario: Scenario, result: Result, subject: Subject) -> dict[str, Any]:
    """The proof of one process: {"verdict", "why", "parts"}. `result` is its answer; one that did
    not finish proves nothing."""
    return proof(scenario, result, subject.registered)


def proof(scenario: Scenario, result: Result, registered: Registered) -> dict[str, Any]:
    """`judge`, from the kernels that the binaries register."""
    seen = _Seen(result, registered)
    if not scenario.apex:
        return {"verdict": NOT_NEEDED, "why": _uninvited(seen), "parts": []}
    judged = [_part(part, NEEDED[part], seen) for part in scenario.apex]
    worst = next(verdict for verdict in (NOT_PROVEN, BLIND, PROVEN)
                 if any(one[0] == verdict for one in judged))
    why = "; ".join(text for verdict, text, _ in judged if verdict == worst)
    if worst == PROVEN and scenario.settings.graph:
        why += ", in the step that was captured and is replayed"
    return {"verdict": worst, "why": f"{why}.", "parts": [part for _, _, part in judged]}


class _Seen:
    """What the instruments of one process saw, as verify takes it."""

    def __init__(self, result: Result, registered: Registered) -> None:
        launches = result.get("launches") or {}
        self.registered, self.files = registered, result.get("files") or {}
        views = {PROFILER: result.get("kernels") or None}  # a look's alone
        if launches.get("instrument"):
            views[launches["instrument"]] = launches["step"]
        self.views = views
        checks = list(launches.get("controls") or ())
        self.working = frozenset.intersection(
            *(attribute.working(check, registered) for check in checks)) if checks \
            else frozenset[str]()

    def kernels(self, extension: str) -> tuple[Kernel, ...] | None:
        return attribute.kernels(extension, self.views, self.registered, self.working)

    def own(self, extension: str) -> tuple[Kernel, ...]:
        return tuple(one for one in self.kernels(extension) or () if one.in_extension)

    def instrument(self, extension: str) -> str | None:
        """The one that told: the interposer where it sees this extension."""
        usable = [one for one in (INTERPOSER, PROFILER)
                  if one in self.working and self.views.get(one) is not None]
        if extension not in self.registered.dynamic:
            usable = [one for one in usable if one != INTERPOSER]
        return usable[0] if usable else None

    def elsewhere(self, extension: str) -> str:
        """The file that was loaded in place of the one that was read; "" if it is that one."""
        loaded = self.files.get(extension)
        return "" if loaded == self.registered.paths[extension] else str(loaded or "none")


def _part(part: str, extension: str, seen: _Seen) -> tuple[str, str, dict[str, Any]]:
    """(verdict, why, the part's entry)."""
    known = extension in seen.registered.paths
    kernels = seen.kernels(extension) if known else ()
    own = [one for one in kernels or () if one.in_extension]
    entry: dict[str, Any] = {"part": part, "extension": extension, "kernels": [],
                             "instrument": seen.instrument(extension)}
    if not known:
        return NOT_PROVEN, f"the {part} needs {extension}, of which there is no file here", entry
    if kernels is None:
        return BLIND, f"no instrument here sees which kernels of {extension} ran", entry
    if not own:
        return NOT_PROVEN, f"the {part} ran none of {extension}'s kernels", entry
    if other := seen.elsewhere(extension):
        return NOT_PROVEN, (f"the file of {extension} that was read is "
                            f"{seen.registered.paths[extension]}, and what the {part} loaded is "
                            f"{other}"), entry
    entry["kernels"] = [{"name": one.name, "count": one.count} for one in own]
    return PROVEN, f"the {part} launched {_times(own)} of {extension}", entry


def _times(kernels: Iterable[Kernel]) -> str:
    count = sum(one.count for one in kernels)
    return f"{count} kernel{'' if count == 1 else 's'}"


def _uninvited(seen: _Seen) -> str:
    """What of Apex ran in a scenario that asks for none of it; "" for nothing."""
    ran = [f"{_times(own)} of {name}" for name in sorted(seen.registered.names)
           if (own := seen.own(name))]
    return f"No part of Apex was asked for, and {', '.join(ran)} ran." if ran else ""


def of_part(part: str, extension: str, result: Result, registered: Registered) -> dict[str, Any]:
    """The proof of a process that was watched in one call alone, of this part."""
    verdict, why, entry = _part(part, extension, _Seen(result, registered))
    return {"verdict": verdict, "why": f"{why}.", "parts": [entry]}


def _time(kernel: Mapping[str, Any]) -> float:
    return -float(kernel["us"] or 0.0)


def owners(result: Result, registered: Registered) -> list[dict[str, Any]]:
    """The kernels of a look's step with their owners: {"name", "count", "us", "share", "owner"},
    the longest first. `owner`: an extension of Apex, "torch", "triton" (made by torch.compile), or
    None for other libraries', such as cuBLAS's."""
    seen = _Seen(result, registered)
    # Where only the profiler sees, two extensions may own a name: the step's own is last, and wins.
    owned = {kernel.name: extension
             for extension in sorted(registered.names, key=lambda one: one in NEEDED.values())
             for kernel in seen.own(extension)}
    kernels = sorted(result.get("kernels") or (), key=_time)
    total = math.fsum(one["us"] or 0.0 for one in kernels)
    return [{"name": one["name"], "count": one["count"], "us": one["us"],
             "share": (one["us"] or 0.0) / total if total else None,
             "owner": owned.get(one["name"]) or _other(one["name"], registered)}
            for one in kernels]


def _other(name: str, registered: Registered) -> str | None:
    if name.startswith(_TRITON):
        return TRITON
    return TORCH if name in registered.torch else None


def apex_share(result: Result, registered: Registered) -> float | None:
    """The share of a look's GPU time in kernels of Apex's extensions; None where it is not known:
    no kernel was timed, or no instrument tells whose they were."""
    kernels = owners(result, registered)
    seen = _Seen(result, registered)
    if not any(one["share"] for one in kernels) or not seen.working:
        return None
    return math.fsum(one["share"] for one in kernels
                     if one["owner"] in registered.names)
