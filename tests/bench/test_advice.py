"""What a result advises, and its headline."""

import json

import made_result as made
import pytest

from apexlab.bench.planning.scenario import differing, scenarios
from apexlab.bench.planning.scenario_table import LADDERS
from apexlab.bench.result.labels import relabelled
from apexlab.bench.result.questions import QUESTIONS


def said(result, part):
    return next(each for each in result["advice"] if each["part"] == part)


@pytest.fixture(scope="module")
def everything():
    return made.result()


def test_every_question_is_of_scenarios_that_there_are():
    known = scenarios()
    for question in QUESTIONS:
        for new, base in question.pairs:
            assert new in known and base in known
            assert differing(known[new], known[base])


def test_a_question_about_apex_has_apex_on_one_side():
    """And not on the other, unless Apex is what is read against: then one part alone differs."""
    known = scenarios()
    for question in QUESTIONS:
        for new, base in question.pairs:
            added = set(known[new].apex) - set(known[base].apex)
            if question.apex:
                assert added or len(differing(known[new], known[base])) == 1
            else:
                assert not added


def test_every_ladder_answers_something():
    for ladder in LADDERS:
        names = {step.scenario for step in ladder.steps}
        assert any({*pair} <= names for question in QUESTIONS for pair in question.pairs)


@pytest.mark.parametrize("factor, verdict, word", [
    (0.90, "use", "use it: 1"), (1.10, "leave", "leave it out"), (1.0, "same", "no difference")])
def test_the_verdict_follows_the_figures(factor, verdict, word):
    """Made up, FusedAdam takes 0.4 % more than torch's fused AdamW in BF16."""
    result = made.result(names=["torch-fp32", "torch-fused-amp-bf16", "apex-adam-amp-bf16"],
                         factors={"apex-adam-amp-bf16": factor}, noise=0.001)
    found = said(result, "Apex's FusedAdam (BF16)")
    assert found["verdict"] == verdict
    assert word in found["sentence"]
    assert found["evidence"]["scenario"] == "apex-adam-amp-bf16"
    assert found["evidence"]["against"] == "torch-fused-amp-bf16"
    assert found["evidence"]["ratio"] == pytest.approx(1 / (1.0042 * factor), rel=0.004)


def test_a_sentence_says_where_it_holds(everything):
    for each in everything["advice"]:
        if each["verdict"] in ("use", "leave", "same"):
            assert "on this GPU, with this torch, at this shape" in each["sentence"]
            assert "95 % interval" in each["sentence"]


def test_the_old_apex_amp_is_obsolete_whatever_was_measured(everything):
    for result in (everything, made.result(label=None, device="cpu", ladder="classic"),
                   made.result(names=["torch-fp32"], finished=0)):
        assert result["advice"][-1]["verdict"] == "obsolete"
        assert "torch.amp" in result["advice"][-1]["sentence"]


def test_what_was_not_proven_is_untested_and_says_why():
    result = made.result(unproven=["apex-tf32"])
    found = said(result, "Apex's norm and FusedAdam together (TF32)")
    assert (found["verdict"], found["evidence"]) == ("untested", None)
    assert "not proven to run: No kernel of Apex's norm ran" in found["sentence"]


def test_what_trained_wrongly_is_untested_and_says_why():
    result = made.result(unequal=["apex-tf32"])
    found = said(result, "Apex's norm and FusedAdam together (TF32)")
    assert (found["verdict"], found["evidence"]) == ("untested", None)
    assert "leave those of FP32" in found["sentence"]


def test_another_pair_answers_where_the_first_cannot():
    result = made.result(failed=["apex-norm-fused-amp-bf16"])
    found = said(result, "Apex's norm (BF16 autocast)")
    assert found["evidence"]["scenario"] == "apex-amp-bf16"
    assert found["evidence"]["against"] == "apex-adam-amp-bf16"


def test_one_round_advises_nothing():
    result = made.result(rounds=1, ladder="classic")
    verdicts = {each["verdict"] for each in result["advice"]}
    assert verdicts <= {"undecided", "untested", "obsolete"}
    assert "one round gives no interval" in said(result, "torch.amp FP16")["sentence"]


def test_of_the_stand_in_nothing_is_said_about_apex():
    result = made.result(label="stand-in")
    for each in result["advice"]:
        if "stand-in" in each["part"]:
            assert each["sentence"].endswith("This is the stand-in, and says nothing about Apex.")
    rest = [each for each in result["advice"] if "stand-in" not in each["part"]]
    assert not any("Apex" in each["part"] for each in rest)
    assert "so nothing is said of Apex" in result["headline"]
    assert "pays: FusedAdam" not in result["headline"]


def test_without_apex_it_is_untested_once_and_torch_is_advised():
    result = made.result(label=None)
    parts = [each["part"] for each in result["advice"] if "Apex's" in each["part"]]
    assert parts == ["Apex's FusedAdam (BF16)", "Apex's norm (BF16 autocast)"]
    assert said(result, "torch.compile")["verdict"] == "use"
    assert "Apex is not installed" in result["headline"]
    assert "torch.compile +3" in result["headline"]


def test_the_headline_names_what_pays_of_apex():
    """FusedAdam made 10 % faster than it is made up elsewhere, the norm left slower."""
    fast = dict.fromkeys(("apex-adam-amp-bf16", "apex-adam-fp32"), 0.9)
    assert "of Apex pays: Apex's FusedAdam (BF16) +1" in made.result(factors=fast)["headline"]


def test_the_headline_says_when_nothing_of_apex_pays(everything):
    assert "no part of Apex pays (slower: Apex's norm (BF16 autocast) -5" in everything["headline"]
    assert "NVIDIA H200, torch 2.11.0+cu130, gpt-small" in everything["headline"]


def test_the_headline_is_one_sentence(everything):
    for result in (everything, made.result(label=None, device="cpu"), made.result(rounds=1),
                   made.result(finished=0), made.result(label="stand-in")):
        assert result["headline"].endswith(".")
        assert "\n" not in result["headline"]


@pytest.mark.parametrize("text", [
    "Apex's norm and FusedAdam together", "Apex's FusedAdam (BF16)", "then Apex's norm",
    "FusedAdam in place of torch's fused AdamW", "both parts of Apex, FP16"])
def test_a_text_about_apex_is_said_of_the_stand_in(text):
    found = relabelled(text, "stand-in")
    assert "Apex" not in found
    assert "stand-in" in found
    assert "the stand-in's the" not in found
    assert relabelled(text, "Apex") == text


def test_no_sentence_is_torn(everything):
    for result in (everything, made.awkward(), made.result(label="stand-in", rounds=1)):
        text = json.dumps([result["advice"], result["headline"], result["warnings"]])
        for sign in ("  ", "None", "..", "{", "nan", "inf "):
            assert sign not in text.replace("[{", "").replace('"evidence": {', "").replace(
                "}, {", ""), sign
