"""What has to be said beside the figures of a scenario, in a word. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.result.counted import Row
from apexlab.bench.result.labels import STAND_IN
from apexlab.bench.result.peaks import dtype_used

LAUNCH_BOUND = 0.7  # of a step's time; below it, the GPU waits for the host
NOISY = 0.02  # interquartile range over median


@dataclass(frozen=True)
class Flag:
    """`means`: beside a figure. `warning`: of all that have it, named at {}; "" where the word
    beside the figure is enough. `another`: for which a scenario ran something else than its name
    says, so that it answers no question."""

    means: str
    warning: str = ""
    another: str = ""


# All that there is to know of each flag, for every report; in the order in which they are shown.
FLAGS = {
    "power-cap": Flag(
        "the GPU ran at its power limit",
        "The GPU ran at its power limit in: {}. Their times hold for this limit."),
    "thermal-slowdown": Flag(
        "the GPU slowed down because it was hot",
        "The GPU slowed down because it was hot, in: {}."),
    "hardware-slowdown": Flag(
        "the GPU slowed itself down", "The GPU's hardware slowed it down in: {}."),
    "contended": Flag(
        "another process used the GPU",
        "Another process used the GPU during: {}. Their times are not the GPU's alone."),
    "noisy": Flag("its block times spread by more than 2 %"),
    "not-steady": Flag("it was still changing when the warm-up reached its limit"),
    "launch-bound": Flag(
        "the GPU waited for the host more than 30 % of the time",
        "The GPU waited for the host more than 30 % of the time in: {}. Their times say more about "
        "the host than about the kernels."),
    "skipped": Flag("the scaler skipped optimizer steps; those blocks were measured again"),
    "one-round": Flag("one round gives no interval, so nothing is decided"),
    "unlooked": Flag("the look at what ran failed, so phases, kernels and parity are missing"),
    "stand-in": Flag("the stand-in ran, which is not Apex"),
    "not-proven": Flag(
        "its kernels were not proven to be Apex's",
        "Not proven to have run Apex's kernels, and so not called Apex: {}."),
    "unrecorded": Flag(
        "no build record says that the extensions, whose kernels ran, are Apex's",
        "No build record says that the extensions here are NVIDIA Apex's, so the name is withheld "
        "from: {}."),
    "uninvited": Flag(
        "kernels of Apex's extensions ran, although it asks for none",
        "Kernels of Apex's extensions ran in: {}, which ask for none. They are no baselines.",
        "asks for nothing of Apex, and ran kernels of its extensions."),
    "parity": Flag(
        "its losses leave those of FP32, so it gets no speedup",
        "The losses leave those of FP32, so no speedup is given for: {}."),
    "tf32-found": Flag(
        "FP32 products ran as TF32, whatever the settings say",
        "FP32 products ran as TF32, whatever the settings say, in: {}.",
        "ran its FP32 products as TF32."),
    "tf32-missing": Flag(
        "FP32 products ran in full precision, whatever the settings say",
        "TF32 was asked for and did not run, in: {}.", "did not run TF32."),
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


def legend(flagged: Mapping[str, Collection[str]]) -> Iterator[tuple[str, Flag, list[str]]]:
    """Each flag that something has, what there is to know of it, and the names of those that have
    it. `flagged`: by name, the flags of each."""
    for flag, about in FLAGS.items():
        if names := [name for name, had in flagged.items() if flag in had]:
            yield flag, about, names


def warned(flagged: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The sentences on those flags that have one."""
    for _, about, names in legend(flagged):
        if about.warning:
            yield about.warning.format("; ".join(names))


def another(flagged: Collection[str]) -> str:
    """What it ran in place of what its name says, or ""."""
    return next((about.another for flag, about in FLAGS.items()
                 if flag in flagged and about.another), "")
