"""The whole verdict, from real files and what their processes said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apexlab.verify import proofs
from apexlab.verify import site as sites
from apexlab.verify.attribute import Registered
from apexlab.verify.device import Visible
from apexlab.verify.examine import Demand, examine
from apexlab.verify.expectations import expectations
from apexlab.verify.findings import finding
from apexlab.verify.judge import Request, judge, verdict_of
from apexlab.verify.load import Loaded
from apexlab.verify.prove.table import CALLS
from apexlab.verify.report import RUN, Device, Environment

NAMES = ("amp_C", "fused_layer_norm_cuda")
KERNELS = {name: f"void {name}_kernel<float>(int)" for name in NAMES}
TORCH = "void at::native::add(int)"
REGISTERED = Registered({name: frozenset({KERNELS[name]}) for name in NAMES},
                        {name: f"/{name}.so" for name in NAMES}, frozenset(NAMES),
                        frozenset({TORCH}))
GPU = Environment("3.11", "2.6.0+cu124", "12.4", "580.0", (Device("H200", "9.0"),), ("profiler",))


def said(kernel: str, error: float | None = 0.5) -> dict:
    return {"loaded": [*REGISTERED.paths.values()], "phases": [{
        "phase": "", "profiler": [{"name": kernel, "count": 1, "file": None, "us": 1.0}],
        "interposer": None, "calls": 1,
        "errors": [{"what": "y", "error": error, "limit": 8.0, "other_dtype": None}]}]}


def called(**changed) -> proofs.Called:
    """Every call of NAMES, proven on one GPU."""
    answers = tuple(
        proofs.Answer(call, dtype, "cuda:0", "", said(KERNELS[call.extension]))
        for call in CALLS if call.extension in NAMES for dtype in call.dtypes)
    whole = proofs.Called(answers, (), REGISTERED, {"cuda:0": frozenset({"profiler"})}, {})
    return replace(whole, **changed)


@pytest.fixture
def judged(maker, folder):
    """Judges a healthy site whose calls came out as given."""
    subject = sites.folder_site(maker.healthy(folder, *NAMES))
    wanted = expectations(None, NAMES)
    seen = examine(subject, wanted, Demand())
    loaded = Loaded(None, {name: {"ok": True, "file": str(found.path)}
                           for name, found in subject.files.items()})

    def run(seen_calls: proofs.Called | None, environment: Environment = GPU,
            request: Request | None = None):
        return judge(subject, wanted, seen, loaded, seen_calls, environment,
                     request or Request(RUN))

    return run


def codes(report, *severities: str) -> set[str]:
    return {one.code for one in report.findings
            if one.severity in (severities or ("error", "fallback", "incomplete"))}


def test_all_calls_proven_is_the_verdict_proven(judged):
    report = judged(called())
    assert (report.verdict, report.exit_code, report.level_reached) == ("proven", 0, "run")
    assert {one.status for one in report.extensions if one.expected} == {"proven"}


def test_one_call_by_torch_is_a_fallback_with_its_own_exit_code(judged):
    whole = called()
    answers = (replace(whole.answers[0], said=said(TORCH)), *whole.answers[1:])
    report = judged(replace(whole, answers=answers))
    assert (report.verdict, report.exit_code, codes(report)) == ("fallback", 5, {"fallback"})
    status = {one.name: one.status for one in report.extensions}
    assert (status["amp_C"], status["fused_layer_norm_cuda"]) == ("loaded", "proven")


def test_wrong_numbers_weigh_more_than_a_fallback(judged):
    whole = called()
    answers = (replace(whole.answers[0], said=said(TORCH)),
               replace(whole.answers[1], said=said(KERNELS["amp_C"], 99.0)), *whole.answers[2:])
    report = judged(replace(whole, answers=answers))
    assert (report.verdict, report.exit_code) == ("broken", 1)
    assert codes(report) == {"fallback", "wrong-numbers"}


def test_a_blind_instrument_is_never_ok(judged):
    report = judged(called(working={"cuda:0": frozenset()}))
    assert (report.verdict, report.exit_code) == ("incomplete", 4)
    assert codes(report) == {"instrument-blind"}


def test_a_gpu_that_cannot_be_used_is_said_once(judged):
    report = judged(called(answers=(), working={}, failed={"cuda:0": "out of order"}))
    assert (report.verdict, report.exit_code, report.level_reached) == ("incomplete", 4, "load")
    assert codes(report) == {"gpu-unusable"}


def test_a_second_gpu_that_cannot_be_used_is_not_passed_over(judged):
    report = judged(called(failed={"cuda:1": "out of order"}))
    assert (report.verdict, report.exit_code) == ("incomplete", 4)


def test_what_no_call_reached_is_not_proven_by_silence(judged):
    whole = called()
    left = tuple(one for one in whole.answers if one.call.extension != "amp_C")
    report = judged(replace(whole, answers=left))
    assert (report.verdict, report.exit_code, codes(report)) == ("incomplete", 4, {"not-proven"})


def test_without_a_gpu_it_is_incomplete_and_may_be_forgiven(judged):
    report = judged(None, replace(GPU, devices=()))
    assert (report.verdict, report.exit_code, codes(report)) == ("incomplete", 4, {"no-gpu"})
    assert verdict_of(report.findings, allow_no_gpu=True) == ("incomplete", 0)


def test_a_driver_that_fails_is_not_the_lack_of_a_gpu(judged):
    failing = Request(RUN, allow_no_gpu=True,
                      visible=Visible(why_none="the driver answers with error 803", fails=True))
    report = judged(None, replace(GPU, devices=()), failing)
    assert (report.exit_code, codes(report)) == (4, {"gpu-unusable"})


def test_nothing_else_than_the_lack_of_a_gpu_is_forgiven():
    blind = finding("instrument-blind", name="amp_C", why="")
    assert verdict_of([blind], allow_no_gpu=True) == ("incomplete", 4)
