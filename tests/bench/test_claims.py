"""What the figures do not support is not said."""

import copy

import made_ops
import made_result as made
import pytest

from apexlab.bench.ops.result import make_result as ops_result
from apexlab.bench.planning.scenario import find_scenarios
from apexlab.bench.result.labels import label_of, proof_of, relabelled
from apexlab.bench.result.result import make_result


def rebuilt(change, **given):
    """The result of made-up rows after `change(row)` of each."""
    plan = made.plan(**given)
    rows = [copy.deepcopy(row) for row in made.rows(plan)]
    for row in rows:
        change(row)
    return make_result(plan, rows[1:], made.apex(), None)


def said(result, part):
    return next(each for each in result["advice"] if each["part"] == part)


def test_a_process_without_a_proof_takes_the_label_from_its_scenario():
    """Each timed process is asked; that another one was proven does not help it."""
    scenario, = find_scenarios(["apex-fp32"])
    proven = {"proof": {"verdict": "proven", "why": "", "parts": []}}
    for missing in ({"proof": None}, {}):
        proof = proof_of(scenario, [proven, missing])
        assert proof["verdict"] == "blind"
        assert label_of(scenario, proof, made.apex()) is None


def test_a_rival_that_ran_apexs_kernels_is_no_rival():
    def change(row):
        if row.get("scenario") == "torch-fused-amp-bf16" and row.get("proof"):
            row["proof"]["why"] = "No part of Apex was asked for, and 3 kernels of amp_C ran."

    found = said(rebuilt(change, ladder="all"), "Apex's FusedAdam (BF16)")
    assert found["evidence"] is None or \
        "torch-fused-amp-bf16" not in (found["evidence"]["scenario"], found["evidence"]["against"])


@pytest.mark.parametrize("scenario, error, part", [
    ("torch-fp32", 3e-4, "torch.amp FP16"), ("torch-tf32", 2e-7, "TF32")])
def test_fp32_that_was_tf32_answers_no_question(scenario, error, part):
    """And the other way round: TF32 that did not run."""
    def change(row):
        if (row["row"], row.get("scenario")) == ("look", scenario):
            row["result"]["product_error"] = error

    found = said(rebuilt(change, names=["torch-fp32", "torch-amp-fp16", "torch-tf32"]), part)
    assert found["verdict"] == "untested" and "TF32" in found["sentence"]


def test_what_is_to_be_used_without_having_been_seen_to_train_says_so():
    result = made.result(ladder="classic", flat=True)
    found = said(result, "torch.amp FP16")
    assert found["verdict"] == "use"
    assert found["sentence"].endswith("Whether it trains as FP32 does was not tested.")
    assert "not tested" not in said(made.result(ladder="classic"), "torch.amp FP16")["sentence"]


def test_a_question_about_torch_is_not_answered_by_the_stand_in():
    names = ["torch-fp32", "apex-amp-fp16", "apex-amp-bf16"]
    for answer in made.result(label="stand-in", names=names)["advice"]:
        if answer["evidence"]:
            assert "stand-in" in answer["sentence"], answer


@pytest.mark.parametrize("text", ["amp_C.multi_tensor_scale", "contrib.clip_grad",
                                  "torch.amp alone"])
def test_an_identifier_keeps_its_letters(text):
    assert relabelled(text, "stand-in") == text
    assert relabelled("Apex's norm", "stand-in") == "The stand-in's norm"


def unrecorded():
    rows = copy.deepcopy(made_ops.rows())
    next(row for row in rows if row["row"] == "subject")["apex"]["label"] = None
    return ops_result(rows)


def test_kernels_that_are_proven_and_of_unknown_origin_are_called_unrecorded():
    result = unrecorded()
    titles = {point["title"] for point in result["points"]
              if point["proof"] and point["proof"]["verdict"] == "proven"}
    assert titles and all("unrecorded" in title for title in titles)
    assert any("No build record" in text for text in result["warnings"])


def test_a_call_that_is_undecided_is_not_denied():
    """Kernels clearly faster, and calls faster in one case and slower in another."""
    rows = copy.deepcopy(made_ops.rows(ops=("rmsnorm",)))
    for row in rows:
        if row["row"] != "point" or not row["us"]:
            continue
        base = next(each for each in rows if each["row"] == "point" and each["provider"] == "torch"
                    and all(each[key] == row[key] for key in (
                        "op", "case", "dtype", "autocast", "direction")))
        if row["provider"] == "apex":
            factor = 0.6 if "768" in row["case"] else 1.5
            row["us"] = {kind: [[us * (0.5 if kind == "cold" else factor) for us in one]
                                for one in rounds] for kind, rounds in base["us"].items() if rounds}
    found = next(each for each in ops_result(rows)["advice"]
                 if each["part"].startswith("FusedRMSNorm, FP32"))
    assert found["verdict"] == "undecided"
    assert "its call is undecided" in found["sentence"]
