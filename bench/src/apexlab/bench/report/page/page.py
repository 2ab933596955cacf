"""The report as one HTML page that needs no network and no script. Pure."""

from __future__ import annotations

from importlib import resources
from typing import Any
from xml.etree import ElementTree as ET

from apexlab.bench.report import words
from apexlab.bench.report.page import about, ops_page, scenarios
from apexlab.bench.report.page.charts import charts
from apexlab.bench.report.page.figure import add_chart
from apexlab.bench.result.advice import ABOUT_STAND_IN
from apexlab.bench.result.flags import legend
from apexlab.verify.html.document import document
from apexlab.verify.html.elements import add, details, items, section

STAND_IN = ("These figures are those of a stand-in, made for tests, that has the interface of Apex "
            "and none of its code. They show that this report works, and say nothing about Apex.")
# Each verdict with the words over its group and its colour, what to do first.
_ADVICE = {
    "use": ("Use it", "fast"), "leave": ("Leave it out: it is slower", "slow"),
    "same": ("No difference", "same"), "undecided": ("Undecided", "same"),
    "untested": ("Untested", "same"), "obsolete": ("Obsolete", "slow"),
}  # fmt: skip
_BEFORE = ("use it: ", "leave it out: ", "no difference: ", "undecided: ", "untested: ",
           "untested, for ")
_AFTER = (" on this GPU, with this torch, at this shape", " on this CPU, with this torch, at this "
          "shape", f" {ABOUT_STAND_IN}")
_KINDS = {"train": "Transformer training", "ops": "Single operations"}
_NOISE = {
    "quiet": "The machine was quiet: two runs of the same scenario agree.",
    "noisy": "The machine was noisy: two runs of the same scenario differ by more than 1 %, so "
             "small differences below stay undecided.",
    "biased": "Two runs of the same scenario do not agree: something other than the scenarios "
              "changed the times. Measure again before you act on small differences.",
    "unknown": "How noisy the machine was is not known: that takes two rounds.",
}
_PARTIAL = ("This run is not complete: it was stopped, or is still going on. `apexlab bench train "
            "--resume` goes on with it.")


def page(result: dict[str, Any]) -> str:
    """The whole page, of a result of either kind."""
    body = ET.Element("body")
    main = add(body, "main")
    _answer(main, result)
    if result["kind"] == "ops":
        ops_page.add_ops(main, result, stand_in(result))
    else:
        _train(main, result)
    about.add_about(main, result)
    add(body, "footer", "Written by apexlab bench. result.json beside this page has all of it as "
                        "data, runs.jsonl every single sample.")
    css = resources.files("apexlab.bench.report.page") / "page.css"
    return document(f"apexlab bench: {subject(result)}", body, css.read_text(encoding="utf-8"))


def stand_in(result: dict[str, Any]) -> bool:
    """Whether kernels of the stand-in may be in it."""
    return bool(result["environment"]["apex"]["label"] == "stand-in")


def subject(result: dict[str, Any]) -> str:
    """`NVIDIA H200, torch 2.11.0+cu130`"""
    return f"{about.device(result)}, torch {result['environment']['torch'] or 'unknown'}"


def _answer(main: ET.Element, result: dict[str, Any]) -> None:
    """What a reader came for, before anything else."""
    place = add(main, "header")
    if stand_in(result):
        add(place, "p", STAND_IN, "banner", role="note")
    if result["state"] == "partial":
        add(place, "p", _PARTIAL, "banner", role="note")
    add(place, "h1", f"{_KINDS[result['kind']]} on {subject(result)}")
    add(place, "p", result["headline"], "lead")
    add(place, "p", " · ".join(about.in_short(result)), "short")
    _advice(place, result)


def _advice(place: ET.Element, result: dict[str, Any]) -> None:
    """The parts, grouped by what to do about them."""
    if not result["advice"]:
        return
    add(place, "h2", f"On this {'GPU' if result['environment']['capability'] else 'machine'}, with "
                     "this torch")
    groups = add(place, "div", style="advice")
    for verdict, (title, style) in _ADVICE.items():
        found = [each for each in result["advice"] if each["verdict"] == verdict]
        if not found:
            continue
        group = add(groups, "div", style=style)
        add(group, "h3", title)
        list_ = add(group, "ul")
        for each in found:
            item = add(list_, "li")
            add(item, "strong", each["part"])
            add(item, "span", f": {_said(each, result)}")


def _said(each: dict[str, Any], result: dict[str, Any]) -> str:
    """The sentence without what is said once for all: the part and the verdict, before it, and
    where it holds, in the headings."""
    text = str(each["sentence"])
    for before in (f"{each['part']}: ", *_BEFORE):
        text = text.removeprefix(before)
    for after in (*_AFTER, f" This holds for {subject(result)}."):
        text = text.replace(after, "")
    return text


def _train(main: ET.Element, result: dict[str, Any]) -> None:
    drawn = charts(result)

    def show(place: ET.Element, *names: str) -> None:
        for name in names:
            if name in drawn:
                add_chart(place, drawn[name], stand_in(result))
        if not drawn.keys() & set(names):
            add(place, "p", "There is nothing to draw: that takes figures of two scenarios or "
                            "rounds.")

    _noise(main, result)
    show(add(section(main, "ladder", "How fast"), "div", style="charts"), "ladder", "parts")
    scenarios.add_table(section(main, "scenarios", "Scenarios"), result)
    costs = section(main, "costs", "Memory, phases and loss")
    show(add(costs, "div", style="charts"), "memory", "phases")
    show(costs, "losses")
    scenarios.add_details(section(main, "details", "Each scenario"), result)
    show(section(main, "rounds", "Raw rounds"), "rounds")
    scenarios.add_gpus(main, result)


def _noise(main: ET.Element, result: dict[str, Any]) -> None:
    place = section(main, "noise", "Noise and warnings")
    found = result["noise"]
    text = _NOISE[found["noise"]]
    if found["ratio"] is not None and found["low"] is not None:
        text += (f" The baseline against itself: {words.ratio(found['ratio'])}, 95 % interval "
                 f"{words.span(found)}; the noise floor is {words.percent(found['floor'], 2)}.")
    add(place, "p", text)
    if result["warnings"]:
        items(place, result["warnings"])
    flags = list(legend({each["title"]: each["flags"] for each in result["scenarios"]}))
    if flags:
        items(details(place, "Flags of the scenarios"), (
            f"{flag} ({known.means}): {', '.join(names)}" for flag, known, names in flags))
    elif not result["warnings"]:
        add(place, "p", "No warning, and no scenario is flagged.")
