"""Which Adam, norm and clipping to use on this GPU, from the times of single calls. Pure.

A call among others is what a training loop pays, so its time decides; what its kernels and the host
take is said beside it, for the one can be ahead and the other behind.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apexlab.bench.ops.cases import LOW
from apexlab.bench.ops.questions import QUESTIONS, Question
from apexlab.bench.result import ratios, stats
from apexlab.bench.result.advice import clause, described, made, why_undecided
from apexlab.bench.result.labels import STAND_IN
from apexlab.bench.result.stats import Comparison

Point = Mapping[str, Any]
Pairs = Sequence[tuple[Point, Point]]  # of each case, the base and what is held against it
VERDICTS = {"FAST": "use", "SLOW": "leave", "SAME": "same", "UNDECIDED": "undecided"}
MODES = {"fp32": "FP32", "bf16": "BF16", "autocast": "BF16 autocast"}


@dataclass(frozen=True)
class Answer:
    """`said` is the part of the result; `mode` the precision that it holds for."""

    question: Question
    mode: str
    said: dict[str, Any]


def mode(point: Point) -> str:
    return "autocast" if point["autocast"] else "bf16" if point["dtype"] == LOW else "fp32"


def answers(points: Sequence[Point], preset: str, label: str | None, seed: int) -> list[Answer]:
    """An answer to each question that these points can be asked. `label`: what of Apex is here;
    points have "us" (by kind the samples of each round), "label" and "proof"."""
    found = []
    for question in QUESTIONS:
        for each in MODES:
            asked = [point for point in points if mode(point) == each
                     and (point["op"], point["direction"]) == (question.op, question.direction)
                     and (not question.own or point["case"] == preset)]
            if said := _answer(question, each, asked, label, seed):
                found.append(Answer(question, each, said))
    return _merged(found)


def _merged(found: Sequence[Answer]) -> list[Answer]:
    """What no precision could be asked, and for one reason, said once."""
    kept: dict[str, Answer] = {}
    for each in found:
        said, full = each.said, f", {MODES[each.mode]}"
        key = said["sentence"] if said["evidence"] else said["sentence"].replace(full, "", 1)
        if key in kept:
            short = {name: str(said[name]).replace(full, "", 1) for name in ("part", "sentence")}
            kept[key] = Answer(each.question, each.mode, {**said, **short})
        else:
            kept[key] = each
    return list(kept.values())


def _answer(question: Question, mode: str, points: Sequence[Point], label: str | None, seed: int,
            ) -> dict[str, Any] | None:
    by = {(point["provider"], point["case"]): point for point in points}
    mine = {case: point for (provider, case), point in by.items() if provider == question.provider}
    pairs = [(by[question.base, case], point) for case, point in mine.items()
             if point["state"] == "measured" and (question.base, case) in by
             and by[question.base, case]["state"] == "measured"]
    name = f"{question.part}, {MODES[mode]}"
    if not pairs:
        return _untested(question, name, [*mine.values(), *(
            by[question.base, case] for case in mine if (question.base, case) in by)], label)
    if question.apex and (lacking := [new for _, new in pairs if new["label"] is None]):
        proof = lacking[0]["proof"] or {"verdict": "not-proven", "why": "nothing watched them."}
        why = "it has no build record, so nothing says that it is NVIDIA's." \
            if proof["verdict"] == "proven" else proof["why"]
        return _made(question, name, "untested", f"{name}: untested, for its kernels cannot be "
                     f"called Apex's: {why}", label)
    call = speed(pairs, "call", seed, noise_floor(points, "call", seed))
    apart = _apart(pairs, call, seed, noise_floor(points, "cold", seed))
    return _said(question, name, call, apart, label) if call else None


def speed(pairs: Pairs, kind: str, seed: int, floor: float = math.inf) -> Comparison | None:
    """(base, new) compared within each case and round; None where there are no such times.
    `floor`: of their noise; while that is not known, nothing is FAST or SLOW."""
    medians = list(_medians(pairs, kind))
    return stats.compare([[base] for base, _ in medians], [[new] for _, new in medians],
                         seed, floor=floor) if medians else None


def noise(points: Sequence[Point], kind: str, seed: int) -> stats.Control | None:
    """Of all points that were measured twice, the first time against the second, each in its case
    and round; None where none was."""
    twice = [(point, {"us": point["control"]}) for point in points if point.get("control")]
    medians = list(_medians(twice, kind))
    return stats.control([[one] for one, _ in medians], [[other] for _, other in medians],
                         seed) if medians else None


def noise_floor(points: Sequence[Point], kind: str, seed: int) -> float:
    """Without a control nothing is known of it."""
    found = noise(points, kind, seed)
    return math.inf if found is None else found.floor


def _medians(pairs: Pairs, kind: str) -> Iterator[tuple[float, float]]:
    for one, other in pairs:
        both = (one["us"].get(kind) or (), other["us"].get(kind) or ())
        for base, new in zip(*both, strict=False):
            yield statistics.median(base), statistics.median(new)


def _untested(question: Question, name: str, both: Sequence[Point], label: str | None,
              ) -> dict[str, Any] | None:
    """Why there is no answer; None where nobody can expect one."""
    lacking = next((point for point in both if point["why"]), None)
    failed = any(point["state"] == "failed" for point in both)
    if lacking is None or not (question.apex or failed):
        return None
    rival = f"{question.rival} was not measured: " \
        if lacking["provider"] == question.base else ""
    why = f"{rival}{lacking['why']}"
    return _made(question, name, "untested", f"{name}: untested, for {clause(why)}", label)


def _said(question: Question, name: str, call: Comparison, apart: str,
          label: str | None) -> dict[str, Any]:
    verdict, span = VERDICTS[call.verdict], call.interval
    figure = f"a call is {described(call, question.rival)}"
    ends = {"use": f"use it: {figure}.", "leave": f"leave it out: {figure}.",
            "same": f"no difference: {figure}. Take the simpler one.",
            "undecided": f"undecided: {figure}, and {why_undecided(call)}."}
    sentence = " ".join(filter(None, (f"{name}: {ends[verdict]}", apart)))
    return _made(question, name, verdict, sentence, label, {
        "scenario": question.provider, "against": question.base, "ratio": call.ratio,
        "low": span and span.low, "high": span and span.high,
        "floor": call.floor if math.isfinite(call.floor) else None})


def _apart(pairs: Pairs, call: Comparison | None, seed: int, floor: float) -> str:
    """Kernels and host, each by itself; "" on a CPU."""
    kernel, host = speed(pairs, "cold", seed, floor), list(_medians(pairs, "host"))
    if kernel is None or call is None:
        return ""
    ahead = {"FAST": "faster", "SLOW": "slower"}.get(kernel.verdict)
    contrast = "The"
    if ahead and kernel.verdict != call.verdict:
        unlike = "undecided" if call.verdict == "UNDECIDED" else "not"
        contrast = f"Its kernels are {ahead}, and its call is {unlike}: the"
    own = f", the host {statistics.geometric_mean(new / base for base, new in host):.2f}×" \
        if host else ""
    return f"{contrast} kernels take {1 / kernel.ratio:.2f}× the time of the other's{own}."


def _made(question: Question, name: str, verdict: str, sentence: str, label: str | None,
          evidence: dict[str, Any] | None = None) -> dict[str, Any]:
    return made(name, verdict, sentence, label if question.apex else None, evidence)


def headline(found: Sequence[Answer], where: str, apex: Mapping[str, Any], device: str) -> str:
    """The answer at the top: what of Apex pays on this GPU, and what of PyTorch."""
    own = "; ".join(_clauses([each for each in found if not each.question.apex
                              and each.said["verdict"] == "use"]))
    torch = f" Of PyTorch's own, {own}." if own else ""
    return f"{where}: {_about_apex(found, apex, device)}{torch}"


def _about_apex(found: Sequence[Answer], apex: Mapping[str, Any], device: str) -> str:
    if apex["label"] == STAND_IN:
        return "the stand-in ran in place of Apex, so nothing is said of Apex."
    if device == "cpu":
        return "Apex needs a GPU, so nothing is said of it."
    if not apex["present"]:
        return "Apex is not installed, so nothing is said of it."
    clauses = list(_clauses([each for each in found if each.question.apex
                             and each.said["evidence"]]))
    if not clauses:
        return "nothing of Apex was measured and proven, so nothing is said of it."
    return f"{'; '.join(clauses)}."


def _clauses(found: Sequence[Answer]) -> Iterator[str]:
    """`FusedLayerNorm does not pay (FP32 -20 %, BF16 -31 %)`, the parts in their order."""
    ways = {"use": "pays", "leave": "does not pay", "same": "makes no difference",
            "undecided": "is undecided"}
    for question in (each for each in QUESTIONS if each.top):
        for verdict, words in ways.items():
            figures = [f"{MODES[each.mode]} {ratios.change(each.said['evidence']['ratio'])}"
                       for each in found
                       if each.question is question and each.said["verdict"] == verdict]
            if figures:
                yield f"{question.part} {words} ({', '.join(figures)})"
