"""From what a GPU's process said to proofs and findings: plain data in, judgement out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apexlab.verify import proofs
from apexlab.verify.attribute import Registered
from apexlab.verify.prove.table import CALLS, FALLBACKS
from apexlab.verify.report import BLIND, FAILED, PROVEN, RAN_TORCH, UNSUPPORTED, WRONG

NORM = "void cuApplyLayerNorm<float>(float*)"
ADAM = "void multi_tensor_apply_kernel<AdamFunctor>(int)"
TORCH = "void at::native::vectorized_layer_norm_kernel<float>(int)"
ADD = "void at::native::vectorized_elementwise_kernel<4>(int)"
PATHS = {"fused_layer_norm_cuda": "/site/fused_layer_norm_cuda.so", "amp_C": "/site/amp_C.so",
         "fused_adam_cuda": "/site/fused_adam_cuda.so"}
REGISTERED = Registered(
    names={"fused_layer_norm_cuda": frozenset({NORM}), "amp_C": frozenset({ADAM}),
           "fused_adam_cuda": frozenset({ADAM})},
    paths=PATHS, dynamic=frozenset(PATHS), torch=frozenset({TORCH, ADD}))
PROFILER = frozenset({"profiler"})
GATE = {"what": "y", "error": 0.5, "limit": 8.0, "other_dtype": None}


def launch(name: str, count: int = 1, file: str | None = None) -> dict:
    return {"name": name, "count": count, "file": file, "us": None}


def number(extension: str, **wanted) -> int:
    return next(index for index, call in enumerate(CALLS) if call.extension == extension
                and all(getattr(call, key) == value for key, value in wanted.items()))


def phase(*launches: dict, errors=(GATE,), name: str = "forward", calls: int = 0) -> dict:
    return {"phase": name, "profiler": list(launches), "interposer": None,
            "errors": list(errors), "calls": calls}


def answer(extension: str, *phases: dict, current: str = "", device: str = "cuda:0", **said):
    call = CALLS[number(extension)]
    return proofs.Answer(call, "fp32", device, current, {
        "phases": list(phases), "loaded": [*PATHS.values()], **said})


def seen(*answers, working=PROFILER, failed=None) -> proofs.Called:
    return proofs.Called(answers, (), REGISTERED, {one.device: working for one in answers},
                         failed or {})


def verdicts(one, working=PROFILER) -> list[str]:
    return [proof.verdict for proof in proofs.proofs_of(one, REGISTERED, working)]


def judged(name: str, *answers, working=PROFILER):
    return proofs.judge_extension(name, seen(*answers, working=working), "make image")


NAME = "fused_layer_norm_cuda"


def test_a_kernel_of_its_own_and_right_numbers_are_a_proof():
    one = answer(NAME, phase(launch(NORM)), phase(launch(NORM), launch(ADD), name="backward"))
    assert verdicts(one) == [PROVEN, PROVEN]
    found = judged(NAME, one)
    assert (found.all, found.findings) == (True, ())
    assert [proof.api for proof in found.proofs] == ["FusedLayerNorm forward",
                                                     "FusedLayerNorm backward"]
    assert found.proofs[1].kernels[0].in_extension and not found.proofs[1].kernels[1].in_extension


@pytest.mark.parametrize(("error", "expected"), [
    (8.0, PROVEN), (8.0001, WRONG), (None, WRONG)])
def test_the_gate_decides_about_numbers(error, expected):
    assert verdicts(answer(NAME, phase(launch(NORM), errors=[{**GATE, "error": error}]))) == [
        expected]


def test_the_worst_of_several_results_counts_in_terms_of_its_own_limit():
    ten_steps = {**GATE, "error": 20.0, "limit": 32.0}
    off = {**GATE, "error": 9.0}
    assert verdicts(answer(NAME, phase(launch(NORM), errors=[ten_steps]))) == [PROVEN]
    assert verdicts(answer(NAME, phase(launch(NORM), errors=[ten_steps, off]))) == [WRONG]


def test_a_kernel_call_without_any_result_compared_is_no_proof_of_a_function():
    dense = answer("fused_dense_cuda", phase(launch(ADD), errors=[], calls=1))
    assert verdicts(dense) == [FAILED]


def test_a_kernel_of_its_own_without_any_result_compared_is_no_proof():
    assert verdicts(answer(NAME, phase(launch(NORM), errors=[]))) == [FAILED]


@pytest.mark.parametrize(("loaded", "words"), [
    (["/other/fused_layer_norm_cuda.so"], "that is /other/fused_layer_norm_cuda.so"),
    ([], "not loaded"), (None, "not loaded")])
def test_a_file_that_was_not_judged_proves_nothing_for_the_one_that_was(loaded, words):
    found = judged(NAME, answer(NAME, phase(launch(NORM)), loaded=loaded))
    assert [x.code for x in found.findings] == ["call-failed"] and not found.all
    assert words in found.findings[0].message


def test_the_right_class_with_torchs_kernel_is_a_fallback():
    one = answer(NAME, phase(launch(TORCH)))
    assert verdicts(one) == [RAN_TORCH]
    found = judged(NAME, one)
    assert [x.code for x in found.findings] == ["fallback"] and not found.all
    assert "vectorized_layer_norm_kernel" in found.findings[0].message


def test_no_kernel_at_all_is_a_fallback_and_not_a_proof():
    assert verdicts(answer(NAME, phase())) == [RAN_TORCH]
    assert "no kernel at all" in judged(NAME, answer(NAME, phase())).findings[0].message


def test_another_result_type_from_torchs_kernel_is_a_fallback_and_no_wrong_number():
    other = {**GATE, "other_dtype": "torch.float32"}
    assert verdicts(answer(NAME, phase(launch(TORCH), errors=[other]))) == [RAN_TORCH]
    # From the extension's own kernel it is wrong.
    assert verdicts(answer(NAME, phase(launch(NORM), errors=[other]))) == [WRONG]


def test_without_an_instrument_at_work_nothing_with_kernels_is_proven():
    one = answer(NAME, phase(launch(NORM)))
    assert verdicts(one, frozenset()) == [BLIND]
    found = judged(NAME, one, working=frozenset())
    assert [x.code for x in found.findings] == ["instrument-blind"] and not found.all


def test_what_has_no_kernels_needs_no_instrument_but_the_counted_call():
    made = answer("fused_dense_cuda", phase(calls=1))
    assert verdicts(made, frozenset()) == [PROVEN]
    # Right numbers that the extension's function had no part in.
    assert verdicts(answer("fused_dense_cuda", phase(calls=0)), frozenset()) == [FAILED]


def test_where_two_modules_have_the_same_kernel_the_call_decides_and_the_report_says_so():
    (proof,) = proofs.proofs_of(answer("amp_C", phase(launch(ADAM, 3))), REGISTERED, PROFILER)
    assert proof.verdict == PROVEN
    assert proof.kernels[0].also_in == ("fused_adam_cuda",)


@pytest.mark.parametrize(("said", "code", "words"), [
    ({"error": {"kinds": ["RuntimeError"], "text": "boom\nadvice"}}, "call-failed", "boom."),
    ({"error": {"kinds": ["X"], "text": "no kernel image is available"}}, "no-kernel-image-run",
     "no kernel image"),
    ({"error": {"kinds": ["X"], "text": "compiled with an unsupported toolchain."}},
     "ptx-toolchain", "toolchain"),
    ({"error": {"kinds": ["X"], "text": "CUDA out of memory."}}, "gpu-busy", "memory"),
    ({"error": {"kinds": ["X"], "text": "driver version is insufficient"}}, "driver-too-old",
     "driver"),
    ({"hang": 60.0}, "call-failed", "60 seconds"),
    ({"ended": "SIGSEGV"}, "call-failed", "SIGSEGV"),
    ({}, "call-failed", "recorded nothing"),
])
def test_each_way_of_failing_has_its_finding(said, code, words):
    found = judged(NAME, answer(NAME, **said))
    assert [x.code for x in found.findings] == [code]
    assert words in found.findings[0].message and "advice" not in found.findings[0].message
    assert not found.all


def test_a_fault_that_needs_another_current_device_is_named_as_that():
    fine = answer(NAME, phase(launch(NORM)), device="cuda:1")
    off = answer(NAME, phase(launch(NORM), errors=[{**GATE, "error": 1e6}]), device="cuda:1",
                 current="cuda:0")
    found = judged(NAME, fine, off)
    assert [x.code for x in found.findings] == ["wrong-device"]
    assert "while cuda:0 is the current" in found.findings[0].message
    # Apex as it is does that on any machine with two GPUs, so it stands in no proof's way.
    assert found.all and found.findings[0].severity == "warning"
    assert not judged(NAME, off).all
    # Wrong either way, it is no matter of the current device.
    both = judged(NAME, replace(off, current=""), off)
    assert [x.code for x in both.findings] == ["wrong-numbers"]


def test_a_call_that_this_ref_lacks_is_a_gap_only_where_it_is_required():
    said = {"phases": [], "unsupported": "no such class"}
    gap = judged(NAME, answer(NAME, **said))
    assert [x.code for x in gap.findings] == ["call-unsupported"]
    assert verdicts(answer(NAME, **said)) == [UNSUPPORTED]
    optional = next(call for call in CALLS if call.extension == NAME and not call.required)
    more = proofs.Answer(optional, "fp32", "cuda:0", "", said)
    assert judged(NAME, answer(NAME, phase(launch(NORM))), more).all
    # Optional calls alone prove nothing.
    assert not judged(NAME, more).all


def test_many_wrong_calls_are_one_finding():
    off = phase(launch(NORM), errors=[{**GATE, "error": 1e6}])
    found = judged(NAME, answer(NAME, off), replace(answer(NAME, off), dtype="bf16"))
    assert [x.code for x in found.findings] == ["wrong-numbers"]
    assert "1 more of its calls" in found.findings[0].message


def test_an_extension_without_a_known_call_is_not_guessed_at():
    found = proofs.judge_extension("xentropy_cuda", seen(), "make image")
    assert [x.code for x in found.findings] == ["no-call-known"] and not found.all


CONTROL = {"add": {"profiler": [launch(ADD)], "interposer": None},
           "layer_norm": {"profiler": [launch(TORCH)], "interposer": None}}
BLINDED = {"add": {"profiler": [], "interposer": None},
           "layer_norm": {"profiler": [], "interposer": None}}


def test_an_instrument_that_went_blind_on_the_way_does_not_count():
    task = {"kind": "case", "call": number(NAME), "dtype": "fp32", "current": None}
    ran = proofs.Ran("cuda:0", [CONTROL, CONTROL], [(task, {"phases": [phase(launch(NORM))]})])
    assert proofs.called([ran], REGISTERED).instruments == ("profiler",)
    later = replace(ran, controls=[CONTROL, BLINDED])
    assert proofs.called([later], REGISTERED).instruments == ()


def test_an_instrument_counts_only_if_it_sees_on_every_device():
    ran = [proofs.Ran("cuda:0", [CONTROL]), proofs.Ran("cuda:1", [BLINDED])]
    found = proofs.called(ran, REGISTERED)
    assert found.instruments == () and found.working["cuda:0"] == PROFILER


def test_a_known_fallback_is_told_only_when_it_was_seen():
    known = next(index for index, one in enumerate(FALLBACKS) if one.extension == NAME)

    def said(*launches, controls=CONTROL):
        task = {"kind": "fallback", "fallback": known}
        ran = proofs.Ran("cuda:0", [controls], [], [(task, {"phases": [phase(*launches)]})])
        return [one.code for one in proofs.known_fallbacks(proofs.called([ran], REGISTERED))]

    assert said(launch(TORCH)) == [FALLBACKS[known].code]
    assert said(launch(NORM)) == []  # this ref does run its kernel there
    assert said(launch(TORCH), controls=BLINDED) == []
