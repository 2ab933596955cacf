"""`apexlab bench compare`: two results against each other."""

import copy
import json

import made_ops
import made_result as made
import pytest
from click.testing import CliRunner

from apexlab.bench.cmd_bench import bench
from apexlab.bench.report.compare_text import markdown
from apexlab.bench.result import comparison, stats
from apexlab.verify.errors import UsageError

FEW = ["torch-fp32", "torch-amp-fp16", "apex-fp32", "torch-tf32"]


@pytest.fixture(scope="module")
def base():
    return made.result(names=FEW, noise=0.001)


def again(seed=1, **given):
    return made.result(names=FEW, noise=0.001, seed=seed, **given)


def found(compared, name, metric="time"):
    return next(each for each in compared.findings if (each.name, each.metric) == (name, metric))


def ran(tmp_path, base, new, *options):
    for name, result in (("base", base), ("new", new)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "result.json").write_text(json.dumps(result))
    done = CliRunner().invoke(bench, ["compare", str(tmp_path / "base"),
                                      str(tmp_path / "new" / "result.json"), *options],
                              standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def test_two_runs_of_the_same_have_no_regression(base):
    compared = comparison.compare(base, again())
    assert {each.verdict for each in compared.findings} == {"SAME"}
    assert compared.regressions == ()


@pytest.mark.parametrize("factor, verdict", [(1.05, "SLOW"), (0.95, "FAST"), (1.003, "SAME")])
def test_a_change_of_the_time_is_found(base, factor, verdict):
    compared = comparison.compare(base, again(factors={"torch-tf32": factor}))
    one = found(compared, "torch-tf32")
    assert one.verdict == verdict
    assert one.ratio == pytest.approx(1 / factor, rel=0.003)
    assert found(compared, "torch-amp-fp16").verdict == "SAME"


def test_what_is_not_decided_is_shown_and_is_no_regression(base):
    compared = comparison.compare(base, again(factors={"torch-tf32": 1.02}))
    assert found(compared, "torch-tf32").verdict == "UNDECIDED"
    assert compared.regressions == ()
    assert "1 undecided" in markdown(compared)


def test_the_margin_is_the_users(base):
    new = again(factors={"torch-tf32": 1.05})
    assert found(comparison.compare(base, new, margin=0.10), "torch-tf32").verdict == "SAME"


@pytest.mark.parametrize("factor, verdict", [(1.02, "MORE"), (0.98, "LESS"), (1.005, "SAME")])
def test_memory_has_a_margin_of_one_percent(base, factor, verdict):
    new = copy.deepcopy(again())
    new["scenarios"][1]["memory"]["allocated"] = int(
        base["scenarios"][1]["memory"]["allocated"] * factor)
    assert found(comparison.compare(base, new), "torch-amp-fp16", "peak memory").verdict == verdict


@pytest.mark.parametrize("given, says", [
    ({"failed": ["torch-tf32"]}, "failed: out of memory"),
    ({"unavailable": ["torch-tf32"]}, "not available: ")])
def test_what_was_measured_and_is_not_any_more_is_a_regression(base, given, says):
    compared = comparison.compare(base, again(**given))
    lost = found(compared, "torch-tf32", "state")
    assert (lost.verdict, lost.regression) == ("LOST", True)
    assert says in lost.why


def test_a_scenario_that_is_not_in_new_is_lost(base):
    compared = comparison.compare(base, made.result(names=FEW[:3], noise=0.001, seed=1))
    assert found(compared, "torch-tf32", "state").verdict == "LOST"


def test_what_base_did_not_have_is_gained_and_no_regression():
    compared = comparison.compare(again(failed=["torch-tf32"]), again(seed=2))
    assert found(compared, "torch-tf32", "state").verdict == "GAINED"
    assert compared.regressions == ()


def test_kernels_that_are_not_apexs_any_more_are_a_regression(base):
    compared = comparison.compare(base, again(unproven=["apex-fp32"]))
    lost = found(compared, "apex-fp32", "proof")
    assert lost.regression
    assert "No kernel of Apex's norm ran" in lost.why


def test_training_that_went_wrong_is_a_regression(base):
    compared = comparison.compare(base, again(unequal=["torch-amp-fp16"]))
    assert found(compared, "torch-amp-fp16", "parity").regression


def test_two_runs_say_that_they_share_no_rounds(base):
    text = markdown(comparison.compare(base, again()))
    assert "share no rounds" in text and "bench ab" in text
    assert "alternated round by round" in markdown(
        comparison.compare(base, again(), paired=True))


def test_alternated_rounds_are_compared_in_pairs(base):
    """A machine that slows down by 30 % over the run: pairs see the 5 %, separate runs do not."""
    new = again(factors={"torch-tf32": 1.05})
    one, other = copy.deepcopy(base), copy.deepcopy(new)
    for result in (one, other):
        for number, each in enumerate(result["scenarios"][3]["time"]["rounds"]):
            each["blocks"] = [block * (1 + 0.3 * number / 4) for block in each["blocks"]]
    assert found(comparison.compare(one, other, paired=True), "torch-tf32").verdict == "SLOW"
    assert found(comparison.compare(one, other), "torch-tf32").verdict == "UNDECIDED"


def test_rounds_are_paired_by_their_numbers():
    got = stats.shared_rounds({0: [1.0], 1: [2.0], 4: [9.0]}, {1: [3.0], 0: [4.0], 2: [5.0]})
    assert got == ([[1.0], [2.0]], [[4.0], [3.0]])


# -- the command


def test_the_command_prints_a_table_for_a_pull_request(tmp_path, base):
    done = ran(tmp_path, base, again(factors={"torch-tf32": 1.05}))
    assert done.return_value == 0
    assert done.stdout.startswith("### apexlab bench: 1 of 8 figures became worse (torch-tf32)")
    assert "| torch-tf32 | time | 103.4 ms |" in done.stdout


@pytest.mark.parametrize("factor, code", [(1.05, 1), (1.0, 0), (0.9, 0)])
def test_the_gate_ends_with_one_on_a_regression(tmp_path, base, factor, code):
    done = ran(tmp_path, base, again(factors={"torch-tf32": factor}), "--gate")
    assert done.return_value == code


def test_json_is_one_document(tmp_path, base):
    document = json.loads(ran(tmp_path, base, again(), "--json").stdout)
    assert document["schema"] == "apexlab.bench-comparison/1"
    assert document["regressions"] == 0
    assert {each["metric"] for each in document["findings"]} == {"time", "peak memory"}


@pytest.mark.parametrize("change, says", [
    (lambda new: new["environment"].update(device="NVIDIA A100-SXM4-80GB"), "device: NVIDIA H200"),
    (lambda new: new["environment"].update(driver="550.1"), "driver: 580.159.04 and 550.1"),
    (lambda new: new.update(state="partial"), "NEW was interrupted"),
    (lambda new: new["environment"]["apex"].update(label="stand-in"), "Apex and stand-in"),
    (lambda new: (new.update(configuration_hash="0" * 64),
                  new["configuration"].update(gpus=2)), "gpus 1 and 2"),
    (lambda new: (new.update(configuration_hash="0" * 64), new["configuration"]["scenarios"].pop(
        "torch-tf32")), r"scenarios \(torch-tf32\)")])
def test_unlike_results_are_refused_unless_forced(tmp_path, base, change, says):
    new = copy.deepcopy(again())
    change(new)
    with pytest.raises(UsageError, match=says) as caught:
        ran(tmp_path, base, new)
    assert "--force" in str(caught.value)
    assert "Compared although unlike" in ran(tmp_path, base, new, "--force").stdout


def test_a_file_is_not_compared_with_itself(tmp_path, base):
    with pytest.raises(UsageError, match="are the same result"):
        ran(tmp_path, base, base)
    with pytest.raises(UsageError, match="are the same result"):
        ran(tmp_path, base, base, "--force")


def test_training_is_not_compared_with_operations(tmp_path, base):
    with pytest.raises(UsageError, match="no figure in common"):
        ran(tmp_path, base, made_ops.result(), "--force")


def test_a_result_of_another_version_is_refused(tmp_path, base):
    with pytest.raises(UsageError, match=r"has the schema apexlab\.bench/2"):
        ran(tmp_path, base, {**base, "schema": "apexlab.bench/2"})


# -- operations


def slowed(result, factor, **which):
    new = copy.deepcopy(result)
    for point in new["points"]:
        if all(point[key] == value for key, value in which.items()) and point["cold_us"]:
            for clock in ("cold_us", "call_us"):
                point[clock]["median"] *= factor
    return new


def test_operations_are_compared_point_by_point():
    one = made_ops.result(ops=("adam",))
    new = slowed(one, 1.2, provider="torch-fused", case="4 x 4 Mi", dtype="float32")
    compared = comparison.compare(one, new)
    assert len(compared.regressions) == 2
    assert all("4 x 4 Mi" in each.name for each in compared.regressions)
    assert "spread" in markdown(compared)


def test_an_operation_within_its_spread_is_not_called():
    one = made_ops.result(ops=("adam",))
    compared = comparison.compare(one, slowed(one, 1.021, provider="torch-fused"))
    assert compared.regressions == ()
    assert any(each.verdict == "UNDECIDED" for each in compared.findings)


def test_an_operation_that_is_lost_is_a_regression():
    one = made_ops.result(ops=("adam",))
    compared = comparison.compare(one, made_ops.result(ops=("adam",), failed=["torch-fused"]))
    assert all(each.metric == "state" for each in compared.regressions)
    assert compared.regressions


def test_a_gate_that_decided_nothing_says_so_and_lets_it_pass(base, tmp_path, capfd):
    loud = {**again(), "noise": {**base["noise"], "floor": 9.0}}
    for each in loud["scenarios"]:
        if each["time"]:  # far apart between rounds, so that none of them is the same
            each["time"]["rounds"] = [
                {**one, "blocks": [block * (1 + number) for block in one["blocks"]]}
                for number, one in enumerate(each["time"]["rounds"])]
    done = ran(tmp_path, base, loud, "--gate")
    said = f"{done.output}{capfd.readouterr().err}"
    assert done.return_value == 0
    assert "no speed could be decided, so this is no sign that nothing became worse" in said
    assert "The gate saw nothing that it could decide" in said
    assert "The gate saw nothing" not in ran(tmp_path, base, again(), "--gate").output
