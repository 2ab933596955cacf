"""One call that is to be proven: its inputs, what ran while it was made, how far its results are
off. The inputs are the same in every run, and references start from their rounded values."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from .references import float64

Result = TypeVar("Result")

ONE_STEP, TEN_STEPS = 8.0, 32.0  # the gates, in units of eps(dtype) * max|reference|
# What a function says of a dtype that it was not compiled for.
_REFUSALS = ("not implemented for", "expected scalar type")
# What pybind11 says of arguments that a function was not declared with, and torch of an operator's.
_OTHER_SIGNATURE = ("incompatible function arguments", "expected at most", "is missing value for")


class Unsupported(Exception):
    """This Apex has no such call."""


def function(name: str) -> Callable[..., None]:
    """"norms:norm" is the function `norm` of the file norms.py in this folder."""
    file, _, attribute = name.partition(":")
    found: Callable[..., None] = getattr(
        importlib.import_module(f".{file}", __package__), attribute)
    return found


class Case:
    """`device` (CUDA; the CPU in tests), `dtype` and `dtype_name` ("fp16"); `layouts` says of each
    extension whether it is a "module" or behind a shim; `phases` is what came of the call."""

    def __init__(self, torch: Any, device: Any, dtype_name: str, instruments: Any = None,
                 layouts: Mapping[str, str] | None = None, seed: int = 0) -> None:
        self.torch = torch
        self.device = torch.device(device)
        self.dtype_name = dtype_name
        self.dtype = self.dtype_of(dtype_name)
        self.phases: list[dict[str, Any]] = []
        self._instruments = instruments
        self._layouts = layouts or {}
        self._generator = torch.Generator().manual_seed(seed)
        self._calls = 0

    def dtype_of(self, name: str) -> Any:
        return getattr(self.torch, {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[name])

    # --- what is called ---------------------------------------------------------------------------

    def module(self, extension: str) -> Any:
        """The extension as a module: itself, or the shim that stands for a library."""
        shim = self._layouts.get(extension, "module") != "module"
        return importlib.import_module(f"apex._extensions.{extension}" if shim else extension)

    def function(self, extension: str, name: str) -> Callable[..., Any]:
        """The extension's function behind a wrapper that counts, for `calls` of a phase."""
        try:
            original = getattr(self.module(extension), name)
        except AttributeError as error:
            raise Unsupported(f"{extension} has no {name}") from error

        def counted(*arguments: Any) -> Any:
            try:
                result = original(*arguments)
            except (TypeError, RuntimeError) as error:
                if any(sign in str(error) for sign in _OTHER_SIGNATURE):
                    raise Unsupported(
                        f"{name} of this {extension} takes other arguments") from error
                raise
            self._calls += 1
            return result

        return counted

    def api(self, module: str, name: str) -> Any:
        """The class or function `name` of Apex's package `module`; Unsupported without it."""
        try:
            return getattr(importlib.import_module(module), name)
        except AttributeError as error:
            raise Unsupported(f"{module} has no {name}") from error
        except ModuleNotFoundError as error:
            # A missing extension, or no Apex at all, is a fault.
            if not (error.name or "").startswith("apex.") or "_extensions" in str(error.name):
                raise
            raise Unsupported(f"this Apex has no {error.name}") from error

    @contextlib.contextmanager
    def may_refuse(self, refusable: bool = True) -> Iterator[None]:
        """A dtype that a function was not compiled for, and says so, is no fault of it."""
        try:
            yield
        except RuntimeError as error:
            if refusable and any(sign in str(error) for sign in _REFUSALS):
                raise Unsupported(str(error).splitlines()[0]) from error
            raise

    def multiplies(self) -> None:
        """Said before a call that has cuBLAS multiply matrices: before 8.0 it knows no BF16."""
        if self.dtype_name == "bf16" and self.device.type == "cuda" and (
                self.torch.cuda.get_device_capability(self.device) < (8, 0)):
            raise Unsupported("this GPU multiplies no BF16 matrices")

    # --- inputs -----------------------------------------------------------------------------------

    def random(self, *shape: int, dtype: Any = None, scale: float = 1.0, shift: float = 0.0) -> Any:
        """Normally distributed numbers around `shift`. The first one stands out, so that a fault
        in it is not lost in the limit."""
        values = self.torch.randn(shape, generator=self._generator, dtype=self.torch.float64)
        values.view(-1)[0] = 3.0
        return (values * scale + shift).to(dtype or self.dtype).to(self.device)

    def sized(self, *shape: int, dtype: Any = None) -> Any:
        """Numbers of either sign whose sizes are 0.5 to 1.5."""
        values = self.torch.rand(shape, generator=self._generator, dtype=self.torch.float64) - 0.5
        return (values + values.sign()).to(dtype or self.dtype).to(self.device)

    def whole(self, *shape: int, low: int, high: int, dtype: Any = None) -> Any:
        """Whole numbers from `low` to `high`, of which sums are exact in any order, TF32 too."""
        values = self.torch.randint(low, high + 1, shape, generator=self._generator)
        return values.to(dtype or self.dtype).to(self.device)

    def flag(self) -> Any:
        """The flag of amp_C's functions, which is set where something was not finite."""
        return self.torch.zeros(1, dtype=self.torch.int32, device=self.device)

    def nothing(self, like: Any) -> Any:
        """A tensor of NaN for a result: what is not written cannot look right."""
        return self.torch.full_like(like, math.nan)

    def poison(self, *like: Any) -> None:
        """Leave NaN in freed memory of these sizes: where a function takes memory for its results,
        torch may give it one that still holds the right numbers of an earlier call."""
        blocks = [self.nothing(each) for each in like for _ in range(4)]
        del blocks

    def here(self) -> AbstractContextManager[Any]:
        """The case's device as the current one: Apex's optimizers make helper tensors on whichever
        that is when they are constructed."""
        if self.device.type == "cpu":
            return contextlib.nullcontext()
        current: AbstractContextManager[Any] = self.torch.cuda.device(self.device)
        return current

    # --- the call and its results -----------------------------------------------------------------

    def run(self, phase: str, function: Callable[[], Result]) -> Result:
        """What `function()` gives; what it ran on the device is recorded as `phase`."""
        before = self._calls
        self._wait()
        record: dict[str, Any] = {
            "phase": phase, "profiler": None, "interposer": None, "refused": None}
        if self._instruments is None:
            result = function()
        else:
            with self._instruments.watch(self.device) as seen:
                result = function()
                self._wait()
            record.update(profiler=seen.profiler, interposer=seen.interposer,
                          refused=seen.refused)
        self.phases.append({**record, "calls": self._calls - before, "errors": []})
        return result

    def compare(self, phase: str, got: Any, want64: Any, limit: float = ONE_STEP, what: str = "",
                dtype: Any = None) -> None:
        """Record how far `got`, which has to be of `dtype` (the case's own without one), is from
        the float64 tensor `want64` on the CPU."""
        wanted = dtype or self.dtype
        record = next(one for one in reversed(self.phases) if one["phase"] == phase)
        record["errors"].append({
            "what": what, "limit": limit, "error": self._error(got.to(wanted), want64),
            "other_dtype": None if got.dtype == wanted else str(got.dtype)})

    def _error(self, got: Any, want64: Any) -> float | None:
        got64 = float64(got)
        if got64.shape != want64.shape:
            return None
        unit = self.torch.finfo(got.dtype).eps * want64.abs().max().item()
        error = (got64 - want64).abs().max().item() / unit
        return error if math.isfinite(error) else None

    def _wait(self) -> None:
        """Until both GPUs are idle, the tensors' and the current one: a function that goes wrong
        starts its kernels there."""
        if self.device.type != "cpu":
            self.torch.cuda.synchronize(self.device)
            self.torch.cuda.synchronize()
