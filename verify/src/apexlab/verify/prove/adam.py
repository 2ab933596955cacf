"""Adam: the two optimizers by their public classes, and the functions behind them.

A parameter is about 0.1 and a step moves it by 0.25, so that a step which was not made is far
above the limit in every dtype, BF16 too. The betas are exact in FP32 and leave 1 - beta^step well
away from zero: it does not matter then how a kernel takes the power.
"""

from __future__ import annotations

import inspect
from typing import Any

from . import references
from .case import ONE_STEP, TEN_STEPS, Case, Unsupported

TENSORS, SIZE = 100, 1000
CHUNK = 65536
LR, BETAS, EPS, DECAY = 0.25, (0.5, 0.75), 1e-8, 0.0625


def fused_adam(case: Case, *, steps: int = 1, **options: bool) -> None:
    """apex.optimizers.FusedAdam; `options` are capturable and master_weights."""
    kind = case.api("apex.optimizers", "FusedAdam")
    if lacking := set(options) - set(inspect.signature(kind).parameters):
        raise Unsupported(f"this FusedAdam has no {', '.join(sorted(lacking))}")
    _train(case, kind, steps, DECAY, options)


def contrib_adam(case: Case) -> None:
    """apex.contrib.optimizers.FusedAdam. Its weight decay is defined otherwise: left out."""
    _train(case, case.api("apex.contrib.optimizers", "FusedAdam"), 1, 0.0, {})


def _train(case: Case, kind: Any, steps: int, decay: float, options: dict[str, bool]) -> None:
    start, direction = case.random(TENSORS, SIZE, scale=0.1), case.sized(TENSORS, SIZE)
    # Always one way, so that ten steps move a parameter far.
    gradients = [direction * (1 + number % 3 / 4) for number in range(steps)]
    with case.here():
        parameters = [row.clone().requires_grad_() for row in start]
        optimizer = kind(parameters, lr=LR, betas=BETAS, eps=EPS, weight_decay=decay, **options)

    def train() -> None:
        for gradient in gradients:
            for parameter, row in zip(parameters, gradient, strict=True):
                parameter.grad = row
            optimizer.step()

    case.run("step", train)
    want, _, _ = references.adam(start, gradients, LR, BETAS, EPS, decay)
    got = case.torch.stack([parameter.detach() for parameter in parameters])
    case.compare("step", got, want, ONE_STEP if steps == 1 else TEN_STEPS, "parameters")


def multi_tensor_adam(case: Case) -> None:
    """amp_C.multi_tensor_adam, the third step with decoupled weight decay. Moments are FP32."""
    function = case.function("amp_C", "multi_tensor_adam")
    g, p, m, v = _state(case, TENSORS, SIZE)
    want = references.adam(p, [g], LR, BETAS, EPS, DECAY, m, v, step=3)
    lists, flag = [list(group.unbind()) for group in (g, p, m, v)], case.flag()
    case.run("", lambda: function(CHUNK, flag, lists, LR, *BETAS, EPS, 3, 1, 1, DECAY))
    for what, got, reference in zip(("p", "m", "v"), (p, m, v), want, strict=True):
        case.compare("", got, reference, what=what)


def one_tensor_adam(case: Case) -> None:
    """fused_adam_cuda.adam, the third step, without a copy of p and with a gradient scale of 1."""
    function = case.function("fused_adam_cuda", "adam")
    g, p, m, v = (group.reshape(-1) for group in _state(case, 7, 10007))
    want = references.adam(p, [g], LR, BETAS, EPS, 0.0, m, v, step=3)
    no_copy = case.torch.empty(0, dtype=g.dtype, device=g.device)
    case.run("", lambda: function(p, no_copy, m, v, g, LR, *BETAS, EPS, 1.0, 3, 1, 1, 0.0))
    for what, got, reference in zip(("p", "m", "v"), (p, m, v), want, strict=True):
        case.compare("", got, reference, what=what)


def _state(case: Case, *shape: int) -> tuple[Any, Any, Any, Any]:
    """Gradient, parameter and moments in the middle of a training."""
    g, p = case.sized(*shape), case.random(*shape, scale=0.1)
    return g, p, case.random(*shape), case.sized(*shape).abs() * 2
