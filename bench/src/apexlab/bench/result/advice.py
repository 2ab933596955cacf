"""What follows from the figures: which parts to use, and the sentence at the top. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apexlab.bench.result import ratios
from apexlab.bench.result.flags import another
from apexlab.bench.result.labels import STAND_IN, relabelled
from apexlab.bench.result.questions import QUESTIONS, Question
from apexlab.bench.result.stats import Comparison

Entry = Mapping[str, Any]
Speed = Callable[[str, str], Comparison | None]  # base, new: above 1 the new one is faster
_VERDICTS = {"FAST": "use", "SLOW": "leave", "SAME": "same", "UNDECIDED": "undecided"}
ABOUT_STAND_IN = "This is the stand-in, and says nothing about Apex."
_MOST, _MOST_OF_APEX = 6, 3  # parts that the headline names
_NOT_ASKED = "not asked in this run; `apexlab bench train --ladder modern` compares"
OBSOLETE = {
    "part": "apex.amp", "verdict": "obsolete", "evidence": None,
    "sentence": "apex.amp is obsolete, and newer Apex no longer has it: use torch.amp."}


@dataclass(frozen=True)
class Answer:
    """`said`: the part of the result; `question`: what was asked."""

    question: Question
    said: dict[str, Any]


def answers(result: Entry, speed: Speed) -> list[Answer]:
    """An answer to each question that this run asked, and to those that everybody has."""
    found = []
    for question in QUESTIONS:
        if said := _answer(question, result, speed):
            found.append(Answer(question, said))
    return found


def advice(found: Sequence[Answer]) -> list[dict[str, Any]]:
    """The answers, and the obsolete part as the last one."""
    return [*(answer.said for answer in found), dict(OBSOLETE)]


def _answer(question: Question, result: Entry, speed: Speed) -> dict[str, Any] | None:
    entries = {each["name"]: each for each in result["scenarios"]}
    asked = [pair for pair in question.pairs if set(pair) <= set(entries)]
    if not asked:
        return _unasked(question, result) if question.core else None
    reasons = []
    for pair in asked:
        mine, other = (entries[name] for name in pair)
        if not (reason := _obstacle(mine) or _obstacle(other)):
            if found := speed(pair[1], pair[0]):
                return _said(question, pair, found, result)
            reason = "the two were never measured in the same round."
        reasons.append(reason)
    if question.apex and not question.core and not _apex_runs(result):
        return None  # once is enough for that
    return _made(question, "untested", f"{question.name}: untested: {reasons[0]}", result)


def _apex_runs(result: Entry) -> bool:
    return bool(result["environment"]["apex"]["present"]) and result["plan"]["device"] == "cuda"


def _obstacle(entry: Entry) -> str | None:
    """Why a scenario cannot answer; None when it can."""
    if entry["time"] is None:
        if entry["state"] == "not-available":
            return clause(entry["why"])  # it names what is lacking
        if entry["state"] == "failed":
            return clause(f"{entry['title']} failed: {entry['why']}")
        return f"the run was interrupted before {entry['title']} was timed."
    if "not-proven" in entry["flags"]:
        return clause(f"Apex's kernels were not proven to run: {entry['proof']['why']}")
    if "unrecorded" in entry["flags"]:
        return "no build record says that what is installed as Apex is NVIDIA's."
    if why := another(entry["flags"]):
        return f"{entry['title']} {why}"
    if entry["parity"]["verdict"] == "fail":
        return clause(f"the losses of {entry['title']} leave those of FP32: "
                       f"{entry['parity']['why']}")
    return None


def clause(text: str) -> str:
    """With a full stop at its end."""
    return text if text.endswith(".") else f"{text}."


def _said(question: Question, pair: tuple[str, str], found: Comparison,
          result: Entry) -> dict[str, Any]:
    verdict, span = _VERDICTS[found.verdict], found.interval
    evidence = {"scenario": pair[0], "against": pair[1], "ratio": found.ratio,
                "low": span and span.low, "high": span and span.high}
    figure = described(found, question.rival)
    here = f"on this {'GPU' if result['plan']['device'] == 'cuda' else 'CPU'}, with this torch, " \
        "at this shape"
    ends = {"use": f"use it: {figure} {here}.", "leave": f"leave it out: {figure} {here}.",
            "same": f"no difference: {figure}, so there is nothing to gain from it {here}.",
            "undecided": f"undecided: {figure}, and {why_undecided(found)}."}
    notes = [question.note, _unheld(pair[0], result)] if verdict == "use" else []
    sentence = " ".join(filter(None, (f"{question.name}: {ends[verdict]}", *notes)))
    return _made(question, verdict, sentence, result, evidence)


def _unheld(name: str, result: Entry) -> str:
    """That nobody saw it train as FP32 does, of what is to be used."""
    entry = next(each for each in result["scenarios"] if each["name"] == name)
    return "Whether it trains as FP32 does was not tested." \
        if entry["parity"]["verdict"] == "untested" else ""


def why_undecided(found: Comparison) -> str:
    if found.interval is None:
        return "one round gives no interval"
    if math.isinf(found.floor):
        return "the noise of this run is not known"
    if found.floor > found.margin:
        return f"the baseline differs from itself by up to {100 * found.floor:.1f} %"
    return f"this is neither within the margin of {100 * found.margin:.3g} % nor clear of it"


def _unasked(question: Question, result: Entry) -> dict[str, Any]:
    how = f"{_NOT_ASKED} it."
    if question.apex and not _apex_runs(result):
        lacks = "not installed" if result["plan"]["device"] == "cuda" else "not available on a CPU"
        how = f"untested: Apex is {lacks}."
    return _made(question, "untested", f"{question.name}: {how}", result)


def _made(question: Question, verdict: str, sentence: str, result: Entry,
          evidence: dict[str, Any] | None = None) -> dict[str, Any]:
    label = result["environment"]["apex"]["label"] if question.apex else None
    return made(question.name, verdict, sentence, label, evidence)


def made(part: str, verdict: str, sentence: str, label: str | None,
         evidence: dict[str, Any] | None = None) -> dict[str, Any]:
    """One piece of advice. `label`: of what is here as Apex, None where it is not about Apex."""
    if label == STAND_IN:
        part, sentence = relabelled(part, label), relabelled(sentence, label)
        sentence = f"{sentence} {ABOUT_STAND_IN}" if evidence else sentence
    return {"part": part, "verdict": verdict, "sentence": sentence, "evidence": evidence}


def described(found: Comparison, rival: str) -> str:
    """`5.4 % slower than RIVAL (95 % interval -5.9 % to -4.9 %)`, and from 2 on a factor. All of
    it is said of speeds."""
    ratio, span = found.ratio, found.interval
    within = f" (95 % interval {ratios.reach(span.low, span.high, ratio)})" if span else ""
    if ratio >= ratios.FACTOR:
        return f"{ratios.ratio(ratio)} as fast as {rival}{within}"
    if abs(ratio - 1) < 0.0005:
        return f"as fast as {rival}{within}"
    word = "faster" if ratio > 1 else "slower"
    return f"{100 * abs(ratio - 1):.1f} % {word} than {rival}{within}"


@dataclass(frozen=True)
class Told:
    """A piece of advice as reports show it: `parts` for which it holds alike. Their name stands at
    the beginning of `sentence`."""

    parts: str
    sentence: str
    verdict: str


def told(advice: Sequence[Entry]) -> list[Told]:
    """What has no figure, said once for all parts of which the same is said; what this run did not
    ask stands last."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in advice:
        if not each["evidence"]:
            rest = each["sentence"].removeprefix(each["part"]).removesuffix(f" {ABOUT_STAND_IN}")
            found.setdefault((rest, each["verdict"]), []).append(each["part"])
    once = [_together(parts, rest, verdict) for (rest, verdict), parts in found.items()]
    return sorted(once, key=lambda each: _NOT_ASKED in each.sentence)


def _together(parts: Sequence[str], rest: str, verdict: str) -> Told:
    name = "; ".join(part if not number else part.replace("The stand-in", "the stand-in")
                     for number, part in enumerate(parts))
    if len(parts) > 1:
        rest = rest.replace(f"{_NOT_ASKED} it.", f"{_NOT_ASKED} them.")
    return Told(name, f"{name}{rest}" if not rest.startswith(parts[0]) else rest, verdict)


def condition(result: Entry) -> str:
    """Where a sentence holds: GPU, torch, shape."""
    here, preset = result["environment"], result["plan"]["preset"]
    return (f"{here['device'] or 'this machine'}, torch {here['torch'] or '(unknown)'}, "
            f"{preset['name']} with {preset['batch']} x {preset['shape']['context']} tokens")


def headline(found: Sequence[Answer], result: Entry) -> str:
    """The answer at the top, one sentence: what of Apex pays here, and what of PyTorch."""
    pays = _first(found, apex=False, verdict="use")
    own = f"; of PyTorch's own pays: {', '.join(pays)}" if pays else ""
    return f"{condition(result)}: {_about_apex(found, result)}{own}."


def _about_apex(found: Sequence[Answer], result: Entry) -> str:
    apex = result["environment"]["apex"]
    if apex["label"] == STAND_IN:
        return "the stand-in ran in place of Apex, so nothing is said of Apex"
    if result["plan"]["device"] != "cuda":
        return "Apex needs a GPU, so nothing is said of it"
    if not apex["present"]:
        return "Apex is not installed, so nothing is said of it"
    if apex["label"] is None:
        return "no build record says that what is installed as Apex is NVIDIA's, so nothing is " \
            "said of Apex"
    named = {verdict: _first(found, True, verdict) for verdict in _VERDICTS.values()}
    others = [f"{word}: {', '.join(named[verdict])}" for verdict, word in (
        ("leave", "slower"), ("same", "no difference"), ("undecided", "undecided"))
        if named[verdict]]
    rest = f" ({'; '.join(others)})" if others else ""
    if named["use"]:
        return f"of Apex pays: {', '.join(named['use'])}{rest}"
    if not others:
        return "no part of Apex was measured and proven, so nothing is said of it"
    word = "no part of Apex is sure to pay" if named["undecided"] else "no part of Apex pays"
    return f"{word}{rest}"


def _first(found: Sequence[Answer], apex: bool, verdict: str) -> list[str]:
    """Parts of which the first answer is this verdict, each with its figure."""
    first: dict[str, Answer] = {}
    for each in found:
        if each.question.apex == apex and each.said["evidence"]:
            first.setdefault(each.question.part, each)
    most = _MOST_OF_APEX if apex else _MOST
    return [f"{each.question.name} {ratios.change(each.said['evidence']['ratio'])}"
            for each in list(first.values())[:most] if each.said["verdict"] == verdict]
