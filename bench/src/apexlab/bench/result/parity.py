"""Does a scenario train as the FP32 baseline does? From two loss curves to a verdict. Pure.

The numbers behind the limits come from the parity pass itself (measure/parity.py) on a CPU, with
torch 2.13: 200 steps, in which the loss falls from 6.24 to 3.65. Weights that were moved by 1e-6 of
themselves, which is what other orders of additions come to, moved no loss by more than 1e-5; AdamW
without its decay moved one of the first 20 by 1.3e-3, and a learning rate off by a tenth by 5e-2.
BF16 moved single losses by 0.5 to 1.5 % while they fell fast, and the mean of the last ones by
0.03 %; three further seeds lay 0.4 % apart there.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from apexlab.bench.planning.scenario import Scenario

Verdict = Literal["pass", "fail", "untested", "baseline"]
Curve = Sequence[float | None]
Result = Mapping[str, Any]

LEAST_STEPS = 40
EARLY = 20  # steps, in which rounding has had no time to add up
LATE = 5  # the last fifth of the steps, by its mean: single losses differ with their batch
FALL = 0.2  # of the first loss; what is frequent and what follows are both learned by then
SAME_EARLY = 1e-4  # FP32 against FP32, each of the early losses
SAME_LATE = 1e-3  # and the late mean: ten times that for what rounding adds up to
NEAR = 0.015  # other precisions, the late mean
SPREADS = 3  # or so many times the spread of seeds, where that is more
SAME_GRADIENT = 1e-3  # FP32's against FP64: 5e-7 was seen, and TF32 is near 1e-3
SAME_UPDATE = 1e-2  # AdamW's against FP64's: 1e-5 was seen, and 1e-1 without the decay


def verdict(scenario: Scenario, look: Result | None, baseline: Result | None) -> dict[str, Any]:
    """{"verdict", "why", "gap_early", "gap_late", "spread", "gradient_error", "update_error"}.

    `look` and `baseline`: results of looks, None where there is none. The baseline's own verdict
    is "baseline", or why nothing can be held against it.
    """
    own, other = _parity(look), _parity(baseline)
    found: dict[str, Any] = {"gap_early": None, "gap_late": None, "spread": None,
                             "gradient_error": own.get("gradient_error"),
                             "update_error": own.get("update_error")}
    curve, reference = own.get("losses") or (), other.get("losses") or ()
    if not curve:
        return _said("untested", "There is no loss curve of it.", found)
    if why := _no_number(curve):
        return _said("fail", why, found)
    if why := _no_reference(curve, reference):
        return _said("untested", why, found)
    found["spread"] = spread([reference, *((baseline or {}).get("seeds") or ())])
    if look == baseline:
        return _said("baseline", _fell(curve), found)
    found["gap_early"] = max(abs(gap(a, b)) for a, b in
                             zip(curve[:EARLY], reference[:EARLY], strict=True))
    found["gap_late"] = abs(gap(late(curve), late(reference)))
    return _judged(scenario, curve, found)


def _judged(scenario: Scenario, curve: Curve, found: dict[str, Any]) -> dict[str, Any]:
    exact = scenario.settings.precision == "fp32"
    limit = SAME_LATE if exact else max(NEAR, SPREADS * (found["spread"] or 0.0))
    tests = [(found["gap_late"], limit, "its last losses are {} off FP32's")]
    if exact:
        tests += [(found["gap_early"], SAME_EARLY, "one of its first losses is {} off FP32's"),
                  (found["gradient_error"], SAME_GRADIENT, "its first gradients are {} off FP64's")]
    if scenario.settings.numbers.weights == "float32":
        tests.append((found["update_error"], SAME_UPDATE,
                      "its first update of the weights is {} off that of AdamW"))
    wrong = [f"{text.format(share(value))}, and {share(most)} is the limit"
             for value, most, text in tests if value is not None and not value <= most]
    if fall(curve) < FALL:
        wrong.insert(0, f"its loss falls by {share(fall(curve))}, and the baseline's by more than "
                        f"{share(FALL)}")
    if wrong:
        return _said("fail", f"{'; '.join(wrong)}.", found)
    return _said("pass", f"its last losses are {share(found['gap_late'])} off FP32's, of "
                         f"{share(limit)} allowed. {_fell(curve)}", found)


def _parity(look: Result | None) -> Mapping[str, Any]:
    return (look or {}).get("parity") or {}


def _said(verdict: Verdict, why: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"verdict": verdict, "why": why[:1].upper() + why[1:], **found}


def _no_number(curve: Curve) -> str:
    """Why a curve is none; a loss that is NaN or infinite is told as None."""
    step = next((number for number, loss in enumerate(curve, 1)
                 if loss is None or not abs(loss) < float("inf")), None)
    return "" if step is None else f"Its loss is no number from step {step} on."


def _no_reference(curve: Curve, reference: Curve) -> str:
    """Why nothing can be said against the baseline's curve; "" if it can be."""
    if not reference or _no_number(reference):
        return "There is no sound loss curve of the baseline to hold it against."
    if len(curve) != len(reference) or len(curve) < LEAST_STEPS:
        return (f"{len(curve)} steps were run, and {len(reference)} of the baseline; equally many, "
                f"and {LEAST_STEPS} or more, are needed.")
    if fall(reference) < FALL:
        return (f"The baseline's loss falls by {share(fall(reference))} only, and what learns "
                f"nothing cannot differ: {share(FALL)} is the least.")
    return ""


def late(curve: Curve) -> float:
    """The mean of a curve's last losses."""
    return statistics.fmean(_numbers(curve[-max(1, len(curve) // LATE):]))


def fall(curve: Curve) -> float:
    """By what share of its first loss a curve has fallen at its end."""
    first, = _numbers(curve[:1])
    return 1 - late(curve) / first


def spread(curves: Sequence[Curve]) -> float | None:
    """How far curves of several seeds end apart: the standard deviation of their late means, over
    the mean of these. None for fewer than two."""
    ends = [late(curve) for curve in curves if curve and not _no_number(curve)]
    return statistics.stdev(ends) / statistics.fmean(ends) if len(ends) > 1 else None


def gap(value: float | None, reference: float | None) -> float:
    (one,), (other,) = _numbers([value]), _numbers([reference])
    return one / other - 1


def _numbers(curve: Curve) -> list[float]:
    return [loss for loss in curve if loss is not None]


def _fell(curve: Curve) -> str:
    return f"The loss falls from {curve[0]:.2f} to {late(curve):.2f}."


def share(value: float) -> str:
    """A share in percent, or for a very small one with its power of ten."""
    return f"{100 * value:.2g} %" if abs(value) >= 1e-4 or not value else f"{value:.1e}"
