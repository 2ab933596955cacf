"""The process that times one operation: python -m apexlab.bench.ops.worker JOB

Its answers go to a pipe of their own, one JSON document a line: {"kind": "start"} with what there
is to say of the process, {"kind": "at"} before a provider's first call, {"kind": "point"} for each
point as it finishes, and {"kind": "setting"} after those of a setting.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any, TextIO

import torch

from apexlab.bench.measure.environment import environment
from apexlab.bench.measure.launches import loaded_files
from apexlab.bench.measure.ranks import Ranks
from apexlab.bench.model.shape import Shape
from apexlab.bench.ops.cases import cases, settings
from apexlab.bench.ops.measure import Cpu, Gpu
from apexlab.bench.ops.setting import Setting
from apexlab.bench.planning.preset import Preset

COPY_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1


def main(job: dict[str, Any]) -> None:
    """The job: fd, op, preset, device, quick, rounds, seed, interposer, done (settings that an
    earlier process finished), skip ({provider: why}), lacks (why Apex cannot do it here)."""
    with suppress(OSError, AttributeError):
        # The system ends this process when its parent is gone, however that ended.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(job["fd"], "w", encoding="utf-8") as report:
        place = make_place(job["device"])
        tell(report, {"kind": "start", "environment": environment(Ranks(torch.device(
            "cuda", 0) if job["device"] == "cuda" else torch.device("cpu"))),
            "copy_gbps": place.copy_gbps(COPY_SECONDS) if isinstance(place, Gpu) else None})
        for group in settings(cases([job["op"]], preset(job["preset"]), job["device"],
                                    job["quick"]))[job["done"]:]:
            setting = Setting(group, job, place, lambda name: tell(
                report, {"kind": "at", "provider": name}))
            for point in setting.points():
                tell(report, {"kind": "point", **point, "files": loaded_files()})
            tell(report, {"kind": "setting"})
    sys.stdout.flush()
    os._exit(0)  # without destructors: those of a broken context may hang


def preset(given: dict[str, Any]) -> Preset:
    return Preset(**{**given, "shape": Shape(**given["shape"])})


def make_place(device: str) -> Gpu | Cpu:
    torch.set_float32_matmul_precision("highest")
    if device == "cpu":
        return Cpu()
    torch.cuda.set_device(0)
    return Gpu("cuda")


def tell(report: TextIO, answer: dict[str, Any]) -> None:
    report.write(json.dumps(answer) + "\n")
    report.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
