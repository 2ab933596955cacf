"""The end of the page: where it was measured, how, and what the figures do not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

from apexlab.bench.report import words
from apexlab.bench.result.warn import noise_words
from apexlab.verify.html.elements import add, data, items, pairs, section

_METHOD = (
    "Each scenario runs in a process of its own, once in each round, in a balanced order drawn "
    "from a seed; the baseline runs twice, which shows the noise.",
    "Blocks of iterations are timed on the host with one synchronisation around each, after a "
    "warm-up that goes on until the times agree. Nothing inside a block waits for the GPU.",
    "Scenarios are compared within a round; the ratios of the rounds are averaged geometrically, "
    "with a 95 % interval from a bootstrap over rounds and blocks.",
    "All scenarios have the same initial weights, tokens and hyperparameters. Their losses are "
    "compared with the baseline's in a run of their own; one that trains differently gets no "
    "speedup.",
    "Before the timing, a step shows which kernels run. What was not seen to run Apex's kernels "
    "does not carry its name.",
    "Clocks are recorded and never changed.",
)
_METHOD_OPS = (
    "Cold: the caches hold something else before each call. Hot: the same call again and again.",
    "Kernel time is the GPU's alone; host time is what the call keeps Python busy. A call is as "
    "slow as the slower of the two.",
    "GB/s counts the fewest bytes that the operator could move, and is compared with the copy "
    "bandwidth measured in the same run.",
)
_LIMITS = (
    "It holds for this GPU, this torch, this driver and this shape. Another model, batch or "
    "sequence length moves every ratio.",
    "Equal losses over the first steps do not prove equal training to the end.",
    "A gain over FP32 is mostly that of the number format, which PyTorch gives without Apex.",
)
_LIMITS_OPS = ("An operator's gain is not that of a training step: see the training report.",
               "It holds for this GPU, this torch and this driver.")


def in_short(result: dict[str, Any]) -> Iterator[str]:
    """Device, versions, model, rounds and noise, each in a few words."""
    here = result["environment"]
    yield from (device(result), f"torch {here['torch'] or 'unknown'}",
                words.apex(here["apex"]))
    if result["kind"] == "ops":
        if result["copy_gbps"]:
            yield f"copy {words.number(result['copy_gbps'], 'GB/s', 4)}"
        return
    plan = result["plan"]
    preset = plan["preset"]
    yield f"{preset['name']}, {preset['batch']} x {preset['shape']['context']} tokens"
    yield f"{plan['rounds_finished']} of {words.plural(plan['rounds'], 'round')}"
    if result["noise"]["low"] is not None:
        yield f"noise {noise_words(result['noise']['floor'])}"


def device(result: dict[str, Any]) -> str:
    """What it was measured on; a run of which no process came to life does not know."""
    here = result["environment"]
    return str(here["device"] or here["cpu"] or "an unknown device")


def add_about(main: ET.Element, result: dict[str, Any]) -> None:
    _environment(section(main, "environment", "Environment"), result)
    _record(section(main, "record", "Build record"), result)
    ops = result["kind"] == "ops"
    items(section(main, "method", "How it was measured"), _METHOD_OPS if ops else _METHOD)
    items(section(main, "limits", "What it does not say"), _LIMITS_OPS if ops else _LIMITS)


def _environment(place: ET.Element, result: dict[str, Any]) -> None:
    here = result["environment"]
    variables = here["variables"] or {}
    pairs(place, (
        ("device", device(result)), ("compute capability", here["capability"] or ""),
        ("GPU, hashed", here["gpu_id"] or ""), ("driver", here["driver"] or ""),
        ("torch", here["torch"] or ""), ("CUDA of torch", here["cuda"] or "none"),
        ("Python", here["python"] or ""), ("Apex", words.apex(here["apex"])),
        ("from", here["apex"]["source"] or ""), ("commit", here["apex"]["commit"] or ""),
        ("CPU", f"{here['cpu']}, {words.plural(here['cores'], 'core')}" if here["cores"] else ""),
        ("image", here["image"] or ""),
        ("variables", ", ".join(f"{key}={value}" for key, value in variables.items())
         or "none of torch's, CUDA's or NCCL's is set"),
        ("measured", result["created"]), ("apexlab", result["version"]),
        ("configuration", result["configuration_hash"]),
        ("seed", str(result["plan"]["seed"]) if "plan" in result else "")))
    data(place, "The configuration as data", result["configuration"])


def _record(place: ET.Element, result: dict[str, Any]) -> None:
    if result["record"] is None:
        add(place, "p", "There is none: this Apex, if there is one, was not built by apexlab.")
    else:
        data(place, "What was built, from what, and how", result["record"])
