"""What has to be said beside the figures of a result, as sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apexlab.bench.planning.plan import VARIABLES
from apexlab.bench.result.labels import STAND_IN

_SAID = {
    "power-cap": "The GPU ran at its power limit in: {}. Their times hold for this limit.",
    "thermal-slowdown": "The GPU was too hot in every try of: {}.",
    "hardware-slowdown": "The GPU slowed itself down in every try of: {}.",
    "contended": "Another process used the GPU during: {}. Their times are not the GPU's alone.",
    "not-proven": "Not proven to have run Apex's kernels, and so not called Apex: {}.",
    "unrecorded": "No build record says that the extensions here are NVIDIA Apex's, so the name is "
                  "withheld from: {}.",
    "uninvited": "Kernels of Apex's extensions ran in: {}, which ask for none. They are no "
                 "baselines.",
    "parity": "The losses leave those of FP32, so no speedup is given for: {}.",
    "tf32-found": "FP32 products ran as TF32, whatever the settings say, in: {}.",
    "tf32-missing": "TF32 was asked for and did not run, in: {}.",
    "launch-bound": "The GPU waited for the host more than 30 % of the time in: {}. Their times "
                    "say more about the host than about the kernels.",
}


def warnings(result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The gravest first."""
    plan, noise = result["plan"], result["noise"]
    found = []
    if result["environment"]["apex"]["label"] == STAND_IN:
        found.append("The stand-in is installed in place of Apex: it has the same interface and "
                     "other code, so nothing here says anything about Apex.")
    if result["state"] == "partial":
        found.append(f"{plan['rounds_finished']} of {plan['rounds']} rounds were finished. "
                     "`--resume` goes on with the run.")
    timed = [each["title"] for each in result["scenarios"] if each["time"]]
    if plan["device"] == "cpu" and len(timed) == 1:
        found.append(f"Of this run, only {timed[0]} can be measured on a CPU, so nothing is "
                     "compared. `apexlab bench train --device cpu --ladder modern` compares what "
                     "PyTorch has for a CPU.")
    if plan["rounds_finished"] == 1:
        found.append("One round gives no interval, so nothing is called faster or slower. Ask for "
                     "two rounds or more.")
    if noise["noise"] == "biased":
        found.append("The baseline differs from itself by more than chance explains: something "
                     "changed between the runs of a round. Its noise is "
                     f"{noise_words(noise['floor'])}; nothing within that is called a difference.")
    if noise["noise"] == "noisy":
        found.append(f"The baseline's runs differ by chance. Their noise is "
                     f"{noise_words(noise['floor'])}; nothing within that is called a difference.")
    for flag, text in _SAID.items():
        if names := [each["title"] for each in result["scenarios"] if flag in each["flags"]]:
            found.append(text.format("; ".join(names)))
    return [*found, *_environments(rows)]


def noise_words(floor: float | None) -> str:
    """How far the baseline lay from itself: `±0.4 %`."""
    if floor is None:
        return "unknown"
    return f"±{100 * floor:.1f} %" if floor < 1 else "above 100 %"


def _environments(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A run that was resumed may have gone on with another torch, or on another GPU."""
    found = []
    said = [row["result"].get("environment") or {} for row in rows if "result" in row]
    for key, what in (("torch", "versions of torch"), ("uuid", "GPUs"), ("device", "devices")):
        values = sorted({str(each[key]) for each in said if each.get(key)})
        if len(values) > 1:
            shown = "" if key == "uuid" else f": {', '.join(values)}"
            found.append(f"The run went over {len(values)} {what}{shown}. Its times do not belong "
                         "together: measure again into another folder.")
    ours = {name for given in VARIABLES.values() for name in given}  # bench sets them itself
    variables = sorted({name for each in said for name in each.get("variables") or ()} - ours)
    if variables:
        found.append(f"Set in the environment, and may change what torch does: "
                     f"{', '.join(variables)}.")
    return found
