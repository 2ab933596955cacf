"""What every output says alike: the headline, the environment, the proofs in a few words. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from apexlab.verify.report import (
    BLIND,
    FAILED,
    FALLBACK,
    LOAD,
    PROVEN,
    RAN_TORCH,
    RUN,
    STATIC,
    UNSUPPORTED,
    WRONG,
    ExtensionReport,
    Finding,
    ModelReport,
    Proof,
    Report,
    StepKernel,
)

SEPARATOR = " · "
TOP_KERNELS = 10
MOST_CONDITIONS = 3
_THERE = ("present", "loaded", "proven")
_REACHED = {STATIC: _THERE, LOAD: ("loaded", "proven"), RUN: ("proven",)}
_DTYPES = ("fp32", "fp16", "bf16")
# The last word of a proof's api where the call has parts.
_PHASES = {"forward": "fwd", "backward": "bwd", "step": ""}
# The worst comes first: it is what the reader looks for.
_UNPROVEN = {
    FAILED: "failed", WRONG: "wrong numbers", RAN_TORCH: "ran without it",
    BLIND: "seen by no instrument", UNSUPPORTED: "not in this Apex",
}  # fmt: skip


def headline(report: Report) -> str:
    """The sentence behind the verdict."""
    counted = _counted(report)
    if report.errors:
        return _first(report.errors)
    fallbacks = [found for found in report.findings if found.severity == FALLBACK]
    if fallbacks:
        return f"{_first(fallbacks)}; {counted}"
    if report.verdict == "incomplete":
        return f"{counted}; not everything asked for could be checked"
    return f"{counted}; no fallback" if report.verdict == "proven" else counted


def _counted(report: Report) -> str:
    ran = report.level_reached == RUN
    expected = [one for one in report.extensions if one.expected]
    good = [one for one in expected if one.status in (("proven",) if ran else _THERE)]
    what = "are there and fit, as far as their files tell"
    if report.level_reached == LOAD:
        # What is Python code altogether stays "present".
        good = [one for one in good if one.status != "present" or one.sha256 is None]
        what = "are there and were imported"
    elif ran:
        gpus = len(report.environment.devices)
        what = f"ran on {f'each of {gpus} GPUs' if gpus > 1 else 'this GPU'}"
    return f"{len(good)} of {len(expected)} extensions asked for {what}"


def _first(found: Iterable[Finding]) -> str:
    """The first sentence of the first finding, and how many more there are."""
    all_ = list(found)
    first = " ".join(all_[0].message.split(". ")[0].split()).rstrip(".")
    return f"{first}; {len(all_) - 1} more below" if len(all_) > 1 else first


def environment(report: Report) -> str:
    """Where it was judged, in one line."""
    here = report.environment
    parts = [f"torch {here.torch}" if here.torch else "no torch", source(report)]
    if report.kind == "wheel":
        parts.append(report.subject)
    elif here.devices:
        parts += [devices(report), f"driver {here.driver}" if here.driver else "driver unknown"]
    else:
        parts.append("no GPU visible")
    return SEPARATOR.join(parts)


def source(report: Report) -> str:
    """The source's own name: what was not built from Apex must never read as Apex."""
    if report.record is None:
        return "no build record"
    name = report.record.short_source
    return name if report.record.source == "apex" else f"{name} (this is not NVIDIA Apex)"


def devices(report: Report) -> str:
    """The GPUs, those alike counted."""
    names = Counter(f"{one.name} ({one.capability})" for one in report.environment.devices)
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())


def reached(report: Report, one: ExtensionReport) -> bool:
    """Whether an extension is what the level that was asked for makes of a sound one."""
    return one.status in _REACHED[report.level_asked]


def style(report: Report, one: ExtensionReport) -> str:
    """Its status, or "incomplete" where that would look better than it is."""
    return "incomplete" if one.status in _THERE and not reached(report, one) else one.status


def proofs(one: ExtensionReport, gpus: int) -> str:
    """What the calls of an extension came to, in a few words."""
    return "; ".join(map(SEPARATOR.join, outcomes(one, gpus)))


def outcomes(one: ExtensionReport, gpus: int) -> Iterator[list[str]]:
    """For each outcome that its calls had, in pieces: which calls, and what was seen of them. The
    GPUs are named where it is not the same on each."""
    for verdict, word in _UNPROVEN.items():
        bad = [proof for proof in one.proofs if proof.verdict == verdict]
        if bad:
            first, *rest = _calls(one.name, bad)
            where = sorted({proof.device for proof in bad}) if gpus > 1 else ()
            how = list(dict.fromkeys(proof.condition for proof in bad if proof.condition))
            how = how if len(how) <= MOST_CONDITIONS else [f"called in {len(how)} ways"]
            much = (_worst(bad),) if verdict == WRONG else ()
            yield [f"{word}: {first}", *rest, *how, *filter(None, (" ".join(where), *much))]
    good = [proof for proof in one.proofs if proof.verdict == PROVEN]
    if good:
        where = sorted({proof.device for proof in good})
        if len(where) == gpus:
            where = []  # on each, as the headline has it
        yield [*_calls(one.name, good), *filter(None, (" ".join(where),)), *_evidence(good)]


def _calls(name: str, made: Iterable[Proof]) -> Iterator[str]:
    """Which calls: the APIs, the directions, the types."""
    made = list(made)
    split = [split_phase(proof.api) for proof in made]
    yield ", ".join(dict.fromkeys(api.removeprefix(f"{name}.") for api, _ in split))
    yield from filter(None, (
        " ".join(dict.fromkeys(phase for _, phase in split if phase)),
        " ".join(sorted({proof.numerics.dtype for proof in made}, key=_dtype_order))))


def split_phase(api: str) -> tuple[str, str]:
    """The API and the direction: "FusedLayerNorm backward" gives ("FusedLayerNorm", "bwd")."""
    rest, _, last = api.rpartition(" ")
    return (rest, _PHASES[last]) if rest and last in _PHASES else (api, "")


def _dtype_order(dtype: str) -> tuple[int, str]:
    return (_DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES), dtype)


def _evidence(good: Iterable[Proof]) -> Iterator[str]:
    good = list(good)
    count = launches(good)
    if count:
        yield f"{count} launch{'' if count == 1 else 'es'}"
    elif good[0].grade != "kernel":
        yield "called"  # cuBLAS's kernels, or none
    compared = [proof for proof in good if proof.numerics.max_error is not None]
    if compared:
        yield _worst(compared)


def _worst(made: Iterable[Proof]) -> str:
    """The error that is largest for its limit; one that is no number is larger than any."""
    numerics = max((proof.numerics for proof in made), key=lambda one: (
        math.inf if one.max_error is None else one.max_error / one.limit))
    return f"error {error(numerics.max_error)} of {numerics.limit:g}"


def launches(made: Iterable[Proof]) -> int:
    """How often the extension's own kernels were launched in these calls."""
    return sum(kernel.count for proof in made for kernel in proof.kernels if kernel.in_extension)


def error(value: float | None) -> str:
    """A short form of an error; None is a result that was not finite."""
    if value is None:
        return "not finite"
    return f"{value:.0f}" if 100 <= value < 1e6 else f"{value:.2g}"


def top_kernels(model: ModelReport) -> tuple[StepKernel, ...]:
    """The kernels of the step that took most of the GPU's time, or ran most often."""
    return tuple(sorted(model.kernels, key=lambda one: (
        -(one.microseconds or 0.0), -one.count, one.name))[:TOP_KERNELS])


def time_share(model: ModelReport, kernel: StepKernel) -> str:
    """The kernel's part of the step's GPU time; "" where it is not known."""
    total = sum(one.microseconds or 0.0 for one in model.kernels)
    return percent(kernel.microseconds / total) if kernel.microseconds and total else ""


def model(model: ModelReport) -> str:
    """What became of a user's own model, in one line."""
    return f"{model.factory} on {model.device}: {apex_share(model)}"


def apex_share(model: ModelReport) -> str:
    """What part of the step is Apex's, as far as it is known."""
    if model.apex_share is not None:
        return f"{percent(model.apex_share)} of the GPU time in Apex's kernels"
    if not model.kernels:
        return "no kernel was seen"
    count = sum(one.count for one in model.kernels if one.extension)
    return f"{count} of {sum(one.count for one in model.kernels)} launches are Apex's"


def percent(part: float) -> str:
    return f"{100 * part:.1f} %"
