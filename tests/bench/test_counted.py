"""Which runs count: attempts, rounds that were cut, scenarios that failed."""

import made_result as made
import pytest

from apexlab.bench.result.counted import count, ending, paired

NAMES = ["torch-fp32", "torch-tf32", "torch-amp-bf16"]


def run(plan, **given):
    return made.rows(plan, **given)


def test_whole_rounds_count():
    plan = made.plan(names=NAMES, rounds=3)
    found = count(plan, run(plan))
    assert found.finished == 3
    assert sorted(found.blocks("torch-tf32")) == [0, 1, 2]
    assert sorted(found.blocks("torch-fp32", control=True)) == [0, 1, 2]


def test_the_controls_are_not_the_baselines_own_runs():
    plan = made.plan(names=NAMES, rounds=2)
    found = count(plan, run(plan))
    own, control = found.blocks("torch-fp32"), found.blocks("torch-fp32", control=True)
    assert own[0] != control[0]


def test_a_round_that_was_cut_counts_for_nothing():
    plan = made.plan(names=NAMES, rounds=3)
    rows = run(plan)[:-2]
    found = count(plan, rows)
    assert found.finished == 2
    assert sorted(found.blocks("torch-fp32")) == [0, 1]
    assert len(found.spare) == 2


def test_a_round_that_was_begun_again_counts_by_its_whole_attempt():
    plan = made.plan(names=NAMES, rounds=1)
    rows = run(plan)
    runs = [row for row in rows if row["row"] == "run"]
    again = [{**row, "attempt": 1, "result": {**row["result"], "blocks": [1.0]}} for row in runs]
    found = count(plan, [*rows[:-1], *again])
    assert found.finished == 1
    assert found.blocks("torch-tf32") == {0: [1.0]}


def test_a_disturbed_round_counts_when_it_was_repeated_in_vain():
    plan = made.plan(names=NAMES, rounds=1)
    runs = [row for row in run(plan, causes={0: ["thermal-slowdown"]}) if row["row"] == "run"]
    tries = [{**row, "attempt": number} for number in range(3) for row in runs]
    assert count(plan, tries[:len(runs)]).finished == 0
    assert count(plan, tries[:2 * len(runs)]).finished == 0
    assert count(plan, tries).finished == 1


def test_a_scenario_that_a_look_rules_out_is_not_waited_for():
    plan = made.plan(names=NAMES, rounds=2)
    rows = [row for row in run(plan, unavailable=["torch-tf32"])
            if row["row"] != "run" or row["scenario"] != "torch-tf32"]
    found = count(plan, rows)
    assert found.finished == 2
    assert found.blocks("torch-tf32") == {}


def test_a_failed_run_spoils_no_other():
    plan = made.plan(names=NAMES, rounds=2)
    found = count(plan, run(plan, failed=["torch-tf32"]))
    assert found.finished == 2
    assert found.blocks("torch-tf32") == {}
    assert sorted(found.blocks("torch-amp-bf16")) == [0, 1]


@pytest.mark.parametrize("blocks", [[], [float("nan")], [0.1, None], [0.0], None])
def test_a_run_without_times_that_can_be_used_has_failed(blocks):
    row = {"result": {"ending": "finished", "blocks": blocks}}
    assert ending(row) == "failed"


def test_pairs_are_of_rounds_that_both_finished():
    base, new = {0: [2.0], 1: [2.0], 2: [2.0]}, {1: [1.0], 2: [4.0], 3: [1.0]}
    assert paired(base, new, 0, 0.02, 0.0).rounds == (2.0, 0.5)
    assert paired({0: [1.0]}, {1: [1.0]}, 0, 0.02, 0.0) is None
