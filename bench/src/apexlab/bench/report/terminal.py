"""The summary for people: the answer first, then what it rests on, then where the report is.

Gives lines of plain text with a style for the word at their start; colours are put on only for a
terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.terminal_ops import tables
from apexlab.bench.result.advice import ABOUT_STAND_IN, told
from apexlab.bench.result.labels import point_name, provider_name
from apexlab.bench.result.warn import noise_words
from apexlab.verify.render import Line, shown

SEPARATOR = " · "
_WIDTH = 100
_STYLES = {"FAST": "bold green", "SAME": "green", "SLOW": "bold red", "UNDECIDED": "yellow",
           "untested": "yellow", "failed": "bold red", "not available": "dim", "warning": "yellow",
           "obsolete": "dim", "head": "bold"}
_WORDS = {"use": "FAST", "leave": "SLOW", "same": "SAME", "undecided": "UNDECIDED"}
_DO = {"use": "use it", "leave": "leave it out here", "same": "nothing to gain from it here",
       "undecided": "more rounds may tell"}


def summary(result: Mapping[str, Any], colour: bool | None, report: Path | None = None) -> str:
    """The whole summary. `colour` None means: as stdout is; `report`: the page that was written."""
    return shown(lines(result, report), colour, _STYLES)


def lines(result: Mapping[str, Any], report: Path | None) -> Iterator[Line]:
    yield from (Line(text, "", "head") for text in textwrap.wrap(result["headline"], _WIDTH))
    yield Line("", SEPARATOR.join(_head(result)))
    yield Line("", "")
    if result["kind"] == "train":
        yield from _answers(result)
        yield Line("", "")
        yield from _scenarios(result)
    else:
        yield from _ops(result)
    for warning in result["warnings"]:
        yield from _wrapped("warning", f"  {warning}", "warning")
    if report is not None:
        yield Line("", f"report: {report}")


def _head(result: Mapping[str, Any]) -> Iterator[str]:
    here = result["environment"]
    yield str(here.get("device") or here.get("cpu") or "unknown device")
    yield f"torch {here.get('torch') or 'unknown'}"
    yield words.apex(here.get("apex") or {})
    if result["kind"] != "train":
        found = [f"{each['op']} {noise_words(each['floor'])}"
                 for each in result.get("noise") or () if each["kind"] == "call"]
        yield f"noise of calls: {', '.join(found) or 'unknown'}"
        return
    plan, noise = result["plan"], result["noise"]
    preset, done = plan["preset"], plan["rounds_finished"]
    gpus = f"{plan['gpus']} GPUs, each " if plan["gpus"] > 1 else ""
    yield f"{preset['name']}, {gpus}{preset['batch']} x {preset['shape']['context']} tokens"
    yield (f"{done} of {plan['rounds']} rounds" if done != plan["rounds"]
           else words.plural(done, "round"))
    yield f"noise {noise_words(noise['floor'])}"


def _answers(result: Mapping[str, Any]) -> Iterator[Line]:
    known = [each for each in result["advice"] if each["evidence"]]
    width = max((len(each["part"]) for each in known), default=0)
    for each in known:
        word = _WORDS[each["verdict"]]
        figure = words.change(each["evidence"]["ratio"]).rjust(8)
        yield Line(f"{each['part']:{width}}  {figure}  {word:9}", f"  {_DO[each['verdict']]}", word)
    yield from _without_figures(result)


def _scenarios(result: Mapping[str, Any]) -> Iterator[Line]:
    """What each rests on; then those that gave nothing, with the reason."""
    timed = [each for each in result["scenarios"] if each["time"]]
    width = max((len(each["title"]) for each in timed), default=8)
    yield Line(f"{'scenario':{width}}  {'a step':>9}  {'tokens/s':>10}  {'speed':>7}  "
               f"{'peak memory':>11}", "", "head")
    for each in timed:
        speed = each["speedup"]
        figures = (f"{words.seconds(each['time']['median']):>9}  "
                   f"{words.number(each['tokens_per_second']):>10}  "
                   f"{words.ratio(speed['ratio']) if speed else '-':>7}  "
                   f"{words.gib(words.peak(each)):>11}")
        yield Line("", f"{each['title']:{width}}  {figures}  {', '.join(each['flags'])}")
    for word, titles, why in unfinished(result):
        yield from _wrapped(word, f"  {', '.join(titles)}: {why}", word)


def unfinished(result: Mapping[str, Any]) -> list[tuple[str, list[str], str]]:
    """The state, the scenarios and the reason, once for all scenarios that share both."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in result["scenarios"]:
        if each["state"] != "measured":
            word = each["state"].replace("-", " ")
            found.setdefault((word, each["why"]), []).append(each["title"])
    return [(word, titles, why) for (word, why), titles in found.items()]


def _ops(result: Mapping[str, Any]) -> Iterator[Line]:
    for each in result["advice"]:
        if each["evidence"]:  # whose figures these are stands above
            yield from _said(each["part"], each["sentence"].removesuffix(f" {ABOUT_STAND_IN}"),
                             each["verdict"])
    yield from _without_figures(result)
    yield Line("", "")
    yield from tables(result)
    for each in result["points"]:
        if each["state"] == "failed":
            yield from _wrapped("failed", f"  {point_name(each)}, {provider_name(each)}: "
                                f"{each['why']}", "failed")


def _without_figures(result: Mapping[str, Any]) -> Iterator[Line]:
    for each in told(result["advice"]):
        yield from _said(each.parts, each.sentence, each.verdict)


def _said(part: str, sentence: str, verdict: str) -> Iterator[Line]:
    """The part, in the colour of its verdict, and what is said of it."""
    mark = part if sentence.startswith(part) else ""
    return _wrapped(mark, sentence.removeprefix(mark), _WORDS.get(verdict, verdict))


def _wrapped(mark: str, text: str, style: str) -> Iterator[Line]:
    first, *rest = textwrap.wrap(f"{mark}{text}", _WIDTH, subsequent_indent="  ",
                                 break_on_hyphens=False) or [mark]
    if not first.startswith(mark):  # it is longer than a line
        mark = ""
    yield Line(mark, first.removeprefix(mark), style)
    yield from (Line("", each) for each in rest)
