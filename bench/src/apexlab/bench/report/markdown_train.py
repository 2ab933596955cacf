"""The tables of a training comparison in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.markdown_details import details
from apexlab.bench.report.markdown_table import name_of, table
from apexlab.bench.result.questions import PUBLISHED
from apexlab.bench.result.warn import noise_words

Result = Mapping[str, Any]
_ROLES = {"rung": "", "own-part": "torch's own part", "left-out": "left out", "control": "control"}


def tables(result: Result) -> Iterator[str]:
    """Speed, memory and energy, phases, GPUs, parity, proof."""
    timed = [each for each in result["scenarios"] if each["time"]]
    yield from ("## Speed", "")
    yield from table(("scenario", "ms a step", "IQR", "mean ± deviation", "tokens/s", "samples/s",
                      "speed", "95 % interval", "verdict", "over TF32", "step", "notes"),
                     map(_speed, timed))
    yield ""
    yield (f"Speed is that of `{result['plan']['baseline']}` over the scenario's time: above 1 is "
           f"faster; over TF32 is the same against `torch-tf32`. Step is the change against the "
           f"scenario that it is read against. Noise of the baseline against itself: "
           f"{noise_words(result['noise']['floor'])}.")
    yield ""
    yield from _published(timed)
    if without := [each for each in result["scenarios"] if each["state"] != "measured"]:
        yield from table(("not measured, or in part", "state", "why"), (
            (each["title"], each["state"].replace("-", " "), each["why"]) for each in without))
        yield ""
    yield from ("## Memory, energy and time", "")
    yield from table(("scenario", "peak", "reserved", "in the optimizer's step", "J a step",
                      "tokens/J", "MFU", "first step", "GPU busy", "kernels a step"),
                     map(_resources, timed))
    yield from ("", "Peak memory is what torch allocated, after the warm-up, in a pass of its own; "
                    "without a GPU, that of the process. MFU is against the dense peak of the "
                    "dtype that ran; n/a is a GPU or a dtype whose peak is not known.", "")
    yield from _parts(timed)
    yield from _gpus(timed)
    yield from ("## Do they train alike?", "")
    yield from table(("scenario", "losses", "gap early", "gap late", "seed spread",
                      "gradient error", "update error", "why"), map(_parity, timed))
    yield ""
    yield from _proof(timed)
    yield from details(timed)


def _speed(each: Result) -> Sequence[str]:
    time, speed, step = each["time"], each["speedup"], each["step"]
    spread = "" if time["deviation"] is None else f" ± {1e3 * time['deviation']:.2g}"
    notes = [_ROLES[each["role"]], *each["flags"]]
    return (name_of(each), f"{1e3 * time['median']:.4g}", f"{1e3 * time['iqr']:.2g}",
            f"{1e3 * time['mean']:.4g}{spread}", words.number(each["tokens_per_second"]),
            words.number(each["samples_per_second"]),
            words.ratio(speed["ratio"]) if speed else "", words.span(speed) if speed else "",
            speed["verdict"] if speed else "",
            words.ratio((each["speedup_over_tf32"] or {}).get("ratio"))
            if each["speedup_over_tf32"] else "",
            f"{words.change(step['ratio'])} {step['verdict']}" if step else "",
            ", ".join(filter(None, notes)))


def _published(timed: Sequence[Result]) -> Iterator[str]:
    """Not of what only stands in for the scenario that the claim is of."""
    rows = [(name_of(each), "{} to {}×".format(*PUBLISHED[each["name"]]),
             words.ratio(each["speedup"]["ratio"])) for each in timed
            if each["title"] in PUBLISHED and each["speedup"]]
    if not rows:
        return
    yield ("What a tutorial claims for some of them over FP32, of a model, a batch and a GPU that "
           "are not known; it is shown for comparison, and is no target:")
    yield ""
    yield from table(("scenario", "claimed", "here"), rows)
    yield ""


def _resources(each: Result) -> Sequence[str]:
    energy, memory = each["energy"] or {}, each["memory"] or {}
    return (name_of(each), words.gib(words.peak(each)), words.gib(memory.get("reserved")),
            words.gib(each["optimizer_peak"]), words.number(energy.get("joules_per_step")),
            words.number(energy.get("tokens_per_joule")), words.percent(each["mfu"]),
            words.seconds(each["first_step_seconds"], 3), words.percent(each["gpu_busy"], 0),
            words.number(each["kernels_per_step"]))


def _parts(timed: Sequence[Result]) -> Iterator[str]:
    seen = [each for each in timed if each["phases"]]
    if not seen:
        return
    yield from ("## Where a step spends its time", "")
    yield from table(("scenario", "forward", "backward", "optimizer", "scaler",
                      "waiting for data", "share of its kernels"), map(_phases, seen))
    yield from ("", "From a pass of its own, for the marks between the parts cost a little. The "
                    "share is that of the GPU time in kernels of the extensions that the scenario "
                    "is about.", "")


def _phases(each: Result) -> Sequence[str]:
    return (name_of(each), *(words.seconds(each["phases"].get(key)) for key in
                           ("forward", "backward", "optimizer", "scaler")),
            words.seconds(each["data_wait"]), words.percent(each["apex_share"]))


def _gpus(timed: Sequence[Result]) -> Iterator[str]:
    several = [each for each in timed if each["gpus"]]
    if not several:
        return
    yield from ("## Several GPUs", "")
    yield from table(("scenario", "tokens/s of each GPU", "scaling efficiency", "slowest rank",
                      "ms a step of each rank"), map(_scaling, several))
    yield from ("", "Each GPU trains on a batch of its own, so perfect scaling keeps the time of a "
                    "step: efficiency is its time on one GPU over that on all.", "")


def _scaling(each: Result) -> Sequence[str]:
    found = each["gpus"]
    ranks = ", ".join(f"{1e3 * rank['seconds']:.4g}" for rank in found["ranks"])
    return (name_of(each), words.number(found["per_gpu_tokens_per_second"]),
            words.percent(found["efficiency"]), str(found["slowest_rank"]), ranks)


def _parity(each: Result) -> Sequence[str]:
    found = each["parity"]
    return (name_of(each), found["verdict"], *(_tiny(found[key]) for key in (
        "gap_early", "gap_late", "spread", "gradient_error", "update_error")), found["why"])


def _tiny(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def _proof(timed: Sequence[Result]) -> Iterator[str]:
    needed = [each for each in timed if each["proof"]["verdict"] != "not-needed"]
    if not needed:
        return
    yield from ("## Whose kernels ran", "")
    yield from table(("scenario", "verdict", "evidence"), (
        (name_of(each), each["proof"]["verdict"], _evidence(each["proof"])) for each in needed))
    yield ""


def _evidence(proof: Result) -> str:
    parts = [f"{part['part']}: {sum(kernel['count'] for kernel in part['kernels'])} launches of "
             f"{part['extension']} ({part['instrument']})"
             for part in proof["parts"] if part.get("kernels")]
    return "; ".join(parts) if proof["verdict"] == "proven" and parts else str(proof["why"])
