"""What has to be said beside the figures of a scenario, in a word. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.result.counted import Row
from apexlab.bench.result.labels import STAND_IN
from apexlab.bench.result.peaks import dtype_used

LAUNCH_BOUND = 0.7  # of a step's time; below it, the GPU waits for the host
NOISY = 0.02  # interquartile range over median
# What a flag means, for every report.
FLAGS = {
    "power-cap": "the GPU ran at its power limit",
    "thermal-slowdown": "the GPU slowed down because it was hot, in every try",
    "hardware-slowdown": "the GPU slowed itself down, in every try",
    "contended": "another process used the GPU",
    "noisy": "its block times spread by more than 2 %",
    "not-steady": "it was still changing when the warm-up reached its limit",
    "launch-bound": "the GPU waited for the host more than 30 % of the time",
    "skipped": "the scaler skipped optimizer steps; those blocks were measured again",
    "one-round": "one round gives no interval, so nothing is decided",
    "unlooked": "the look at what ran failed, so phases, kernels and parity are missing",
    "stand-in": "the stand-in ran, which is not Apex",
    "not-proven": "its kernels were not proven to be Apex's",
    "unrecorded": "no build record says that the extensions, whose kernels ran, are Apex's",
    "uninvited": "kernels of Apex's extensions ran, although it asks for none",
    "parity": "its losses leave those of FP32, so it gets no speedup",
    "tf32-found": "FP32 products ran as TF32, whatever the settings say",
    "tf32-missing": "FP32 products ran in full precision, whatever the settings say",
}


def flags(scenario: Scenario, found: Row, rows: Sequence[Row], look: Row | None,
          here: str | None, rounds: int) -> list[str]:
    """In the order of the table. `found`: what is said of the scenario; `rows`: the runs that its
    times are from; `here`: the label of what is installed as Apex; `rounds`: how many count."""
    time, proof, precision = found["time"], found["proof"], scenario.settings.precision
    results = [row["result"] for row in rows]
    used = dtype_used(precision, look["product_error"]) if look and "product_error" in look \
        else None
    holds = {
        "noisy": bool(time) and time["iqr"] > NOISY * time["median"],
        "not-steady": any(each.get("steady") is False for each in results),
        "launch-bound": found["gpu_busy"] is not None and found["gpu_busy"] < LAUNCH_BOUND,
        "skipped": any(each.get("skipped") or each.get("void_blocks") for each in results),
        "one-round": bool(rows) and rounds == 1,
        "unlooked": bool(rows) and look is None,
        "stand-in": bool(scenario.apex) and here == STAND_IN,
        "not-proven": bool(rows and scenario.apex) and proof["verdict"] != "proven",
        "unrecorded": bool(rows) and proof["verdict"] == "proven" and found["label"] is None,
        "uninvited": not scenario.apex and bool(proof["why"]),
        "parity": found["parity"]["verdict"] == "fail",
        "tf32-found": precision == "fp32" and used == "tf32",
        "tf32-missing": precision == "tf32" and used == "fp32",
    }
    causes = {cause for row in rows for cause in row["causes"]}
    return [flag for flag in FLAGS if flag in causes or holds.get(flag)]
