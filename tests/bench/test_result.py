"""The result of a training comparison, from made-up rows."""

import json
import math

import jsonschema
import made_ops
import made_result as made
import pytest

from apexlab.bench.planning.preset_file import find_preset
from apexlab.bench.result import result_file
from apexlab.bench.result.flags import FLAGS
from apexlab.bench.result.result import make_result
from apexlab.bench.result.result_file import read_result
from apexlab.verify.errors import UsageError

SCHEMA = json.loads((result_file.SCHEMA_FILE).read_text())
FEW = ["torch-fp32", "torch-amp-fp16", "apex-fp32", "torch-tf32"]


def entry(result, name):
    return next(each for each in result["scenarios"] if each["name"] == name)


def valid(result):
    json.dumps(result, allow_nan=False)
    jsonschema.Draft202012Validator(SCHEMA).validate(result)
    return result


@pytest.fixture(scope="module")
def everything():
    return made.result()


@pytest.mark.parametrize("given", [
    {}, {"label": "stand-in"}, {"label": None}, {"label": None, "device": "cpu"},
    {"ladder": "classic", "rounds": 1}, {"ladder": "classic", "finished": 2},
    {"ladder": "incremental", "finished": 0}, {"names": ["torch-fp32"]},
    {"ladder": "modern", "gpus": 2, "rounds": 2}, {"ladder": "classic", "flat": True}])
def test_every_made_result_keeps_the_schema(given):
    valid(made.result(**given))


def test_a_result_with_every_trouble_keeps_the_schema():
    valid(made.awkward())


@pytest.mark.parametrize("given", [
    {}, {"label": "stand-in"}, {"label": None, "device": "cpu"}, {"failed": ["torch-fused"]}])
def test_every_made_result_of_operations_keeps_the_schema(given):
    valid(made_ops.result(**given))


@pytest.mark.parametrize("spoil", [
    lambda result: result.pop("headline"),
    lambda result: result.update(kind="other"),
    lambda result: entry(result, "apex-fp32").update(state="fine"),
    lambda result: entry(result, "apex-fp32")["proof"].update(verdict="not-proven"),
    lambda result: entry(result, "torch-amp-fp16")["speedup"].update(ratio=-1.0),
    lambda result: result["environment"]["apex"].update(label="apex")])
def test_the_schema_refuses_what_is_wrong(spoil):
    result = made.result(names=FEW)
    spoil(result)
    with pytest.raises(jsonschema.ValidationError):
        valid(result)


def test_a_known_ratio_is_found():
    result = made.result(names=FEW, factors={"apex-fp32": 1.10 / 1.06 / 0.9933333}, noise=0.001)
    speed = entry(result, "apex-fp32")["speedup"]
    assert speed["ratio"] == pytest.approx(1 / 1.10, rel=0.005)
    assert speed["low"] <= 1 / 1.10 <= speed["high"]
    assert speed["verdict"] == "SLOW"


@pytest.mark.parametrize("slower, verdict", [(1.03, "SLOW"), (1.003, "SAME")])
def test_three_percent_are_found_and_a_third_of_one_is_not_called(slower, verdict):
    """One scenario against its twin: the two FP32 rows of torch differ by 0.7 % as made."""
    result = made.result(names=["torch-fp32", "torch-fused-fp32"], noise=0.001,
                         factors={"torch-fused-fp32": slower / 0.99266667})
    assert entry(result, "torch-fused-fp32")["speedup"]["verdict"] == verdict


def test_a_step_is_read_against_what_the_ladder_says(everything):
    rung = entry(everything, "apex-fp32")
    assert rung["against"] == "torch-fp32"
    step = entry(everything, "torch-fused-amp-bf16-compile")
    assert step["against"] == "torch-fused-amp-bf16"
    assert step["step"]["ratio"] == pytest.approx(1.35, rel=0.01)
    assert step["speedup"]["ratio"] == pytest.approx(
        step["step"]["ratio"] * entry(everything, step["against"])["speedup"]["ratio"], rel=0.01)


def test_named_scenarios_are_read_against_the_baseline_where_their_own_is_not_there():
    result = made.result(names=["torch-fp32", "torch-fused-amp-bf16-compile"])
    found = entry(result, "torch-fused-amp-bf16-compile")
    assert (found["against"], set(found["changes"])) == (
        "torch-fp32", {"optimizer", "precision", "compile"})
    assert found["step"] == found["speedup"]


def test_tf32_is_the_second_baseline(everything):
    found = entry(everything, "torch-amp-bf16")
    assert found["speedup_over_tf32"]["ratio"] == pytest.approx(6.0 / 2.9, rel=0.01)
    assert entry(everything, "torch-tf32")["speedup_over_tf32"] is None
    few = made.result(ladder="classic")
    assert {each["speedup_over_tf32"] for each in few["scenarios"]} == {None}


def test_the_baseline_has_no_speedup_over_itself(everything):
    base = entry(everything, "torch-fp32")
    assert (base["speedup"], base["step"], base["parity"]["verdict"]) == (None, None, "baseline")


def test_one_round_decides_nothing():
    result = made.result(names=FEW, rounds=1)
    speed = entry(result, "torch-amp-fp16")["speedup"]
    assert (speed["low"], speed["high"], speed["verdict"]) == (None, None, "UNDECIDED")
    assert all("one-round" in each["flags"] for each in result["scenarios"])
    assert result["noise"]["noise"] == "unknown"


def test_the_noise_of_the_control_widens_what_is_undecided():
    result = made.result(names=FEW, noise=0.05, factors={"apex-fp32": 0.97}, rounds=3)
    floor = result["noise"]["floor"]
    assert floor > 0.02
    assert entry(result, "apex-fp32")["speedup"]["floor"] == floor
    assert entry(result, "apex-fp32")["speedup"]["verdict"] == "UNDECIDED"
    assert any("is called a difference" in text for text in result["warnings"])


def test_tokens_per_second_follow_the_median(everything):
    found, preset = entry(everything, "torch-amp-fp16"), find_preset("gpt-small")
    assert found["tokens_per_second"] == pytest.approx(preset.tokens / found["time"]["median"])
    assert found["samples_per_second"] == pytest.approx(preset.batch / found["time"]["median"])


def test_energy_is_that_of_a_step(everything):
    """610 W for each second of the window, as made."""
    found = entry(everything, "torch-fp32")
    assert found["energy"]["joules_per_step"] == pytest.approx(
        610 * found["time"]["median"], rel=0.01)
    assert found["energy"]["tokens_per_joule"] == pytest.approx(
        1 / found["energy"]["joules_per_token"])


def test_void_blocks_took_energy_too():
    plan = made.plan(names=FEW, rounds=2)
    rows = made.rows(plan)
    for row in rows:
        if row["row"] == "run":
            row["result"]["void_blocks"] = 10  # as many as counted
    found = entry(make_result(plan, rows, made.apex(), None), "torch-amp-fp16")
    whole = entry(made.result(names=FEW, rounds=2), "torch-amp-fp16")
    assert found["energy"]["joules_per_step"] == pytest.approx(
        whole["energy"]["joules_per_step"] / 2)
    assert "skipped" in found["flags"]


def test_mfu_is_against_the_dtype_that_ran(everything):
    preset = find_preset("gpt-small")
    for name, dtype, tflops in (("torch-fp32", "fp32", 66.9), ("torch-tf32", "tf32", 494.7),
                                ("torch-amp-bf16", "bf16", 989.4)):
        found = entry(everything, name)
        assert (found["mfu_peak"]["dtype"], found["mfu_peak"]["tflops"]) == (dtype, tflops)
        assert found["mfu"] == pytest.approx(
            preset.flops() / (found["time"]["median"] * tflops * 1e12))


def test_tf32_that_did_not_run_is_not_called_tf32():
    plan = made.plan(names=FEW, rounds=2)
    rows = made.rows(plan)
    for row in rows:
        if row["row"] == "look":
            row["result"]["product_error"] = {"torch-tf32": 2e-7, "torch-fp32": 3e-4}.get(
                row["scenario"], 2e-7)
    result = valid(make_result(plan, rows, made.apex(), None))
    assert entry(result, "torch-tf32")["mfu_peak"]["dtype"] == "fp32"
    assert "tf32-missing" in entry(result, "torch-tf32")["flags"]
    assert "tf32-found" in entry(result, "torch-fp32")["flags"]


def test_a_cpu_has_no_gpu_figures():
    result = made.result(label=None, device="cpu", ladder="modern")
    found = entry(result, "torch-fused-amp-bf16")
    assert found["state"] == "measured"
    assert (found["mfu"], found["energy"], found["gpu_busy"], found["telemetry"]) == (None,) * 4
    half = entry(result, "torch-fused-amp-fp16")
    assert (half["state"], half["time"]) == ("not-available", None)
    assert "not available on a CPU" in half["why"]


def test_failed_and_absent_scenarios_say_why():
    result = made.awkward()
    failed = entry(result, "torch-fused-amp-bf16-graph")
    assert (failed["state"], failed["speedup"]) == ("failed", None)
    assert "out of memory" in failed["why"]
    assert entry(result, "torch-tf32")["state"] == "not-available"


def test_a_scenario_that_failed_in_one_round_keeps_the_others():
    plan = made.plan(names=FEW, rounds=4)
    rows = made.rows(plan)
    for row in rows:
        if row["row"] == "run" and (row["round"], row["scenario"]) == (2, "torch-tf32"):
            row["result"] = {"kind": "time", "ending": "failed", "why": "killed by signal 9",
                             "environment": {}}
    found = entry(valid(make_result(plan, rows, made.apex(), None)), "torch-tf32")
    assert found["state"] == "partial"
    assert "round 3: killed by signal 9" in found["why"]
    assert [each["round"] for each in found["time"]["rounds"]] == [0, 1, 3]
    assert len(found["speedup"]["rounds"]) == 3


def test_an_interrupted_run_keeps_its_finished_rounds():
    result = made.result(names=FEW, rounds=5, finished=2)
    assert (result["state"], result["plan"]["rounds_finished"]) == ("partial", 2)
    assert entry(result, "torch-amp-fp16")["state"] == "measured"
    assert entry(result, "torch-amp-fp16")["speedup"]["verdict"] == "FAST"
    assert any("--resume" in text for text in result["warnings"])


def test_of_a_first_round_that_was_cut_the_times_are_shown_and_not_compared():
    plan = made.plan(names=FEW, rounds=3)
    rows = made.rows(plan, finished=1)[:-1]
    result = valid(make_result(plan, rows, made.apex(), None))
    ran = {row["scenario"] for row in rows if row["row"] == "run" and not row["control"]}
    for each in result["scenarios"]:
        assert each["state"] == "partial"
        assert (each["time"] is not None) == (each["name"] in ran)
        assert each["speedup"] is None


def test_without_a_single_run_there_is_still_a_result():
    result = valid(made.result(names=FEW, finished=0))
    assert result["state"] == "partial"
    assert {each["state"] for each in result["scenarios"]} == {"partial"}


def test_the_same_rows_give_the_same_result(everything):
    plan = made.plan()
    assert make_result(plan, made.rows(plan), made.apex(), None) == everything


def test_the_label_needs_proof_in_every_process():
    plan = made.plan(names=FEW, rounds=3)
    rows = made.rows(plan)
    bad = next(row for row in rows if row["row"] == "run" and row["scenario"] == "apex-fp32")
    bad["proof"] = {"verdict": "not-proven", "why": "torch's norm ran.", "parts": []}
    found = entry(valid(make_result(plan, rows, made.apex(), None)), "apex-fp32")
    assert found["label"] is None
    assert found["proof"]["why"] == "torch's norm ran."
    assert found["title"] == "FP32, norm not Apex's, optimizer not Apex's"
    assert "not-proven" in found["flags"]


def test_two_scenarios_that_were_not_proven_keep_different_titles():
    every = made.result(unproven=[name for name in made.plan()["scenarios"] if "apex" in name])
    titles = [each["title"] for each in every["scenarios"]]
    assert len(set(titles)) == len(titles)
    assert not any(title.startswith("apex") for title in titles)


def test_a_lie_in_the_names_of_a_scenario_is_caught():
    """A scenario that is called Apex's, and of which each process ran torch's code."""
    found = entry(made.result(names=FEW, unproven=["apex-fp32"]), "apex-fp32")
    assert found["label"] is None
    assert not found["title"].startswith("apex")


def test_what_no_record_calls_apex_is_not_called_apex():
    plan = made.plan(names=FEW, rounds=2)
    result = valid(make_result(plan, made.rows(plan), {**made.apex(), "label": None}, None))
    found = entry(result, "apex-fp32")
    assert (found["label"], found["title"]) == (None, "FP32, fused norm, FusedAdam")
    assert "unrecorded" in found["flags"]


def test_the_stand_in_never_carries_apexs_name():
    result = made.result(label="stand-in")
    for each in result["scenarios"]:
        assert "apex" not in each["title"].lower()
        assert "apex" not in each["shows"].lower()
        if each["name"].startswith("apex"):
            assert each["label"] == "stand-in"
            assert "stand-in" in each["flags"]


def test_kernels_that_nobody_asked_for_are_told():
    plan = made.plan(names=FEW, rounds=2)
    rows = made.rows(plan)
    for row in rows:
        if row.get("scenario") == "torch-fp32":
            row["proof"] = {"verdict": "not-needed", "why": "3 kernels of amp_C ran.", "parts": []}
    result = make_result(plan, rows, made.apex(), None)
    assert "uninvited" in entry(result, "torch-fp32")["flags"]
    assert any("They are no baselines" in text for text in result["warnings"])


def test_kernels_have_owners_and_apex_its_share(everything):
    found = entry(everything, "apex-fp32")
    owners = {each["name"]: each["owner"] for each in found["top_kernels"]}
    assert owners[made.ADAM] == "amp_C"
    assert owners[made.NORM] == "fused_layer_norm_cuda"
    assert owners["elementwise_made_up"] == "torch"
    assert found["apex_share"] == pytest.approx(0.1)
    assert sum(each["share"] for each in found["top_kernels"]) == pytest.approx(1)
    assert entry(everything, "torch-fp32")["apex_share"] is None


def test_on_several_gpus_there_is_efficiency_and_a_slowest_rank():
    found = entry(made.result(names=FEW, gpus=2), "torch-amp-fp16")
    assert found["gpus"]["efficiency"] == pytest.approx(0.95, rel=0.01)
    assert found["gpus"]["slowest_rank"] == 1
    assert found["tokens_per_second"] == pytest.approx(
        2 * found["gpus"]["per_gpu_tokens_per_second"])


@pytest.mark.parametrize("cause", ["power-cap", "contended"])
def test_what_disturbed_a_round_is_flagged(cause):
    result = made.result(names=FEW, rounds=2, causes={1: [cause]})
    assert all(cause in each["flags"] for each in result["scenarios"])
    assert any("torch-fp32" in text for text in result["warnings"])


def test_flags_have_a_meaning(everything):
    for result in (everything, made.awkward(), made.result(label="stand-in", rounds=1)):
        assert {flag for each in result["scenarios"] for flag in each["flags"]} <= set(FLAGS)


def test_a_waiting_gpu_is_flagged(everything):
    assert "launch-bound" in entry(everything, "apex-fp32")["flags"]
    assert "launch-bound" not in entry(everything, "torch-fp32")["flags"]


def test_the_gpu_is_told_by_a_hash(everything):
    text = json.dumps(everything)
    assert "GPU-00000000-made-up" not in text
    assert len(everything["environment"]["gpu_id"]) == 16


@pytest.mark.parametrize("images, digest", [
    ({"base": {"name": "base", "digest": "sha256:1"}}, "sha256:1"), ({}, None),
    ({"base": "sha256:2"}, "sha256:2")])
def test_the_build_record_goes_along_with_its_image(images, digest):
    record = {"source": "apex", "images": images}
    result = valid(made.result(names=FEW[:1], rounds=1, record=record))
    assert (result["record"], result["environment"]["image"]) == (record, digest)


def test_another_torch_in_the_middle_of_a_run_is_told():
    plan = made.plan(names=FEW, rounds=2)
    rows = made.rows(plan)
    rows[-1]["result"]["environment"]["torch"] = "2.12.0"
    assert any("2 versions of torch" in text
               for text in make_result(plan, rows, made.apex(), None)["warnings"])


def test_a_scenario_that_fails_parity_gets_no_speedup():
    found = entry(made.result(names=FEW, unequal=["torch-amp-fp16"]), "torch-amp-fp16")
    assert found["parity"]["verdict"] == "fail"
    assert (found["speedup"], found["step"]) == (None, None)
    assert found["time"] is not None
    assert "parity" in found["flags"]


def test_nothing_is_read_against_a_scenario_that_fails_parity():
    names = ["torch-fp32", "torch-amp-fp16", "apex-amp-fp16"]
    found = entry(made.result(names=names, unequal=["torch-amp-fp16"]), "apex-amp-fp16")
    assert found["speedup"] is not None
    assert (found["against"], found["step"]) == ("torch-amp-fp16", None)


def test_a_loss_that_does_not_fall_leaves_parity_untested_and_the_times():
    result = made.result(names=FEW, flat=True)
    for each in result["scenarios"]:
        assert each["parity"]["verdict"] == "untested"
        assert "The baseline's loss falls by" in each["parity"]["why"]
    assert entry(result, "torch-amp-fp16")["speedup"]["verdict"] == "FAST"


def test_a_loss_that_is_no_number_is_no_json_either():
    plan = made.plan(names=FEW, rounds=2)
    rows = made.rows(plan)
    look = next(row for row in rows if row["row"] == "look" and row["scenario"] == "torch-tf32")
    look["result"]["parity"]["losses"][7] = math.nan
    found = entry(valid(make_result(plan, rows, made.apex(), None)), "torch-tf32")
    assert found["losses"][7] is None
    assert found["parity"]["verdict"] == "fail"
    assert "no number from step 8 on" in found["parity"]["why"]


def test_what_is_said_of_one_scenario_is_said_of_all_measured_or_not(everything):
    keys = {frozenset(each) for each in (*everything["scenarios"], *made.awkward()["scenarios"])}
    assert len(keys) == 1


# -- reading


def test_a_result_is_read_from_its_file_and_its_folder(tmp_path):
    result = made.result(names=FEW, rounds=2)
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert read_result(tmp_path) == read_result(tmp_path / "result.json") == result


@pytest.mark.parametrize("text, says", [
    ("{", "cannot be read"), ("[]", "no result of a bench"), ("", "cannot be read"),
    ('{"schema": "apexlab.bench/2"}', "has the schema apexlab.bench/2"),
    ('{"schema": "apexlab.bench/1"}', "damaged"), ("\udcff", "cannot be read"),
    ('{"schema": "apexlab.bench/1", "kind": "train"}', "lacks version"), ("[" * 10**5, "cannot")])
def test_what_is_no_result_is_refused_in_a_paragraph(tmp_path, text, says):
    path = tmp_path / "result.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError, match=says) as caught:
        read_result(path)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_result_is_refused(tmp_path):
    with pytest.raises(UsageError, match="There is no result at"):
        read_result(tmp_path)
