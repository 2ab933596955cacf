"""The fewest bytes of an operation, against figures that were worked out by hand."""

from __future__ import annotations

import pytest

from apexlab.bench.ops import bytes as least
from apexlab.bench.ops.cases import Case


@pytest.mark.parametrize(("numbers", "given", "per_number"), [
    (1000, {}, 28),
    (1000, {"weight": "bfloat16", "moment": "float32"}, 22),
    (1000, {"weight": "bfloat16", "moment": "bfloat16"}, 14),
])
def test_a_step_of_adam_moves_as_many_bytes_as_its_state_has(numbers, given, per_number):
    assert least.adam(numbers, **given) == per_number * numbers


def test_gradients_are_unscaled_in_one_pass_and_clipped_in_two():
    assert least.unscale(10) == 80
    assert least.unscale(10, "float16") == 40
    assert least.clip(10) == 120


@pytest.mark.parametrize(("dtypes", "rms", "forward", "backward"), [
    # 4 rows of 10: 40 numbers. Forward: x, y, weight and bias, mean and deviation of each row.
    (("float32",) * 3, False, 320 + 80 + 32, 480 + 40 + 32 + 80),
    (("float32",) * 3, True, 320 + 40 + 16, 480 + 40 + 16 + 40),
    (("bfloat16",) * 3, False, 160 + 40 + 32, 240 + 20 + 32 + 40),
    # FP32 in, 16 bits out; backward reads dy and y, 2 bytes each, and writes 4
    (("float32", "bfloat16", "float32"), True, 240 + 40 + 16, 320 + 40 + 16 + 40),
])
def test_a_norm_moves_its_tensors_its_parameters_and_its_statistics(dtypes, rms, forward, backward):
    norm = least.Norm(4, 10, *dtypes, rms)
    assert norm.forward() == forward
    assert norm.backward() == backward


def test_a_case_knows_its_own_bytes():
    adam = Case("adam", "made up", "bfloat16", "step", ((10,), (2, 5)))
    assert (adam.least_bytes("bfloat16"), adam.least_bytes()) == (14 * 20, 22 * 20)
    clip = Case("clip", "made up", "float32", "clip", ((100,),))
    assert clip.least_bytes() == 1200
    norm = Case("rmsnorm", "made up", "float32", "forward", ((4, 10),), autocast=True)
    assert norm.least_bytes() == 296
    both = Case("rmsnorm", "made up", "float32", "forward+backward", ((4, 10),), autocast=True)
    assert both.least_bytes() == 296 + 416
