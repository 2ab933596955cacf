"""Verdicts on loss curves that are made up, as functions of the step."""

import math

import pytest

from apexlab.bench.planning.scenario import scenarios
from apexlab.bench.result import parity

STEPS = 200
FP32, LOW = scenarios()["torch-fused-fp32"], scenarios()["torch-fused-amp-bf16"]
BASELINE, TF32 = scenarios()["torch-fp32"], scenarios()["torch-tf32"]
HALF = scenarios()["apex-amp-fp16"]


def falling(moved=0.0, steps=STEPS):
    """From 6.2 to 3.6, all of it times 1 + moved."""
    return [(3.6 + 2.6 * math.exp(-step / 15)) * (1 + moved) for step in range(steps)]


def look(losses, gradient_error=5e-7, update_error=1e-5, **more):
    return {"parity": {"losses": losses, "gradient_error": gradient_error,
                       "update_error": update_error}, **more}


def base(losses=None, seeds=(0.001, -0.001, 0.002)):
    return look(losses or falling(), seeds=[falling(moved) for moved in seeds])


def test_the_baseline_is_the_baseline_and_tells_the_spread():
    found = parity.verdict(BASELINE, base(), base())
    assert found["verdict"] == "baseline"
    assert found["why"] == "The loss falls from 6.20 to 3.60."
    assert math.isclose(found["spread"], 0.00129, rel_tol=0.01)
    assert found["gap_early"] is found["gap_late"] is None


@pytest.mark.parametrize(("scenario", "moved", "verdict"), [
    (FP32, 1e-6, "pass"), (FP32, 5e-5, "pass"), (FP32, 2e-4, "fail"), (FP32, -2e-4, "fail"),
    (LOW, 0.01, "pass"), (LOW, -0.01, "pass"), (LOW, 0.02, "fail"), (LOW, -0.02, "fail"),
    (TF32, 0.01, "pass"), (HALF, 0.02, "fail")])
def test_a_shifted_curve_passes_within_the_limit_of_its_precision(scenario, moved, verdict):
    found = parity.verdict(scenario, look(falling(moved)), base())
    assert found["verdict"] == verdict, found["why"]
    assert math.isclose(found["gap_early"], abs(moved), rel_tol=1e-6)
    assert math.isclose(found["gap_late"], abs(moved), rel_tol=1e-6)


def test_a_drift_that_comes_late_is_bounded_in_fp32_too():
    for off, verdict in ((5e-4, "pass"), (5e-3, "fail")):
        drifting = [loss * (1 + off * (step > 100)) for step, loss in enumerate(falling())]
        found = parity.verdict(FP32, look(drifting), base())
        assert (found["verdict"], found["gap_early"]) == (verdict, 0)


def test_a_low_precision_may_be_off_while_the_loss_falls_fast():
    early = [loss * (1.05 if step < 20 else 1) for step, loss in enumerate(falling())]
    assert parity.verdict(LOW, look(early), base())["verdict"] == "pass"
    assert parity.verdict(FP32, look(early), base())["verdict"] == "fail"


def test_three_times_the_spread_of_the_seeds_is_allowed():
    wide = base(seeds=(0.02, -0.02, 0.01))
    assert parity.verdict(LOW, look(falling(0.03)), wide)["verdict"] == "pass"
    assert parity.verdict(LOW, look(falling(0.03)), base())["verdict"] == "fail"
    assert parity.verdict(LOW, look(falling(0.08)), wide)["verdict"] == "fail"
    # FP32 starts from the same weights, so other seeds are no excuse.
    assert parity.verdict(FP32, look(falling(0.003)), wide)["verdict"] == "fail"


def test_a_loss_that_does_not_fall_leaves_parity_untested():
    flat = [6.2 - step / 1000 for step in range(STEPS)]
    found = parity.verdict(LOW, look(flat), base(flat))
    assert found["verdict"] == "untested"
    assert "The baseline's loss falls by 2.9 % only" in found["why"]


def test_a_loss_that_falls_in_the_baseline_alone_is_a_fault():
    found = parity.verdict(LOW, look([6.2] * STEPS), base())
    assert found["verdict"] == "fail"
    assert found["why"].startswith("Its loss falls by 0 %, and the baseline's by more than 20 %")


def test_a_loss_that_diverges_is_a_fault():
    diverging = [max(loss, 0.05 * step) for step, loss in enumerate(falling())]
    found = parity.verdict(LOW, look(diverging), base())
    assert found["verdict"] == "fail"
    assert found["gap_late"] > 1


@pytest.mark.parametrize("broken", [None, math.nan, math.inf])
def test_a_loss_that_is_no_number_is_a_fault_and_no_reference(broken):
    curve = [*falling()[:50], *[broken] * 150]
    found = parity.verdict(LOW, look(curve), base())
    assert (found["verdict"], found["why"]) == ("fail", "Its loss is no number from step 51 on.")
    assert parity.verdict(LOW, look(falling()), look(curve))["verdict"] == "untested"
    assert parity.verdict(BASELINE, look(curve), look(curve))["verdict"] == "fail"


@pytest.mark.parametrize(("own", "other"), [
    (None, base()), ({}, base()), ({"parity": None}, base()), (look(falling()), None),
    (look(falling()), {"parity": None}), (look(falling(steps=100)), base()),
    (look(falling(steps=20)), look(falling(steps=20)))])
def test_without_two_curves_of_equal_length_nothing_is_said(own, other):
    found = parity.verdict(LOW, own, other)
    assert found["verdict"] == "untested"
    assert found["why"].endswith(".")


@pytest.mark.parametrize(("scenario", "errors", "verdict"), [
    (FP32, {"gradient_error": 1e-2}, "fail"), (LOW, {"gradient_error": 1e-2}, "pass"),
    (FP32, {"update_error": 0.1}, "fail"), (LOW, {"update_error": 0.1}, "fail"),
    (FP32, {"gradient_error": None, "update_error": None}, "pass")])
def test_the_first_step_is_held_against_fp64(scenario, errors, verdict):
    found = parity.verdict(scenario, look(falling(), **errors), base())
    assert found["verdict"] == verdict
    assert errors.items() <= found.items()


def test_without_further_seeds_the_fixed_limit_holds():
    found = parity.verdict(LOW, look(falling(0.01)), look(falling()))
    assert (found["verdict"], found["spread"]) == ("pass", None)
