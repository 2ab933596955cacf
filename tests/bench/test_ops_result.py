"""From the rows of `bench ops` to its result, its advice and its exit code. All figures are made
up."""

from __future__ import annotations

import copy
import json

import made_ops
import pytest

from apexlab.bench.ops.cases import OPS
from apexlab.bench.ops.result import exit_codes, make_result


def advice(result):
    return {each["part"]: each for each in result["advice"]}


def points(rows, **same):
    return [row for row in rows if row["row"] == "point"
            and all(row[key] == value for key, value in same.items())]


def scaled(rows, factor, kinds=("cold", "hot", "host", "call"), **same):
    for row in points(rows, **same):
        if row["us"]:
            row["us"] = {kind: [[us * factor for us in one] for one in rounds]
                         if kind in kinds else rounds for kind, rounds in row["us"].items()}
    return rows


def like(rows, op, provider, base):
    """Give a provider the times of another one."""
    theirs = {(row["case"], row["dtype"], row["autocast"], row["direction"]): row["us"]
              for row in points(rows, op=op, provider=base)}
    for row in points(rows, op=op, provider=provider):
        row["us"] = copy.deepcopy(theirs[row["case"], row["dtype"], row["autocast"],
                                         row["direction"]])
    return rows


@pytest.fixture
def rows():
    return copy.deepcopy(ROWS)


ROWS = made_ops.rows()


def test_a_rate_is_the_fewest_bytes_over_the_cold_kernel_time(rows):
    for row in points(rows, op="adam", provider="torch-fused"):
        row["us"]["cold"] = [[100.0, 100.0], [100.0]]
    found = [point for point in make_result(rows)["points"]
             if (point["op"], point["provider"], point["case"], point["dtype"]) == (
                 "adam", "torch-fused", "4 x 4 Mi", "float32")]
    point, = found
    assert point["gbps"] == pytest.approx(2**24 * 28 / 100e-6 / 1e9)
    assert point["share_of_copy"] == pytest.approx(point["gbps"] / made_ops.COPY)
    assert point["cold_us"] == {"median": 100.0, "iqr": 0.0, "count": 3}


def test_a_faster_call_is_to_be_used_and_a_slower_one_to_be_left(rows):
    rows = like(rows, "layernorm", "apex", "torch")
    for factor, verdict, word in ((0.8, "use", "pays"), (1.2, "leave", "does not pay"),
                                  (1.0, "same", "makes no difference")):
        result = make_result(scaled(copy.deepcopy(rows), factor, op="layernorm", provider="apex"))
        for mode in ("FP32", "BF16", "BF16 autocast"):
            said = advice(result)[f"FusedLayerNorm, {mode}"]
            assert said["verdict"] == verdict
            assert said["evidence"]["ratio"] == pytest.approx(1 / factor, rel=0.01)
        assert f"FusedLayerNorm {word} (FP32" in result["headline"]
        assert result["headline"].startswith("NVIDIA H200, torch 2.11.0+cu130: ")


def test_a_kernel_that_is_ahead_of_its_call_is_said_apart(rows):
    rows = like(rows, "adam", "apex", "torch-fused")
    rows = scaled(rows, 0.8, ("cold",), op="adam", provider="apex")
    said = advice(make_result(rows))["FusedAdam, FP32"]
    assert said["verdict"] == "same"
    assert "Its kernels are faster, and its call is not: the kernels take 0.80× the time of the " \
        "other's, the host 1.00×." in said["sentence"]
    slower = scaled(like(copy.deepcopy(rows), "adam", "apex", "torch-fused"), 1.25, ("cold",),
                    op="adam", provider="apex")
    assert "Its kernels are slower, and its call is not" in \
        advice(make_result(slower))["FusedAdam, FP32"]["sentence"]


def test_what_is_within_the_noise_of_the_baseline_is_not_called_faster(rows):
    rows = like(rows, "adam", "apex", "torch-fused")
    rows = scaled(rows, 0.9, op="adam", provider="apex")
    assert advice(make_result(rows))["FusedAdam, FP32"]["verdict"] == "use"
    for row in points(rows, op="adam", provider="torch-fused"):
        row["control"] = {kind: [[us * 1.2 for us in one] for one in rounds]
                          for kind, rounds in row["us"].items()}
    result = make_result(rows)
    said = advice(result)["FusedAdam, FP32"]
    assert said["verdict"] == "undecided" and said["evidence"]["floor"] > 0.15
    assert "the baseline differs from itself by up to" in said["sentence"]
    noise = {(each["op"], each["kind"]): each for each in result["noise"]}
    assert noise["adam", "call"]["noise"] == "biased"
    assert noise["layernorm", "call"]["noise"] == "quiet"


def test_without_a_control_nothing_is_called_faster_or_slower(rows):
    rows = scaled(like(rows, "adam", "apex", "torch-fused"), 0.5, op="adam", provider="apex")
    for row in points(rows):
        row.pop("control")
    said = advice(make_result(rows))["FusedAdam, FP32"]
    assert said["verdict"] == "undecided" and "noise of this run is not known" in said["sentence"]


def test_a_point_that_was_measured_again_counts_once_and_the_last_time(rows):
    again = copy.deepcopy(points(rows, op="adam", provider="torch-fused")[0])
    again["us"]["call"] = [[7.0], [7.0]]
    result = make_result([*rows, again])
    assert len(result["points"]) == len(points(rows)) and result["state"] == "complete"
    assert 7.0 in [(each["call_us"] or {}).get("median") for each in result["points"]]


def test_a_point_of_another_package_says_its_version(rows):
    for row in points(rows, op="adam", provider="deepspeed"):
        row["version"] = "0.19.8"
    titles = {each["title"] for each in make_result(rows)["points"]
              if each["provider"] == "deepspeed"}
    assert titles == {"DeepSpeed 0.19.8"}


def test_the_presets_own_tensors_decide_for_adam(rows):
    rows = like(rows, "adam", "apex", "torch-fused")
    rows = scaled(rows, 3.0, op="adam", provider="apex", case="256 x 64 Ki")
    assert advice(make_result(rows))["FusedAdam, FP32"]["verdict"] == "same"
    rows = scaled(rows, 3.0, op="adam", provider="apex", case="gpt-small")
    assert advice(make_result(rows))["FusedAdam, FP32"]["verdict"] == "leave"


def test_widths_that_disagree_decide_nothing(rows):
    rows = like(rows, "rmsnorm", "apex", "torch")
    rows = scaled(rows, 0.7, op="rmsnorm", provider="apex", case="width 768")
    rows = scaled(rows, 1.4, op="rmsnorm", provider="apex", case="width 8192")
    assert advice(make_result(rows))["FusedRMSNorm, FP32"]["verdict"] == "undecided"


def test_kernels_that_were_not_proven_carry_no_name(rows):
    for row in points(rows, op="layernorm", provider="apex"):
        row["proof"] = {"verdict": "not-proven", "why": "the norm ran none.", "parts": []}
    result = make_result(rows)
    for point in result["points"]:
        if (point["op"], point["provider"]) == ("layernorm", "apex"):
            assert point["label"] is None
            assert point["title"] == "not proven to be Apex"
    said = advice(result)["FusedLayerNorm"]
    assert said["verdict"] == "untested"
    assert said["sentence"].endswith("cannot be called Apex's: the norm ran none.")
    assert 5 in exit_codes(result)
    assert any("Not proven" in text and "layernorm by apex" in text for text in result["warnings"])


def test_an_apex_of_unknown_origin_carries_no_name_however_well_it_is_proven(rows):
    next(row for row in rows if row["row"] == "subject")["apex"]["label"] = None
    result = make_result(rows)
    assert {point["label"] for point in result["points"]} == {None}
    assert "has no build record" in advice(result)["FusedLayerNorm"]["sentence"]
    assert exit_codes(result) == [0]


def test_with_the_stand_in_no_figure_is_said_of_apex():
    result = made_ops.result("stand-in")
    assert "so nothing is said of Apex" in result["headline"]
    for point in result["points"]:
        if point["label"]:
            assert point["label"] == "stand-in"
            assert "Apex" not in point["title"]
    for each in result["advice"]:
        if each["evidence"] and each["evidence"]["scenario"].startswith("apex"):
            told, _, note = each["sentence"].rpartition("This is the stand-in")
            assert note == ", and says nothing about Apex."
            assert "Apex" not in told


def test_without_apex_the_answer_is_about_torch_alone():
    result = made_ops.result(None)
    assert "Apex is not installed, so nothing is said of it." in result["headline"]
    assert "torch fused AdamW pays" in result["headline"]
    assert all(each["verdict"] == "untested" for each in result["advice"]
               if each["part"].startswith("Fused"))
    assert exit_codes(result) == [0]


def test_a_failed_provider_is_a_problem_and_leaves_the_others(rows):
    for row in points(rows, op="adam", provider="torch-fused"):
        row.update(state="failed", why="out of GPU memory", us={})
    result = make_result(rows)
    assert 1 in exit_codes(result)
    assert advice(result)["FusedAdam, capturable"]["verdict"] == "untested"
    assert advice(result)["FusedLayerNorm, FP32"]["evidence"]
    assert any("adam by torch-fused" in text for text in result["warnings"])


def test_what_is_finished_makes_a_partial_result(rows):
    cut = [row for row in rows if row["row"] != "point" or row["op"] == "adam"]
    cut = [row for row in cut if row["row"] != "process" or row["op"] == "adam"]
    result = make_result(cut)
    assert result["state"] == "partial"
    assert any(text.endswith("points were finished.") for text in result["warnings"])
    assert make_result(rows)["state"] == "complete"


def test_a_disturbed_gpu_and_another_clock_are_said(rows):
    next(row for row in rows if row["row"] == "process" and row["op"] == "rmsnorm")["causes"] = [
        "thermal-slowdown"]
    points(rows, op="clip", provider="torch")[0]["clock_why"] = "the profiler shows no kernels here"
    result = make_result(rows)
    assert "The GPU slowed down because it was hot, in: rmsnorm." in result["warnings"]
    assert any(text.endswith("latency of launches: the profiler shows no kernels here.")
               for text in result["warnings"])
    assert {point["clock"] for point in result["points"] if point["cold_us"]} == {
        "profiler", "events"}


def test_a_cpu_has_times_of_calls_alone():
    result = made_ops.result(None, device="cpu", quick=True)
    for point in result["points"]:
        assert point["cold_us"] is None
        assert point["gbps"] is None
    assert result["copy_gbps"] is None


def test_the_same_rows_give_the_same_result_and_the_order_of_operations_no_other_hash(rows):
    assert json.dumps(make_result(rows)) == json.dumps(make_result(copy.deepcopy(rows)))
    other = made_ops.rows(ops=OPS[:1])
    assert make_result(other)["configuration_hash"] != make_result(rows)["configuration_hash"]
