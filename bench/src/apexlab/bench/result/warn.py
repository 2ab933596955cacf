"""What has to be said beside the figures of a result, as sentences. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from apexlab.bench.planning.plan import SHARED_CORES, VARIABLES
from apexlab.bench.result.flags import warned
from apexlab.bench.result.labels import STAND_IN
from apexlab.bench.result.stats import astray


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
    found += warned({each["title"]: each["flags"] for each in result["scenarios"]})
    ours = {SHARED_CORES} if plan["gpus"] > 1 else set()
    return [*found, *_astray(result), *environments(rows, ours)]


def noise_words(floor: float | None) -> str:
    """How far the baseline lay from itself: `±0.4 %`."""
    if floor is None:
        return "unknown"
    return f"±{100 * floor:.1f} %" if floor < 1 else "above 100 %"


def _astray(result: Mapping[str, Any]) -> Iterator[str]:
    """Of which the two medians, side by side, say the opposite of the ratio that is judged."""
    of = {each["name"]: each for each in result["scenarios"]}
    base = of[result["plan"]["baseline"]]
    names = [each["title"] for each in result["scenarios"] if each["time"] and each["speedup"]
             and astray(base["time"]["median"], each["time"]["median"], each["speedup"])]
    if names:
        yield (f"Faster by one, slower by the other: for {'; '.join(names)}, the medians of all "
               "rounds and the ratios within rounds disagree. The ratios are judged: a machine "
               "that drifts from round to round is in the medians, and cancels out of a ratio.")


def environments(rows: Sequence[Mapping[str, Any]], ours: Collection[str] = ()) -> list[str]:
    """A run that was resumed may have gone on with another torch, or on another GPU. `ours`:
    variables that bench sets itself in this run."""
    found = []
    said = [row["result"].get("environment") or {} for row in rows if "result" in row]
    for key, what in (("torch", "versions of torch"), ("uuid", "GPUs"), ("device", "devices")):
        values = sorted({str(each[key]) for each in said if each.get(key)})
        if len(values) > 1:
            shown = "" if key == "uuid" else f": {', '.join(values)}"
            found.append(f"The run went over {len(values)} {what}{shown}. Its times do not belong "
                         "together: measure again into another folder.")
    ours = {*ours, *(name for given in VARIABLES.values() for name in given)}
    variables = sorted({name for each in said for name in each.get("variables") or ()} - ours)
    if variables:
        found.append(f"Set in the environment, and may change what torch does: "
                     f"{', '.join(variables)}.")
    return found
