"""Which kernels one training step launches, and from which files: the proof's raw material.

A launch is {"name", "count", "file", "us"}, as verify's instruments give it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from apexlab.bench.measure.blocks import skipped
from apexlab.bench.model.graph import EAGER_STEPS
from apexlab.bench.model.settings import Settings
from apexlab.verify.extensions import KNOWN_NAMES
from apexlab.verify.found import extension_of
from apexlab.verify.prove.instruments import Instruments, Seen, controls

INTERPOSER, PROFILER = "interposer", "profiler"
ATTEMPTS = 20  # a scaler starts at 2**16 and halves; one that needs more trains nothing
Result = TypeVar("Result")
Scale = Callable[[], dict[str, Any]]


def steps_before(settings: Settings) -> int:
    """How many steps come before the one to watch. The first makes state and compiles; a CUDA
    graph is watched while it is captured, for a replay launches what was captured, and the
    interposer sees it only then."""
    return EAGER_STEPS if settings.graph else 1


def watch_step(run: Callable[[], Any], interposer: str | None, device: Any, scale: Scale = dict,
               ) -> dict[str, Any]:
    """Runs one step and gives {"instrument", "controls", "step"}, for a process that is timed
    afterwards: the profiler, whose start takes seconds, works only where the interposer does not.

    `controls` are the instrument's, before and after; "instrument" None means that nothing saw.
    `scale`: as for `until_whole`.
    """
    place = torch.device(device)
    if place.type != "cuda":
        return unwatched(run, scale)
    tools = Instruments(torch, interposer, profiler=False)
    before = controls(tools, place)
    if not all(control[INTERPOSER] for control in before.values()):
        tools = Instruments(torch, interposer)
        before = controls(tools, place)
    seen = until_whole(lambda: watched(tools, place, run), scale)
    return told(seen, [before, controls(tools, place)])


def unwatched(run: Callable[[], Any], scale: Scale) -> dict[str, Any]:
    """The same steps where nobody looks: all ranks have to run equally many."""
    until_whole(run, scale)
    return nothing_seen()


def watched(tools: Instruments, device: torch.device, run: Callable[[], Any]) -> Seen:
    with tools.watch(device) as seen:
        run()
    return seen


def until_whole(once: Callable[[], Result], scale: Scale) -> Result:
    """What `once`, which runs a step, gives for the first one that the scaler did not cut short:
    while it looks for its scale, it leaves the optimizer out, whose kernels are to be seen.

    `scale`: gives the scaler's state (see blocks.Training); empty without one.
    """
    for _ in range(ATTEMPTS):
        before = scale()
        result = once()
        if not skipped(before, scale(), 1):
            break
    return result


def told(seen: Any, checks: list[dict[str, Any]]) -> dict[str, Any]:
    """What was seen by the better instrument: the interposer, which knows files, if its controls
    came through, else the profiler."""
    views = {INTERPOSER: seen.interposer, PROFILER: seen.profiler}
    for instrument, step in views.items():
        if step is not None and all(
                control[instrument] for check in checks for control in check.values()):
            return {"instrument": instrument, "controls": checks, "step": step}
    return {**nothing_seen(), "controls": checks}


def nothing_seen() -> dict[str, Any]:
    return {"instrument": None, "controls": [], "step": []}


def loaded_files() -> dict[str, str]:
    """The files of Apex's extensions in this process, by extension: modules, and the libraries
    that torch was asked to load."""
    found = {name: getattr(sys.modules.get(name), "__file__", None) for name in KNOWN_NAMES}
    for file in torch.ops.loaded_libraries:
        if (name := extension_of(os.path.basename(file))) in KNOWN_NAMES:  # noqa: PTH119
            found[str(name)] = file
    return {name: os.path.realpath(file) for name, file in found.items() if file}
