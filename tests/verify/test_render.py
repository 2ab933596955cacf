"""The report for people: what it says first, and that nothing is cut or made to look good."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from apexlab.verify import render, summary
from apexlab.verify.report import Device, Finding, schema

MADE = runpy.run_path(str(Path(__file__).parent / "reports" / "made.py"))
EVERY = MADE["EVERY"]
proof = MADE["proof"]


def text(report) -> str:
    return render.text(report, None, False)


def row(report, name: str) -> str:
    """The lines of one extension's row, as one."""
    lines = text(report).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(name + " "))
    last = next((n for n in range(first + 1, len(lines)) if not lines[n].startswith("    ")),
                len(lines))
    return " ".join(" ".join(lines[first:last]).split())


@pytest.mark.parametrize(("made", "first"), [
    ("proven", "PROVEN   13 of 13 extensions asked for ran on this GPU; no fallback   6.1 s"),
    ("fallback", "FALLBACK   FusedRMSNorm forward in bf16 ran without fused_layer_norm_cuda on "
                 "cuda:0; 12 of 13 extensions asked for ran on this GPU   6.1 s"),
    ("broken", "BROKEN   FusedAdam step in fp32 computes wrong numbers on cuda:0: its error is "
               "812, the limit 8; 1 more below   6.1 s"),
    ("no_gpu", "INCOMPLETE   13 of 13 extensions asked for are there and were imported; not "
               "everything asked for could be checked   6.1 s"),
    ("static", "OK   13 of 13 extensions asked for are there and fit, as far as their files tell   "
               "6.1 s"),
    ("two_gpus", "INCOMPLETE   12 of 13 extensions asked for ran on each of 2 GPUs; not everything "
                 "asked for could be checked   6.1 s"),
    ("nothing", "BROKEN   Apex is not installed in this environment: neither the package nor an "
                "extension is there"),
])
def test_the_verdict_comes_first(made, first):
    assert text(EVERY[made]()).splitlines()[0] == first


def test_the_environment_comes_second():
    assert text(EVERY["proven"]()).splitlines()[1] == (
        "torch 2.11.0+cu130 · Apex 6424da3b · NVIDIA H200 (9.0) · driver 580.159.04")
    assert "2 × NVIDIA H200 (9.0)" in text(EVERY["two_gpus"]()).splitlines()[1]


def test_proofs_are_summed_up_in_their_extensions_row():
    report = EVERY["proven"]()
    assert row(report, "amp_C") == (
        "amp_C proven sm_90 FusedAdam, multi_tensor_scale · fp32 4 launches · error 0.9 of 8")
    assert row(report, "fused_layer_norm_cuda") == (
        "fused_layer_norm_cuda proven sm_90 FusedLayerNorm, FusedRMSNorm · fwd bwd "
        "fp32 fp16 bf16 · 24 launches error 1.2 of 8")
    assert row(report, "apex_C") == "apex_C proven - flatten · fp32 · called · error 0 of 8"


def test_what_is_not_proven_comes_before_what_is():
    assert row(EVERY["fallback"](), "fused_layer_norm_cuda") == (
        "fused_layer_norm_cuda loaded sm_90 ran without it: FusedRMSNorm · fwd bwd bf16 "
        "FusedLayerNorm · fwd bwd · fp32 fp16 bf16 12 launches · error 1.2 of 8")
    assert "wrong numbers: FusedAdam · fp32 error 812 of 8" in row(EVERY["broken"](), "amp_C")


def test_a_result_that_is_not_finite_is_no_small_error():
    bad = (proof(error=None, verdict="wrong-numbers"), proof(error=9.0, verdict="wrong-numbers"))
    report = MADE["changed"](EVERY["broken"](), "amp_C", proofs=bad)
    assert "error not finite of 8" in row(report, "amp_C")


def test_launches_of_torchs_kernels_are_not_counted():
    report = MADE["changed"](EVERY["proven"](), "amp_C", proofs=(
        proof(count=3), proof(count=70, own=False)))
    assert " 3 launches" in row(report, "amp_C")


def test_with_several_gpus_the_one_that_differs_is_named():
    report = EVERY["two_gpus"]()
    assert "cuda" not in row(report, "amp_C").removeprefix("amp_C")
    norms = row(report, "fused_layer_norm_cuda")
    assert "seen by no instrument: FusedLayerNorm, FusedRMSNorm" in norms
    assert norms.index("cuda:1") < norms.index("cuda:0 · 24 launches")


def test_a_status_below_the_level_asked_for_is_not_painted_as_good():
    styles = {line.mark.split()[0]: line.style for line in render.lines(EVERY["two_gpus"]())
              if line.mark.strip()}
    assert styles["amp_C"] == "proven"
    assert styles["fused_layer_norm_cuda"] == "incomplete"


def test_without_proofs_the_table_counts_the_kernels():
    head, *rows = text(EVERY["static"]()).splitlines()[3:]
    assert head.split() == ["extension", "status", "kernels", "code", "for"]
    assert "amp_C present 42 sm_90" in [" ".join(each.split()) for each in rows]


@pytest.mark.parametrize("targets", [
    ("sm_90",), ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")])
def test_names_and_targets_are_never_cut_and_the_proofs_keep_the_width(targets):
    report = EVERY["proven"]()
    report = replace(report, extensions=tuple(
        replace(one, targets=targets) for one in report.extensions))
    shown = text(report)
    for one in report.extensions:
        assert one.name in shown
    assert shown.count(" ".join(targets)) == len(report.extensions)
    fixed = len("scaled_upper_triang_masked_softmax_cuda  proven  kernels  ") + len(
        " ".join(targets))
    assert max(map(len, shown.splitlines())) <= max(100, fixed)
    assert "FusedLayerNorm, FusedRMSNorm · fwd bwd" in shown


def test_where_the_targets_leave_no_room_the_proofs_go_below_their_row():
    report = MADE["changed"](EVERY["proven"](), "amp_C", targets=("sm_90",) * 6)
    lines = text(report).splitlines()
    assert lines[3].split() == ["extension", "status", "kernels", "code", "for"]
    at = next(n for n, line in enumerate(lines) if line.startswith("amp_C "))
    assert lines[at].split() == ["amp_C", "proven", "42", *["sm_90"] * 6]
    assert lines[at + 1] == (
        "    FusedAdam, multi_tensor_scale · fp32 · 4 launches · error 0.9 of 8")


def test_a_finding_is_shown_once_with_its_code_and_its_fix():
    for line in text(EVERY["broken"]()).splitlines():
        assert len(line) <= 100 or line.startswith("BROKEN")
    shown = text(EVERY["broken"]())
    assert shown.count("error  wrong-numbers: ") == 1
    assert "  fix: Build again: make image." in shown


def test_a_long_name_in_a_finding_is_not_torn_apart():
    name = "_ZN3c104cuda" + "x" * 200
    report = replace(EVERY["broken"](), findings=(
        Finding("undefined-symbol", "error", f"amp_C needs {name}, which is not here.", ""),))
    assert f"  {name},\n" in text(report)


def test_a_fix_is_never_wrapped_since_it_is_copied():
    fix = "pip install " + " ".join(f"package{n}" for n in range(40))
    report = replace(EVERY["broken"](), findings=(Finding("crash", "error", "It crashes.", fix),))
    assert f"  fix: {fix}\n" in text(report)


def test_a_model_ends_the_report():
    shown = text(EVERY["with_model"]())
    end = [" ".join(line.split()) for line in shown[shown.index("\nmodel "):].splitlines()]
    assert "model train:factory on cuda:0: 19.2 % of the GPU time in Apex's kernels" in end
    assert "24 Apex norm apex.normalization.fused_layer_norm.FusedLayerNorm" in end
    assert "1 not Apex optimizer torch.optim.adamw.AdamW" in end
    assert ("19.2 % 24 fused_layer_norm_cuda void cuApplyLayerNorm<float, float, float>(float*)"
            in end)
    assert end[-1] == "and 5 more kernels"


def test_a_model_without_known_times_has_no_share_of_time():
    model = EVERY["with_model"]().model
    unknown = replace(model, apex_share=None, kernels=tuple(
        replace(one, microseconds=None) for one in model.kernels))
    assert summary.apex_share(unknown) == "24 of 129 launches are Apex's"
    assert summary.time_share(unknown, unknown.kernels[0]) == ""
    assert summary.top_kernels(unknown)[0].count == 24
    assert summary.apex_share(MADE["with_model"](apex=False).model) == "no kernel was seen"


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("made", EVERY)
def test_no_control_character_reaches_the_terminal(made, colour):
    shown = render.text(EVERY[made](), None, colour)
    shown = shown.replace("\x1b[0m", "")
    for code in ("1", "2", "31", "32", "33", "1;31", "1;32", "1;33"):
        shown = shown.replace(f"\x1b[{code}m", "")
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_another_gpu_is_told_apart():
    report = EVERY["proven"]()
    mixed = (Device("NVIDIA H200", "9.0"), Device("Tesla T4", "7.5"))
    report = replace(report, environment=replace(report.environment, devices=mixed))
    assert "NVIDIA H200 (9.0), Tesla T4 (7.5)" in summary.environment(report)


@pytest.mark.parametrize("made", [name for name in EVERY if name != "hostile"])
def test_the_reports_that_the_tests_use_fit_the_schema(made):
    jsonschema.validate(json.loads(EVERY[made]().to_json()), schema("verify-1"))


def test_a_report_is_read_back_from_its_json(tmp_path):
    for made in ("proven", "two_gpus", "with_model", "nothing"):
        report = EVERY[made]()
        (tmp_path / "report.json").write_text(report.to_json())
        assert MADE["read"](tmp_path / "report.json") == report
