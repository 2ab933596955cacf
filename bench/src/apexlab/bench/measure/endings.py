"""How a task that did not finish is told: an ending, and one sentence on one line."""

from __future__ import annotations

import re

from apexlab.bench.errors import MeasureError
from apexlab.verify.errors import CannotError

LONGEST = 400
# What torch, cuBLAS, cuDNN and the C library say when there is no memory left.
_NO_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory"
                        r"|cannot allocate memory|CU\w+_STATUS_ALLOC_FAILED", re.IGNORECASE)
_WANTED = re.compile(r"[Tt]ried to allocate ([\d.]+ ?\w+)")


def ending(error: BaseException, done: int | None) -> tuple[str, str]:
    """(`failed` or `unavailable`, why). `done`: steps that were finished before it, None where
    there is nothing yet that could make any."""
    if isinstance(error, CannotError):
        return "unavailable", one_line(str(error))
    if isinstance(error, MeasureError):
        return "failed", one_line(str(error))
    cause = innermost(error)
    if any(no_memory(each) for each in (error, cause)):
        return "failed", out_of_memory(cause, done)
    where = "" if done is None else f"step {done + 1}: "
    inside = "" if cause is error else f"{type(error).__name__}, from "
    return "failed", one_line(f"{where}{inside}{type(cause).__name__}: {cause}".rstrip(": "))


def innermost(error: BaseException) -> BaseException:
    """The error that the others were raised from; torch's compiler wraps its backends' without
    saying so to Python."""
    seen = {id(error)}
    while True:
        cause = error.__cause__ or getattr(error, "inner_exception", None)
        if not isinstance(cause, BaseException) or id(cause) in seen:
            return error
        seen.add(id(cause))
        error = cause


def no_memory(error: BaseException) -> bool:
    return (type(error).__name__ in ("OutOfMemoryError", "MemoryError")
            or (isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error)))))


def out_of_memory(error: BaseException, done: int | None) -> str:
    wanted = _WANTED.search(str(error))
    more = f" {wanted[1]} more were asked for." if wanted else ""
    what = "the model" if done is None else f"step {done + 1}"
    return (f"out of memory: {what} does not fit.{more} Take a preset of your own with a "
            "smaller batch, or a smaller model.")


def one_line(text: str, longest: int = LONGEST) -> str:
    """The text without line breaks or runs of blanks, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[:longest - 1].rstrip() + "…"
