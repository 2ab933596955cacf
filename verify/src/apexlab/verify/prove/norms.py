"""Layer norm and RMS norm, forward and backward, by their public classes and directly."""

from __future__ import annotations

from typing import Any

from . import references
from .case import Case

LEADING = (4, 16)
EPS = 1e-5


def norm(case: Case, *, name: str, width: int, weights: str = "") -> None:
    """The class `name` on the case's dtype; `weights` names another dtype for weight and bias,
    which the result then has (FP32 in, 16 bits out: what the Mixed classes are for)."""
    out = case.dtype_of(weights or case.dtype_name)
    layer = _layer(case, name, width, out)
    x = case.random(*LEADING, width).requires_grad_()
    dy = case.random(*LEADING, width, dtype=out)
    with case.may_refuse(refusable=bool(weights)):
        _both_ways(case, layer, x, dy, out)


def under_autocast(case: Case, *, name: str, width: int) -> None:
    """FP32 input and weights under CUDA autocast to the case's dtype, which the result has."""
    layer = _layer(case, name, width, case.torch.float32)
    x = case.random(*LEADING, width, dtype=case.torch.float32).requires_grad_()
    dy = case.random(*LEADING, width)

    def cast(given: Any) -> Any:
        with case.torch.autocast(case.device.type, dtype=case.dtype):
            return layer(given)

    _both_ways(case, layer, x, dy, case.dtype, cast)


def _layer(case: Case, name: str, width: int, dtype: Any) -> Any:
    """The layer with a weight around 1 and a bias around 0, neither of them trivial."""
    kind = case.api("apex.normalization", name)
    with case.here():
        layer = kind(width, eps=EPS).to(case.device, dtype)
    with case.torch.no_grad():
        layer.weight.copy_(case.random(width, scale=0.25, shift=1.0))
        if _bias(layer) is not None:
            layer.bias.copy_(case.random(width))
    return layer


def _bias(layer: Any) -> Any:
    return getattr(layer, "bias", None)


def _both_ways(case: Case, layer: Any, x: Any, dy: Any, out: Any, call: Any = None) -> None:
    leaves = [x, layer.weight] + ([] if _bias(layer) is None else [layer.bias])
    rounded = [leaf.to(out) if call else leaf for leaf in leaves]
    weight, bias = rounded[1], rounded[2] if len(rounded) > 2 else None
    want, gradients = references.norm(rounded[0], weight, bias, dy, EPS, rms=bias is None)
    case.poison(x, dy, layer.weight)
    y = case.run("forward", lambda: (call or layer)(x))
    case.compare("forward", y, want, what="y", dtype=out)
    if y.shape != dy.shape or y.dtype != dy.dtype:
        return  # the comparison has said so
    case.poison(x, dy, layer.weight)
    got = case.run("backward", lambda: case.torch.autograd.grad(y, leaves, dy))
    for what, leaf, one, reference in zip(("dx", "dweight", "dbias"), leaves, got, gradients,
                                          strict=False):
        # Autocast hands gradients back in FP32 that were computed in the dtype it casts to.
        one, dtype = (one.to(out), out) if call else (one, leaf.dtype)
        case.compare("backward", one, reference, what=what, dtype=dtype)


def forward_affine(case: Case, *, rms: bool) -> None:
    """fused_layer_norm_cuda.forward_affine or rms_forward_affine, without the class: the output is
    the first of what they give."""
    width = 1024
    function = case.function("fused_layer_norm_cuda", f"{'rms_' if rms else ''}forward_affine")
    x, weight = case.random(*LEADING, width), case.random(width, scale=0.25, shift=1.0)
    bias = None if rms else case.random(width)
    want, _ = references.norm(x, weight, bias, case.random(*LEADING, width), EPS, rms)
    affine = (weight,) if bias is None else (weight, bias)
    case.poison(x)
    outputs = case.run("", lambda: function(x, (width,), *affine, EPS))
    case.compare("", outputs[0], want, what="y")
