"""What the options come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apexlab.bench.planning.plan import TIMING, Request, differences, make_plan
from apexlab.bench.planning.preset_file import find_preset
from apexlab.bench.planning.scenario import scenarios
from apexlab.bench.run.task import look_task, time_task
from apexlab.verify.errors import UsageError

CPU = find_preset("cpu")
SMALL = find_preset("gpt-small")


def test_a_plan_without_a_wish_is_the_classic_ladder_in_five_rounds():
    plan = make_plan(Request(), SMALL)
    assert plan.ladder == "classic" and plan.rounds == 5 and plan.baseline == "torch-fp32"
    assert plan.names() == ["torch-fp32", "torch-amp-fp16", "apex-fp32", "apex-amp-fp16"]
    assert make_plan(Request(quick=True), SMALL).rounds == 3


def test_the_baseline_comes_first_and_is_added_with_a_word():
    named = make_plan(Request(scenarios=("torch-tf32", "torch-fp32")), SMALL)
    assert named.names() == ["torch-fp32", "torch-tf32"] and named.notes == ()
    added = make_plan(Request(scenarios=("torch-tf32",)), SMALL)
    assert added.names() == ["torch-fp32", "torch-tf32"] and "torch-fp32" in added.notes[0]
    assert added.ladder is None


@pytest.mark.parametrize(("request_", "words"), [
    (Request(ladder="clasic"), "Did you mean classic"),
    (Request(scenarios=("torch-fp23",)), "Did you mean torch-fp32"),
    (Request(scenarios=("torch-fp32", "torch-fp32")), "named twice"),
    (Request(ladder="all", scenarios=("torch-fp32",)), "Give one of them"),
    (Request(rounds=0), "--rounds 0"), (Request(rounds=-1), "--rounds -1"),
])
def test_a_wish_that_nothing_can_meet_is_refused(request_, words):
    with pytest.raises(UsageError, match=words):
        make_plan(request_, SMALL)


def test_the_hash_holds_what_figures_depend_on_and_no_more():
    base = Request(device="cpu")
    same = [replace(base, rounds=9), replace(base, quick=True), replace(base, margin=0.5)]
    other = [replace(base, seed=1), replace(base, gpus=2), replace(base, ladder="modern"),
             replace(base, device="cuda"), replace(
                 base, data={"kind": "text", "path": "x", "sha256": "made up"})]
    first = make_plan(base, CPU).hash
    assert {make_plan(each, CPU).hash for each in same} == {first}
    assert len({first, *(make_plan(each, CPU).hash for each in other)}) == len(other) + 1
    assert make_plan(replace(base, data={"kind": "text", "path": "a", "sha256": "s"}), CPU).hash \
        == make_plan(replace(base, data={"kind": "text", "path": "b", "sha256": "s"}), CPU).hash


def test_what_differs_between_two_plans_is_named():
    def document(**more):
        return make_plan(Request(device="cpu", **more), CPU).document("0", "now")

    assert differences(document(), document()) == []
    assert differences(document(), document(rounds=9)) == []
    assert differences(document(), document(quick=True)) == ["quick", "timing"]
    assert differences(document(), document(ladder="modern")) == ["scenarios"]
    text = {"kind": "text", "path": "x", "sha256": "made up"}
    assert differences(document(), document(data=text)) == ["data"]


def test_quick_takes_less_time_in_every_respect():
    for device in ("cuda", "cpu"):
        slow, quick = TIMING[device, False], TIMING[device, True]
        assert quick.least_warmup <= slow.least_warmup and quick.blocks < slow.blocks
        assert quick.block_seconds < slow.block_seconds and quick.most_warmup < slow.most_warmup


def test_a_task_says_everything_that_a_process_needs():
    plan = make_plan(Request(device="cuda", seed=7, gpus=2), SMALL)
    scenario = scenarios()["apex-amp-fp16"]
    task = time_task(plan, scenario, None, 2)
    assert task["settings"]["optimizer"] == "apex" and task["settings"]["adamw"]["lr"] == 3e-4
    assert task["shape"]["width"] == 768 and task["batch"] == 16
    assert (task["kind"], task["device"], task["gpus"], task["seed"]) == ("time", "cuda", 2, 7)
    assert task["data"] == {"kind": "stream", "seed": 7} and task["interposer"] is None
    assert set(task["timing"]) == {"least_warmup", "most_warmup", "agree", "blocks",
                                   "block_seconds"}
    look = look_task(plan, scenario)
    assert look["gpus"] == 1 and look["parity"] == {"steps": 200, "baseline": False}
    assert look_task(plan, scenarios()["torch-fp32"])["parity"]["baseline"]
