"""Which folder a run is written into, and whether it may go on there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from apexlab.bench.planning.plan import Plan, differences
from apexlab.bench.run.store import ROWS, Store, is_run, read_plan
from apexlab.verify.errors import UsageError

Holds = Callable[[Path], bool]
IMAGE_PLACE, PLACE = Path("/results"), Path("results")


def place() -> Path:
    """Where runs are put when no folder is named: that of the image, else beside the user."""
    in_image = IMAGE_PLACE.is_dir() and os.access(IMAGE_PLACE, os.W_OK)
    return IMAGE_PLACE if in_image else PLACE


def find(out: Path | None, preset: str, holds: Holds = is_run) -> Path:
    """The folder of a new run; `holds`: whether one holds a run of this command. Raises UsageError
    where there is something in it already."""
    if out is None:
        return place() / f"{datetime.now():%Y-%m-%d-%H%M%S}-{preset}"
    if holds(out):
        raise UsageError(f"{out} holds a run already. Go on with it by --resume, or name another "
                         "folder.")
    if (out / ROWS).exists():
        raise UsageError(f"{out} holds other results already. Name another folder.")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file. Name a folder for the results.")
    return out


def resumed(out: Path | None, holds: Holds = is_run) -> Path:
    """The folder of the run to go on with: `out`, else the newest. Raises UsageError."""
    if out is not None:
        if not holds(out):
            raise UsageError(f"There is no run in {out} to go on with. Leave --resume out to begin "
                             "one.")
        return out
    here = place()
    runs = [folder for folder in here.iterdir() if holds(folder)] if here.is_dir() else []
    if not runs:
        raise UsageError(f"There is no run in {here} to go on with. Name its folder with --out, or "
                         "leave --resume out to begin one.")
    return max(runs, key=lambda folder: (folder / ROWS).stat().st_mtime
               if (folder / ROWS).exists() else 0.0)


def settle(plan: Plan, store: Store, resume: bool, rounds: int | None) -> Plan:
    """Write the plan, or hold it against the one that is there: only rounds may be added, by the
    number of `rounds` that was asked for. Raises UsageError."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    new = plan.document(_version(), now)
    if not resume:
        store.write_plan(new)
        return plan
    old = read_plan(store.folder)
    if differ := differences(old, new):
        raise UsageError(
            f"The run in {store.folder} measures something else than was asked for now: its "
            f"{', '.join(differ)} {'differs' if len(differ) == 1 else 'differ'}. Leave the options "
            "out, for --resume takes them from the run (where none was given, another version "
            "began it), or leave --resume out to begin another.")
    more = replace(plan, rounds=max(rounds or 1, old["rounds"]))
    store.write_plan({**old, "rounds": more.rounds})
    return more


def _version() -> str:
    try:
        return metadata.version("apexlab-bench")
    except metadata.PackageNotFoundError:
        return "not installed"  # run from its sources
