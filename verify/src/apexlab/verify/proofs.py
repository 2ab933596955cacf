"""What the calls of the level `run` prove: from the worker's answers to proofs and findings. Pure.

A call is proven when it ran on the GPU, its numbers hold against float64, and what its kind allows
was seen: kernels of the extension's own binary, or for modules whose work is cuBLAS's, the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apexlab.verify import attribute, extensions
from apexlab.verify.attribute import Registered
from apexlab.verify.findings import CUDA_SAYS, finding
from apexlab.verify.process import how_it_ended
from apexlab.verify.prove.table import CALLS, FALLBACKS, Call, Fallback
from apexlab.verify.report import (
    BLIND,
    FAILED,
    PROVEN,
    RAN_TORCH,
    UNSUPPORTED,
    WRONG,
    Finding,
    Kernel,
    Numerics,
    Proof,
)

LIMIT = 8.0
NONE: frozenset[str] = frozenset()


@dataclass
class Ran:
    """What one GPU's processes said, as it came. `controls` are the instruments' controls, at the
    start and at the end of each process; `cases` and `fallbacks` each task with its answer;
    `failed` says why nothing could be called on this GPU."""

    device: str
    controls: list[dict[str, Any]] = field(default_factory=list)
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    fallbacks: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    model: dict[str, Any] | None = None
    failed: str = ""


@dataclass(frozen=True)
class Answer:
    """The worker's answer for one case: the call, the GPU, and `said`, its JSON document, which
    has "phases", "unsupported" and "error", or "ended" or "hang" for a process that did not live
    to tell. `current` is the current device where it was another than the tensors'."""

    call: Call
    dtype: str
    device: str
    current: str
    said: Mapping[str, Any]


def proofs_of(answer: Answer, registered: Registered, working: frozenset[str],
              ) -> tuple[Proof, ...]:
    """The proofs of one answer: one for each phase, or one that says why there is none."""
    said = answer.said
    if said.get("unsupported"):
        return (_without(answer, UNSUPPORTED, str(said["unsupported"])),)
    failure = _failure(said)
    if failure:
        return (_without(answer, FAILED, failure),)
    elsewhere = _elsewhere(answer, registered)
    return tuple(_phase(answer, phase, registered, working, elsewhere) for phase in said["phases"])


def _elsewhere(answer: Answer, registered: Registered) -> str:
    """What was loaded in place of the file that was judged; "" where it is that file. Code of
    Python has none."""
    judged = registered.paths.get(answer.call.extension)
    loaded = answer.said.get("loaded") or []
    if judged is None or judged in loaded:
        return ""
    instead = "not loaded" if len(loaded) != 1 else f"not what was called: that is {loaded[0]}"
    return f"the file that was judged, {judged}, was {instead}"


def _failure(said: Mapping[str, Any]) -> str:
    if said.get("error"):
        # CUDA adds paragraphs of advice to its first line.
        text = said["error"]["text"].strip().partition("\n")[0]
        return f"{said['error']['kinds'][0]}: {text}".rstrip(": ")
    if "hang" in said or "ended" in said:
        return f"it {how_it_ended(said)}"
    return "" if said.get("phases") else "it recorded nothing"


def _without(answer: Answer, verdict: str, message: str) -> Proof:
    return Proof(
        answer.call.api, answer.device, _grade(answer.call), _condition(answer), (),
        Numerics(answer.dtype, None, LIMIT), verdict, message[:1000])


def _phase(answer: Answer, phase: Mapping[str, Any], registered: Registered,
           working: frozenset[str], elsewhere: str) -> Proof:
    call, grade = answer.call, _grade(answer.call)
    kernels = attribute.kernels(call.extension, phase, registered, working)
    numerics = _worst(answer.dtype, phase["errors"])
    verdict = _verdict(grade, kernels, numerics, phase)
    other = next((one["other_dtype"] for one in phase["errors"] if one.get("other_dtype")), None)
    message = f"its result is {other}" if verdict == WRONG and other else ""
    if verdict == PROVEN and elsewhere:
        verdict, message = FAILED, elsewhere
    return Proof(
        f"{call.api} {phase['phase']}".strip(), answer.device, grade, _condition(answer),
        kernels or (), numerics, verdict, message)


def _verdict(grade: str, kernels: tuple[Kernel, ...] | None, numerics: Numerics,
             phase: Mapping[str, Any]) -> str:
    # Written so that a value that is not a number fails as well.
    if phase["errors"] and not (
            numerics.max_error is not None and numerics.max_error <= numerics.limit):
        return WRONG
    own = any(kernel.in_extension for kernel in kernels or ())
    if grade == "kernel" and kernels is not None and not own:
        return RAN_TORCH  # before its dtype is looked at: torch's code may well give another one
    if any(one.get("other_dtype") for one in phase["errors"]):
        return WRONG
    if grade == "kernel" and not own:
        return BLIND
    return PROVEN if phase["errors"] and (own or phase.get("calls")) else FAILED


def _worst(dtype: str, errors: Iterable[Mapping[str, Any]]) -> Numerics:
    """The result that is furthest off in terms of its limit; none at all is not finite either."""
    errors = list(errors)
    if not errors:
        return Numerics(dtype, None, LIMIT)

    def badness(one: Mapping[str, Any]) -> float:
        return float("inf") if one["error"] is None else float(one["error"]) / float(one["limit"])

    worst = max(errors, key=badness)
    return Numerics(dtype, worst["error"], worst["limit"])


def _grade(call: Call) -> str:
    return extensions.BY_NAME[call.extension].proof


def _condition(answer: Answer) -> str:
    current = f"current device {answer.current}" if answer.current else ""
    return ", ".join(filter(None, (answer.call.condition, current)))


@dataclass(frozen=True)
class Called:
    """All that the level `run` saw: `answers` in the order of the calls, `fallbacks` the known
    ones with what was said, `working` the instruments that see, for each device, `failed` why
    nothing could be called on a device, and what the user's `model` gave."""

    answers: tuple[Answer, ...]
    fallbacks: tuple[tuple[Fallback, Mapping[str, Any]], ...]
    registered: Registered
    working: Mapping[str, frozenset[str]]
    failed: Mapping[str, str]
    model: Mapping[str, Any] | None = None

    @property
    def instruments(self) -> tuple[str, ...]:
        """The instruments that see on every device where calls were made."""
        seen = list(self.working.values())
        return tuple(sorted(frozenset.intersection(*seen))) if seen else ()


def called(ran: Iterable[Ran], registered: Registered) -> Called:
    """The answers of all GPUs, each with its call; an instrument counts on a GPU only if it passed
    its controls at the start and at the end of every process there."""
    ran = tuple(ran)
    answers = tuple(
        Answer(CALLS[task["call"]], task["dtype"], one.device,
               "" if task["current"] is None else f"cuda:{task['current']}", said)
        for one in ran for task, said in one.cases)
    working = {
        one.device: frozenset.intersection(
            *(attribute.working(control, registered) for control in one.controls))
        for one in ran if one.controls}
    return Called(
        answers, tuple((FALLBACKS[task["fallback"]], said)
                       for one in ran for task, said in one.fallbacks),
        registered, working, {one.device: one.failed for one in ran if one.failed},
        next((one.model for one in ran if one.model), None))


def known_fallbacks(seen: Called) -> Iterator[Finding]:
    """The calls that are known to leave the extension out, as far as they were seen to do so."""
    for known, said in seen.fallbacks:
        working = next(iter(seen.working.values()), frozenset())
        kernels = [attribute.kernels(known.extension, phase, seen.registered, working)
                   for phase in said.get("phases", ())]
        # An error or a blind instrument shows nothing, and so nothing is said.
        if kernels and all(ran is not None and not any(one.in_extension for one in ran)
                           for ran in kernels):
            yield finding(known.code)


@dataclass(frozen=True)
class Proven:
    """What the calls of one extension came to: `all` says that each that is required, on each GPU,
    reached its grade."""

    proofs: tuple[Proof, ...]
    findings: tuple[Finding, ...]
    all: bool


def judge_extension(name: str, seen: Called, rebuild: str) -> Proven:
    """All answers for one extension; `rebuild` is the command for the sentences."""
    if not any(call.extension == name for call in CALLS):
        return Proven((), (finding("no-call-known", name=name),), False)
    pairs = [(answer, proof) for answer in seen.answers if answer.call.extension == name
             for proof in proofs_of(answer, seen.registered, seen.working.get(answer.device, NONE))
             if answer.call.required or proof.verdict != UNSUPPORTED]
    strays = [(answer, proof) for answer, proof in pairs if _is_stray(answer, proof)]
    rest = [pair for pair in pairs if pair not in strays]
    proven = all(proof.verdict == PROVEN for _, proof in rest)
    found = [*_findings(name, [proof for _, proof in rest], seen, rebuild)]
    if strays and proven:
        found.append(_stray(name, strays))
    return Proven(tuple(proof for _, proof in pairs), tuple(found),
                  proven and any(answer.call.required for answer, _ in rest))


def _is_stray(answer: Answer, proof: Proof) -> bool:
    """Whether it went wrong only because another GPU was the current device: most of Apex's
    modules start their kernels on that one, so it is told, and is no fault of this build."""
    return bool(answer.current) and proof.verdict in (FAILED, WRONG)


def _stray(name: str, strays: list[tuple[Answer, Proof]]) -> Finding:
    answer, first = strays[0]
    return finding("wrong-device", call=first.api, device=first.device, current=answer.current,
                   what=_what(first), more=_more([proof for _, proof in strays]), name=name)


def _findings(name: str, proofs: list[Proof], seen: Called, rebuild: str) -> Iterator[Finding]:
    """One finding for each way in which calls went wrong; the first call speaks for the others."""
    if any(proof.verdict == BLIND for proof in proofs):
        why = ("what the instruments see does not agree" if seen.instruments
               else "none of them sees a kernel of torch's own, which surely ran")
        yield finding("instrument-blind", name=name, why=why)
    for verdict in (FAILED, WRONG, RAN_TORCH, UNSUPPORTED):
        bad = [proof for proof in proofs if proof.verdict == verdict]
        if bad:
            yield _finding(name, verdict, bad, rebuild)


def _finding(name: str, verdict: str, bad: list[Proof], rebuild: str) -> Finding:
    first = bad[0]
    how = f" ({first.condition})" if first.condition else ""
    values = {"rebuild": rebuild, "name": name, "device": first.device, "more": _more(bad),
              "call": f"{first.api} in {first.numerics.dtype}{how}", "what": _what(first)}
    if verdict == FAILED:
        code = next((code for text, code in CUDA_SAYS if text in first.message), "call-failed")
        return finding(code, **values)
    if verdict == WRONG:
        return finding("wrong-numbers", **values)
    if verdict == UNSUPPORTED:
        return finding("call-unsupported", **values)
    ran = ", ".join(dict.fromkeys(kernel.name for kernel in first.kernels)) or "no kernel at all"
    return finding("fallback", ran=ran[:300], **values)


def _what(proof: Proof) -> str:
    if proof.message:
        return proof.message
    if proof.numerics.max_error is None:
        return "its result is not finite, or has another shape"
    return f"its error is {proof.numerics.max_error:.3g}, the limit {proof.numerics.limit:g}"


def _more(bad: list[Proof]) -> str:
    calls = dict.fromkeys(f"{one.api} {one.numerics.dtype} {one.condition}" for one in bad)
    rest = len(calls) - 1
    return f" So do {rest} more of its calls." if rest else ""
