"""Calls of extensions whose public classes are gone, or that others call by name."""

from __future__ import annotations

import math

from . import references
from .adam import CHUNK, SIZE, TENSORS
from .case import Case
from .references import float64

ROWS, IN, OUT = 32, 64, 48  # of the matrix products


def scale(case: Case, *, refusable: bool = False) -> None:
    function = case.function("amp_C", "multi_tensor_scale")
    x = case.random(TENSORS, SIZE)
    out = case.nothing(x)
    lists, flag = [list(x.unbind()), list(out.unbind())], case.flag()
    with case.may_refuse(refusable):
        case.run("", lambda: function(CHUNK, flag, lists, 0.375))
    case.compare("", out, float64(x) * 0.375, what="out")


def l2norm(case: Case, *, refusable: bool = False) -> None:
    """The norm over all tensors, and that of each."""
    function = case.function("amp_C", "multi_tensor_l2norm")
    x, float32 = case.random(TENSORS, SIZE), case.torch.float32
    lists, flag = [list(x.unbind())], case.flag()
    case.poison(case.torch.empty(TENSORS, dtype=float32, device=case.device))
    with case.may_refuse(refusable):
        total, each = case.run("", lambda: function(CHUNK, flag, lists, True))
    case.compare("", total.reshape(1), float64(x).norm().reshape(1), what="norm", dtype=float32)
    case.compare("", each, float64(x).norm(dim=1), what="norms", dtype=float32)


def clip(case: Case) -> None:
    """apex.contrib.clip_grad, which takes the norm and scales with amp_C."""
    function = case.api("apex.contrib.clip_grad", "clip_grad_norm_")
    gradients = case.sized(TENSORS, SIZE)
    length, want = references.clipped(gradients, 40.0)
    parameters = [row.clone().requires_grad_() for row in gradients]
    for parameter, row in zip(parameters, gradients.clone(), strict=True):
        parameter.grad = row
    total = case.run("", lambda: function(parameters, 40.0))
    case.compare("", total.reshape(1), length, what="norm", dtype=case.torch.float32)
    got = case.torch.stack([parameter.grad for parameter in parameters])
    case.compare("", got, want, what="gradients")


def softmax(case: Case, *, extension: str, masked: bool = False) -> None:
    """x is [batch, heads, queries, keys], a mask [batch, 1, queries, keys] with 1 for masked."""
    function = case.function(extension, "forward")
    x = case.random(2, 8, 64, 64, scale=2.0)
    mask = (case.random(2, 1, 64, 64) > 0.5).to(case.torch.uint8)
    mask[..., 0] = 0  # no row without any element
    case.poison(x)
    arguments = (x, mask, 0.75) if masked else (x, 0.75)
    y = case.run("", lambda: function(*arguments))
    case.compare("", y, references.softmax(x, 0.75, mask if masked else None), what="y")


def causal_softmax(case: Case) -> None:
    """x is [batch * heads, size, size]."""
    function = case.function("scaled_upper_triang_masked_softmax_cuda", "forward")
    x = case.random(16, 64, 64, scale=2.0)
    case.poison(x)
    y = case.run("", lambda: function(x, 0.75))
    case.compare("", y, references.softmax(x, 0.75, references.later(64)), what="y")


def rotary(case: Case, *, refusable: bool = False) -> None:
    """x is [size, batch, heads, width], the FP32 angles [size, 1, 1, width], here within a turn."""
    function = case.function("fused_rotary_positional_embedding", "forward")
    x = case.random(32, 2, 4, 64)
    angles = case.random(32, 1, 1, 64, dtype=case.torch.float32).clamp(-math.pi, math.pi)
    case.poison(x)
    with case.may_refuse(refusable):
        y = case.run("", lambda: function(x, angles, False))
    case.compare("", y, references.rotary(x, angles), what="y")


def dense(case: Case, *, refusable: bool = False) -> None:
    case.multiplies()
    function = case.function("fused_dense_cuda", "linear_bias_forward")
    x, weight = case.whole(ROWS, IN, low=1, high=3), case.whole(OUT, IN, low=1, high=3)
    bias = case.whole(OUT, low=-9, high=9)
    case.poison(case.torch.empty(ROWS, OUT, dtype=case.dtype, device=case.device))
    with case.may_refuse(refusable):
        y = case.run("", lambda: function(x, weight, bias))
    case.compare("", y, references.linear(x, weight, bias), what="y")


def mlp(case: Case, *, refusable: bool = False) -> None:
    """Two layers with bias and ReLU, which kernels of its own add: without an activation cuBLAS
    adds the bias as well, and none of them runs. The second layer has no negative number in it, so
    that it makes no difference whether ReLU follows it. All values are exact in FP16."""
    case.multiplies()
    function = case.function("mlp_cuda", "forward")
    x, first = case.whole(ROWS, IN, low=-1, high=1), case.whole(OUT, IN, low=-1, high=1)
    second = case.whole(ROWS, OUT, low=0, high=1)
    biases = [case.whole(OUT, low=-9, high=9), case.whole(ROWS, low=1, high=9)]
    hidden = references.linear(x, first, biases[0]).clamp(min=0)
    case.poison(case.torch.empty(ROWS, ROWS, dtype=case.dtype, device=case.device))
    with case.may_refuse(refusable):
        outputs = case.run("", lambda: function(1, 1, [x, first, second, *biases]))
    case.compare("", outputs[0], references.linear(hidden, second, biases[1]), what="y")


def weight_gradient(case: Case, *, refusable: bool = False) -> None:
    """Adds dy' x to an FP32 gradient, in place."""
    case.multiplies()
    function = case.function("fused_weight_gradient_mlp_cuda", "wgrad_gemm_accum_fp32")
    x, dy = case.whole(ROWS, IN, low=1, high=3), case.whole(ROWS, OUT, low=1, high=3)
    gradient = case.whole(OUT, IN, low=-9, high=9, dtype=case.torch.float32)
    want = float64(gradient) + float64(dy).t() @ float64(x)
    with case.may_refuse(refusable):
        case.run("", lambda: function(x, dy, gradient))
    case.compare("", gradient, want, what="gradient", dtype=case.torch.float32)


def welford(case: Case, *, refusable: bool = False) -> None:
    """Mean and biased variance of each channel, in FP32."""
    function = case.function("syncbn", "welford_mean_var")
    x, float32 = case.random(8, 16, 8, 8, shift=1.0), case.torch.float32
    case.poison(case.torch.empty(16, dtype=float32, device=case.device))
    with case.may_refuse(refusable):
        mean, variance = case.run("", lambda: function(x))
    channels = float64(x).transpose(0, 1).reshape(16, -1)
    case.compare("", mean, channels.mean(1), what="mean", dtype=float32)
    case.compare("", variance, channels.var(1, unbiased=False), what="variance", dtype=float32)


def flatten(case: Case) -> None:
    function = case.function("apex_C", "flatten")
    parts = [case.random(3, 4), case.random(5), case.random(2, 2, 2)]
    flat = case.run("", lambda: function(parts))
    case.compare("", flat, float64(case.torch.cat([part.reshape(-1) for part in parts])))


def unflatten(case: Case) -> None:
    """Of values that the models of the shapes do not have."""
    function = case.function("apex_C", "unflatten")
    like = [case.random(3, 4), case.random(5), case.random(2, 2, 2)]
    flat = case.random(25)
    views = case.run("", lambda: function(flat, like))
    for view, part, model in zip(views, flat.split([12, 5, 8]), like, strict=True):
        case.compare("", view, float64(part).reshape(model.shape))
