"""The scenarios of a training comparison on the page: one table, and the details of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

from apexlab.bench.report import words
from apexlab.bench.report.terminal import unfinished
from apexlab.verify.html.elements import (
    Cell,
    add,
    details,
    element,
    items,
    pairs,
    section,
    table,
)

_COLUMNS = ("scenario", "time", "tokens/s", "memory", "energy/token", "MFU", "speed", "verdict",
            "proof", "parity")
_STYLES = {"FAST": "fast", "SLOW": "slow"}
_TELEMETRY = (("SM clock", "sm_clock", "MHz"), ("memory clock", "memory_clock", "MHz"),
              ("power", "power_watts", "W"), ("temperature", "temperature", "°C"))

Scenario = dict[str, Any]


def add_table(place: ET.Element, result: dict[str, Any]) -> None:
    baseline = result["plan"]["baseline"]
    add(place, "p", f"Time is the median of one iteration over all blocks; speed is against "
                    f"{baseline}. The 95 % intervals are in the chart above. Proof: whether "
                    "Apex's own kernels were seen to run. Parity: whether the loss follows "
                    f"that of {baseline}.")
    table(place, "Scenarios", _COLUMNS,
          (_row(each, baseline) for each in result["scenarios"] if each["time"]), range(1, 7))
    if rest := unfinished(result):
        items(place, (f"{word}: {', '.join(titles)}: {why}" for word, titles, why in rest))


def _row(each: Scenario, baseline: str) -> Iterator[Cell]:
    yield name(each)
    energy = each["energy"]
    yield words.seconds(each["time"]["median"])
    yield words.number(each["tokens_per_second"], digits=4)
    yield words.gib(words.peak(each))
    yield words.number(energy and 1e3 * energy["joules_per_token"], "mJ")
    yield words.percent(each["mfu"])
    yield words.ratio(each["speedup"]["ratio"]) if each["speedup"] else ""
    yield _verdict(each, baseline)
    yield (each["proof"] or {}).get("verdict", "").replace("-", " ")
    yield (each["parity"] or {}).get("verdict", "")


def name(each: Scenario) -> str:
    """What may be shown for it, with the word stand-in where its kernels ran."""
    title = str(each["title"])
    return f"{title} (stand-in)" if each["label"] == "stand-in" and "stand-in" not in title \
        else title


def _verdict(each: Scenario, baseline: str) -> Cell:
    if each["name"] == baseline:
        return "baseline"
    verdict = each["speedup"]["verdict"] if each["speedup"] else "not compared"
    return element("span", verdict, f"word {_STYLES.get(verdict, 'same')}")


def add_details(place: ET.Element, result: dict[str, Any]) -> None:
    titles = {each["name"]: each["title"] for each in result["scenarios"]}
    for each in result["scenarios"]:
        _one(details(place, f"{name(each)}: {_shows(each)}".removesuffix(": ")), each, titles)


def _shows(each: Scenario) -> str:
    """What it is there for. Of one that did not run what it was to show, what was asked for."""
    return f"asked for was {each['name']}" if "not-proven" in each["flags"] else str(each["shows"])


def _one(place: ET.Element, each: Scenario, titles: dict[str, str]) -> None:
    if each["why"]:
        add(place, "p", f"{each['state']}: {each['why']}")
    pairs(place, _facts(each, titles))
    add(place, "h3", "Settings")
    pairs(place, ((key, _value(value)) for key, value in each["settings"].items()))
    _proof(place, each["proof"])
    if each["telemetry"]:
        _telemetry(place, each)
    if each["top_kernels"]:
        add(place, "h3", "Kernels that take the most time")
        table(place, f"Kernels of {each['title']}",
              ("kernel", "launches", "time", "share", "owner"), (
                  (one["name"], str(one["count"]), words.microseconds(one["us"]),
                   words.percent(one["share"]), one["owner"] or "")
                  for one in each["top_kernels"]), range(1, 4))
    if each["warnings"]:
        add(place, "h3", "Warnings while it ran")
        items(place, each["warnings"])


def _facts(each: Scenario, titles: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What there is to say of it; an empty text is left out."""
    yield "role", each["role"] or ""
    if each["against"]:
        step = each["step"]
        told = f": {words.change(step['ratio'])} ({words.span(step)}), {step['verdict']}" \
            if step else ""
        changes = " and ".join(each["changes"]) or "nothing"
        yield "against", f"{titles[each['against']]}, which differs in {changes}{told}"
    time, parity = each["time"], each["parity"] or {}
    if time:
        yield "time", (f"median {words.seconds(time['median'])}, IQR {words.seconds(time['iqr'])}; "
                       f"mean {words.seconds(time['mean'])}, deviation "
                       f"{words.seconds(time['deviation'])}; {time['count']} blocks")
    yield "samples/s", _known(each["samples_per_second"], words.number)
    yield "memory", ", ".join(f"{key} {words.gib(value)}" for key, value in
                              (each["memory"] or {}).items() if value and key != "retries")
    yield "peak inside the optimizer", _known(each["optimizer_peak"], words.gib)
    yield "time to first step", _known(each["first_step_seconds"], words.seconds)
    yield "warm-up", _known(each["warmup_steps"], lambda steps: words.plural(steps, "step"))
    yield "GPU busy", _known(each["gpu_busy"], words.percent)
    yield "in Apex's kernels" if each["label"] == "Apex" else "in its own kernels", _known(
        each["apex_share"], words.percent)
    yield "kernels a step", _known(each["kernels_per_step"], str)
    yield "host syncs a step", _known(each["syncs"], str)
    yield "attention", ", ".join(each["attention"] or ())
    yield "norm dtypes", _value(each["norm_dtypes"] or "")
    yield "optimizer state", _value(each["optimizer_state"] or "")
    yield "waiting for data", _known(each["data_wait"], words.seconds)
    if each["mfu_peak"]:
        yield "MFU against", (f"{each['mfu_peak']['tflops']:g} TFLOP/s, {each['mfu_peak']['dtype']}"
                              f" on {each['mfu_peak']['gpu']}")
    yield "parity", f"{parity['verdict']}: {parity['why']}" if parity.get("why") else \
        parity.get("verdict", "")
    for key, text in (("gap_early", "loss gap early"), ("gap_late", "loss gap late"),
                      ("spread", "spread of seeds"), ("gradient_error", "gradient error"),
                      ("update_error", "update error")):
        yield text, _known(parity.get(key), lambda value: f"{value:.2e}")
    yield "flags", ", ".join(each["flags"])


def _known(value: Any, write: Any) -> str:
    return "" if value is None else str(write(value))


def _value(value: Any) -> str:
    """A switch or a table of few entries, in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(one)}" for key, one in value.items())
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return " ".join(map(_value, value))
    return "none" if value is None else str(value)


def _proof(place: ET.Element, proof: dict[str, Any] | None) -> None:
    add(place, "h3", "Proof")
    if not proof:
        add(place, "p", "There is none.")
        return
    add(place, "p", f"{proof['verdict']}{': ' if proof['why'] else ''}{proof['why']}")
    kernels = [(kernel["name"], str(kernel["count"]), part["part"], part["extension"] or "",
                part["instrument"] or "") for part in proof["parts"] for kernel in part["kernels"]]
    if kernels:
        table(place, "Kernels that are the proof",
              ("kernel", "launches", "part", "extension", "seen by"), kernels, (1,))


def _telemetry(place: ET.Element, each: Scenario) -> None:
    found = each["telemetry"]
    add(place, "h3", "The GPU meanwhile")
    table(place, f"Telemetry of {each['title']}", ("what", "median", "least", "most"), (
        (text, *(words.number(found[key][of], unit, 4) for of in ("median", "min", "max")))
        for text, key, unit in _TELEMETRY if found.get(key)), range(1, 4))
    throttle = ", ".join(found.get("throttle") or ()) or "none"
    energy = each["energy"]
    add(place, "p", f"Throttle reasons: {throttle}." + (
        f" Energy: {words.number(energy['joules_per_step'], 'J')} a step." if energy else ""))


def add_gpus(main: ET.Element, result: dict[str, Any]) -> None:
    """Several GPUs: how well each scenario scales. Nothing for a single one."""
    shown = [each for each in result["scenarios"] if each["gpus"]]
    if not shown:
        return
    place = section(main, "gpus", f"On {result['plan']['gpus']} GPUs")
    add(place, "p", "Efficiency is tokens/s of one GPU among several over tokens/s of one alone, "
                    "measured in the same round.")
    table(place, "GPUs", ("scenario", "tokens/s per GPU", "efficiency", "slowest rank"), (
        (name(each), words.number(each["gpus"]["per_gpu_tokens_per_second"], digits=4),
         words.percent(each["gpus"]["efficiency"]), _value(each["gpus"]["slowest_rank"]))
        for each in shown), range(1, 4))
