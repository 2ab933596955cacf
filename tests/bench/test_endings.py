"""How an error becomes the one sentence of a result; no torch is needed for that."""

from __future__ import annotations

import pytest

from apexlab.bench.errors import MeasureError
from apexlab.bench.measure.endings import LONGEST, ending
from apexlab.verify.errors import CannotError


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


def chained(outer, inner):
    outer.__cause__ = inner
    return outer


def test_what_is_not_here_is_unavailable_in_its_own_words():
    assert ending(CannotError("No Apex\nhere."), None) == ("unavailable", "No Apex here.")


def test_a_run_that_is_no_training_is_told_in_its_own_words():
    assert ending(MeasureError("The loss is nan."), 7) == ("failed", "The loss is nan.")


@pytest.mark.parametrize("error", [
    OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total ..."),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be ..."),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to ..."),
    chained(ValueError("the compiler's"), OutOfMemoryError("Tried to allocate 2.50 GiB")),
    MemoryError()])
def test_every_kind_of_no_memory_says_what_to_do(error):
    how, why = ending(error, 0)
    assert how == "failed"
    assert why.startswith("out of memory: step 1 does not fit.")
    assert "smaller batch" in why
    assert ("2.50 GiB more" in why) == ("2.50" in f"{error} {error.__cause__}")


def test_a_model_that_does_not_fit_is_not_called_a_step():
    assert ending(MemoryError(), None)[1].startswith("out of memory: the model does not fit.")


def test_other_words_about_memory_are_not_out_of_memory():
    assert not ending(ValueError("out of memory"), 0)[1].startswith("out of memory")
    assert not ending(RuntimeError("memory format"), 0)[1].startswith("out of memory")


def test_an_error_is_told_by_its_class_its_step_and_one_short_line():
    assert ending(KeyError("a"), 4) == ("failed", "step 5: KeyError: 'a'")
    assert ending(ValueError("two\n\n  lines"), None) == ("failed", "ValueError: two lines")
    assert ending(ValueError(), None) == ("failed", "ValueError")
    how, why = ending(ValueError("x" * 10_000), 4)
    assert how == "failed"
    assert len(why) == LONGEST
    assert why.endswith("…")


def test_an_error_is_told_by_what_it_was_raised_from():
    inner = ValueError("the reason")
    assert ending(chained(RuntimeError("around"), inner), 0)[1] == \
        "step 1: RuntimeError, from ValueError: the reason"
    circle = chained(RuntimeError("a"), chained(RuntimeError("b"), None))
    circle.__cause__.__cause__ = circle
    assert ending(circle, 0)[0] == "failed"
