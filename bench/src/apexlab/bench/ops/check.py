"""Each provider's numbers on a small case against float64 on the CPU, before anything is timed.

An error is in units of eps(dtype) times the largest number of the reference, as in verify.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from apexlab.bench.model.settings import NORM_EPS, Hyperparameters
from apexlab.bench.ops.cases import Case
from apexlab.bench.ops.operands import LONGEST, Adam, Clip, Norm, Work
from apexlab.bench.ops.providers import Provider
from apexlab.verify.prove import references

# Of 16 bits twice as much: torch's own optimizers and composite norms round between their parts.
LIMITS = {"float32": 8.0, "bfloat16": 16.0}
# A step that was not made, or made twice, is far above the limit with these, in BF16 too.
ADAMW = Hyperparameters(lr=0.25, betas=(0.5, 0.75), weight_decay=0.0625)
SMALL = ((1000,),) * 10
ROWS = 64
Results = Iterable[tuple[str, Any, Any]]  # what, as it is, as it should be


@dataclass(frozen=True)
class Error:
    """`what` was furthest off, and by how much; None for a number that is not finite."""

    what: str
    error: float | None
    limit: float

    @property
    def wrong(self) -> bool:
        return self.error is None or not self.error <= self.limit


def check(cases: Sequence[Case], provider: Provider, device: Any) -> Error:
    """On small tensors, the worst error of all that a provider gives for cases of one setting."""
    case = cases[0]
    if case.op == "adam":
        adam = Adam(replace(case, sizes=SMALL), device, ADAMW)
        return _worst(case, _adam(adam, adam.work(provider)))
    if case.op == "clip":
        clips = [Clip(replace(each, sizes=SMALL), device, scale=0.375) for each in cases]
        return _worst(case, [result for clip in clips
                             for result in _clip(clip, clip.work(provider))])
    norm = Norm(replace(case, sizes=((ROWS, case.sizes[0][1]),)), device)
    return _worst(case, _norm(norm, norm.work(provider)))


def check_first(case: Case, operands: Any, work: Work) -> Error:
    """Of compiled code, which is made for its own sizes: its very first call, on the tensors that
    are timed, of which the first numbers or rows are compared."""
    return _worst(case, (_adam if case.op == "adam" else _norm)(operands, work))


def _adam(operands: Adam, work: Work) -> Results:
    p, g = ([head(each) for each in tensors]
            for tensors in (operands.parameters, operands.gradients))
    work.calls["step"]()
    adamw = operands.adamw
    for before, gradient, parameter in zip(p, g, operands.parameters, strict=True):
        want, _, _ = references.adam(before, [gradient], adamw.lr, adamw.betas, adamw.eps,
                                     adamw.weight_decay)
        yield "parameters", head(parameter), want


def _clip(operands: Clip, work: Work) -> Results:
    g = torch.stack(operands.gradients)
    want = {"unscale": references.float64(g) * operands.scale,
            "clip": references.clipped(g, LONGEST)[1]}
    work.calls[operands.case.direction]()
    yield "gradients", torch.stack(operands.gradients), want[operands.case.direction]


def _norm(operands: Norm, work: Work) -> Results:
    module, rms = work.module, operands.case.op == "rmsnorm"
    y, (dx, *parameters) = (work.calls[direction]() for direction in ("forward",
                                                                      "forward+backward"))
    want, (wanted, *others) = references.norm(
        operands.x[:ROWS], module.weight, None if rms else module.bias, operands.dy[:ROWS],
        NORM_EPS, rms)
    yield "y", y[:ROWS], want
    yield "dx", dx[:ROWS], wanted
    if len(y) == ROWS:  # those of the parameters are sums over all rows
        yield from zip(("dweight", "dbias"), parameters, others, strict=False)


def head(tensor: Any) -> Any:
    """A copy of the first numbers."""
    return tensor.detach().flatten()[:1000].clone()


def _worst(case: Case, results: Results) -> Error:
    dtype = "bfloat16" if case.autocast else case.dtype
    errors = [(what, _error(got, want, getattr(torch, dtype))) for what, got, want in results]
    what, worst = max(errors, key=lambda one: math.inf if one[1] is None else one[1])
    return Error(what, worst, LIMITS[dtype])


def _error(got: Any, want: Any, dtype: torch.dtype) -> float | None:
    """None for what is not finite, or not of the right size."""
    got64 = references.float64(got)
    if got64.shape != want.shape:
        return None
    error = float((got64 - want).abs().max() / (torch.finfo(dtype).eps * want.abs().max()))
    return error if math.isfinite(error) else None
