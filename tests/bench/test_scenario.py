"""Scenarios, ladders, and the checks that keep a name from promising what its row has not."""

import json
from dataclasses import replace

import pytest

from apexlab.bench.model.settings import Settings
from apexlab.bench.planning import scenario_table as table
from apexlab.bench.planning.scenario import (
    Ladder,
    Scenario,
    Step,
    find_ladder,
    find_scenarios,
    ladders,
    of_ladder,
    scenarios,
)
from apexlab.bench.planning.scenario_checks import check
from apexlab.verify.errors import UsageError

ROW = {row.name: row for row in table.SCENARIOS}


def names(ladder, *roles):
    return [step.scenario for step in find_ladder(ladder).steps if step.role in roles]


def test_the_shipped_tables_are_sound():
    assert check(table.SCENARIOS, table.LADDERS) == ()


def test_classic_is_the_four_scenarios():
    rows = [row.switches for row in of_ladder("classic")]
    assert [(row["norm"], row["optimizer"], row["autocast"], row["scaler"]) for row in rows] == [
        ("torch", "torch-foreach", None, False), ("torch", "torch-foreach", "float16", True),
        ("apex", "apex", None, False), ("apex", "apex", "float16", True)]
    assert [row.name for row in of_ladder("classic")] == [
        "torch-fp32", "torch-amp-fp16", "apex-fp32", "apex-amp-fp16"]


def test_each_rung_of_the_incremental_ladder_adds_one_part():
    assert names("incremental", "rung") == [
        "torch-fp32", "apex-adam-fp32", "apex-fp32", "apex-amp-bf16"]
    changes = [step.changes for step in find_ladder("incremental").steps if step.role == "rung"]
    assert changes == [(), ("optimizer",), ("norm",), ("precision",)]


def test_the_top_is_measured_without_each_of_its_parts():
    top, rows = ROW["apex-amp-bf16"], of_ladder("incremental")
    lacking = {Settings.__dataclass_fields__[field].name
               for field in ("norm", "optimizer", "precision")
               for row in rows if replace(row.settings, **{
                   field: getattr(top.settings, field)}) == top.settings and row != top}
    assert lacking == {"norm", "optimizer", "precision"}


def test_the_rungs_stand_beside_torchs_own_fused_parts():
    assert [ROW[name].apex for name in names("incremental", "own-part")] == [(), ()]
    assert {ROW[name].settings.precision for name in names("incremental", "own-part")} == {
        ROW[name].settings.precision for name in names("incremental", "rung")}


def test_modern_covers_what_today_s_pytorch_offers():
    rows = [row.switches for row in of_ladder("modern")]
    for key, value in (("tf32", True), ("optimizer", "torch-fused"), ("norm", "torch-lowp"),
                       ("optimizer", "apex-capturable"), ("compile", True), ("graph", True),
                       ("autocast", "bfloat16"), ("autocast", "float16")):
        assert any(row[key] == value for row in rows), (key, value)


def test_all_holds_every_scenario_once_and_starts_with_the_baseline():
    every = [step.scenario for step in find_ladder("all").steps]
    assert sorted(every) == sorted(scenarios())
    assert every[0] == "torch-fp32"


@pytest.mark.parametrize("ladder", ladders())
def test_every_ladder_starts_with_the_same_baseline(ladder):
    assert of_ladder(ladder)[0] == ROW["torch-fp32"]


def test_the_switches_are_plain_data_and_leave_nothing_to_a_default():
    for row in table.SCENARIOS:
        assert set(row.switches) == {
            "dtype", "autocast", "scaler", "tf32", "optimizer", "capturable", "norm", "compile",
            "graph", "clip", "adamw"}
        assert row.switches["adamw"]["weight_decay"] == 0.1
        assert json.loads(json.dumps(row.switches))["norm"] == row.settings.norm


def test_a_captured_step_has_a_capturable_optimizer():
    assert ROW["torch-fused-amp-bf16-graph"].switches["capturable"]
    assert not ROW["torch-fused-amp-bf16"].switches["capturable"]


def test_what_a_cpu_lacks_is_said_by_name():
    assert ROW["torch-amp-fp16"].gpu_only == ("FP16",)
    assert ROW["torch-tf32"].gpu_only == ("TF32",)
    assert ROW["apex-amp-fp16"].gpu_only == ("FP16", "Apex")
    assert ROW["torch-fused-amp-bf16-graph"].gpu_only == ("a CUDA graph",)
    assert ROW["torch-fused-amp-bf16-compile"].gpu_only == ()


def test_only_scenarios_with_parts_of_apex_need_a_proof():
    assert ROW["apex-adam-amp-bf16"].apex == ("optimizer",)
    assert ROW["apex-norm-amp-bf16"].apex == ("norm",)
    assert ROW["torch-lowp-norm-amp"].apex == ()


def test_an_unknown_ladder_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"no ladder 'clasic'\. Did you mean classic\?"):
        find_ladder("clasic")


@pytest.mark.parametrize("given, said", [
    (["torch-fp23"], r"no scenario 'torch-fp23'\. Did you mean torch-fp32"),
    (["torch-fp32", "torch-fp32"], "torch-fp32 is named twice"),
    ([], "No scenario is named"),
    (["zzz"], r"no scenario 'zzz'\. There are torch-fp32"),
])
def test_scenarios_that_cannot_be_run_are_refused(given, said):
    with pytest.raises(UsageError, match=said):
        find_scenarios(given)


def test_scenarios_come_in_the_order_that_was_asked_for():
    assert [row.name for row in find_scenarios(["apex-fp32", "torch-fp32"])] == [
        "apex-fp32", "torch-fp32"]


def settings(name, **changed):
    """The shipped rows with one row's settings changed."""
    return tuple(replace(row, settings=replace(row.settings, **changed)) if row.name == name
                 else row for row in table.SCENARIOS)


@pytest.mark.parametrize("rows, said", [
    (settings("torch-fp32", precision="tf32"), "torch-fp32: the name does not say its precision"),
    (settings("apex-amp-bf16", precision="amp-fp16"), "does not say its precision, amp-fp16"),
    (settings("torch-lowp-norm-amp", precision="amp-fp16"), "does not say its precision"),
    (settings("apex-fp32", norm="torch", optimizer="torch-fused"), "parts of Apex disagree"),
    (settings("torch-fp32", optimizer="torch-fused"), "torch's fused AdamW disagree"),
    (settings("apex-norm-amp-bf16", norm="torch", optimizer="apex"), "says another norm"),
    (settings("apex-adam-fp32", norm="apex"), "says FusedAdam alone"),
    (settings("apex-capturable-amp-fp16", optimizer="apex"), "the capturable optimizer disagree"),
    (settings("torch-lowp-norm-amp", norm="torch"), "the name and the norm disagree"),
    (settings("torch-fused-amp-bf16-compile", compile=False), "`compile` disagree"),
    (settings("torch-fused-amp-bf16-graph", graph=False), "`graph` disagree"),
    (settings("apex-adam-amp-bf16-compile", norm="apex"), "run torch's code"),
    (settings("torch-fp32", clip=1.0), "no scenario clips"),
    (settings("torch-fp32", adamw=replace(Settings().adamw, lr=1.0)), "the same hyperparameters"),
    (settings("torch-amp-bf16", optimizer="torch-fused"), "have the same settings"),
    ((*table.SCENARIOS, ROW["torch-fp32"], Scenario("torch-fp32", Settings())), "is there twice"),
    ((*table.SCENARIOS, Scenario("torch-loop-fp32", Settings(optimizer="torch-loop"))),
     "torch-loop-fp32 is in no ladder"),
])
def test_a_row_that_its_name_belies_is_found(rows, said):
    assert said in " ".join(check(rows, table.LADDERS))


FIRST = Step("torch-fp32", "rung", None, (), "")


@pytest.mark.parametrize("steps, said", [
    ((FIRST, Step("apex-fp32", "rung", "torch-fp32", ("norm",), "")),
     "apex-fp32 against torch-fp32 changes norm, optimizer, not norm."),
    ((FIRST, Step("apex-fp32", "rung", "torch-tf32", ("norm",), "")), "which is not in it"),
    ((FIRST, Step("apex-fp23", "rung", "torch-fp32", (), "")), "apex-fp23 is no scenario"),
    ((FIRST, FIRST), "torch-fp32 is there twice"),
    ((FIRST, replace(FIRST, scenario="torch-tf32")), "and no other, is the baseline"),
    ((Step("torch-fp32", "rung", "torch-fp32", (), ""),), "and no other, is the baseline"),
])
def test_a_comparison_that_says_something_else_is_found(steps, said):
    ladder = Ladder("own", tuple(steps))
    assert said in " ".join(check(table.SCENARIOS, (*table.LADDERS, ladder)))
