"""Layer norm and RMS norm through fused_layer_norm_cuda, or PyTorch without a word."""

import math
import numbers

import torch
from torch.nn import functional as F
from torch.nn import init
from torch.nn.parameter import Parameter

from .._compiled import module
from ._shapes import fits


def extension():
    return module("fused_layer_norm_cuda")


def manual_rms_norm(x, normalized_shape, weight, eps):
    """PyTorch's own operations, in place of the kernel."""
    dims = tuple(range(-len(normalized_shape), 0))
    y = x * torch.rsqrt(x.float().pow(2).mean(dim=dims, keepdim=True) + eps)
    return y.to(x.dtype) if weight is None else (y * weight).to(weight.dtype)


class Norm(torch.autograd.Function):
    """All norms. The saved tensor is the input, or with `memory_efficient` the output."""

    @staticmethod
    def forward(ctx, x, weight, bias, shape, eps, memory_efficient, rms, mixed):
        x = x.contiguous()
        affine = [] if weight is None else [weight.contiguous()]
        affine += [] if bias is None else [bias.contiguous()]
        name = ("rms_" if rms else "") + "forward" + ("_affine" if affine else "")
        name += "_mixed_dtypes" if mixed else ""
        y, *statistics = getattr(extension(), name)(x, shape, *affine, eps)
        mean, inverse = (None, *statistics) if rms else statistics
        ctx.shape, ctx.eps, ctx.rms, ctx.memory_efficient = shape, eps, rms, memory_efficient
        ctx.with_bias = bias is not None
        # The mean is not needed to go back from the output.
        ctx.save_for_backward(y if memory_efficient else x, inverse,
                              None if memory_efficient else mean, *affine)
        return y

    @staticmethod
    def backward(ctx, dy):
        saved, inverse, mean, *affine = ctx.saved_tensors
        name = ("rms_" if ctx.rms else "") + "backward" + ("_affine" if affine else "")
        statistics = (inverse,) if ctx.rms else (mean, inverse)
        gradients = getattr(extension(), name)(dy.contiguous(), *statistics, saved, ctx.shape,
                                               *affine, ctx.eps, ctx.memory_efficient)
        gradients = list(gradients) if affine else [gradients]
        gradients += [None] * (3 - len(gradients))
        return (*gradients, None, None, None, None, None)


def under_autocast(*tensors):
    """The tensors in the dtype of an active CUDA autocast."""
    if not torch.is_autocast_enabled("cuda"):
        return tensors
    dtype = torch.get_autocast_dtype("cuda")
    return tuple(x if x is None else x.to(dtype) for x in tensors)


def apply_norm(x, weight, bias, shape, eps, memory_efficient, rms=False, mixed=False):
    x, weight, bias = under_autocast(x, weight, bias)
    with torch.autocast("cuda", enabled=False):
        return Norm.apply(x, weight, bias, tuple(shape), eps, memory_efficient, rms, mixed)


def fused_layer_norm(input, normalized_shape, eps=1e-6, memory_efficient=False):
    return apply_norm(input, None, None, normalized_shape, eps, memory_efficient)


def fused_layer_norm_affine(input, weight, bias, normalized_shape, eps=1e-6,
                            memory_efficient=False):
    return apply_norm(input, weight, bias, normalized_shape, eps, memory_efficient)


def mixed_dtype_fused_layer_norm_affine(input, weight, bias, normalized_shape, eps=1e-6,
                                        memory_efficient=False):
    return apply_norm(input, weight, bias, normalized_shape, eps, memory_efficient, mixed=True)


def fused_rms_norm(input, normalized_shape, eps=1e-6, memory_efficient=False):
    return apply_norm(input, None, None, normalized_shape, eps, memory_efficient, rms=True)


def fused_rms_norm_affine(input, weight, normalized_shape, eps=1e-6, memory_efficient=False):
    return apply_norm(input, weight, None, normalized_shape, eps, memory_efficient, rms=True)


def mixed_dtype_fused_rms_norm_affine(input, weight, normalized_shape, eps=1e-6,
                                      memory_efficient=False):
    return apply_norm(input, weight, None, normalized_shape, eps, memory_efficient, rms=True,
                      mixed=True)


def runs_pytorch(x, shape):
    """Where the classes leave the kernels out, silently."""
    return (torch.jit.is_tracing() or torch.jit.is_scripting() or torch.compiler.is_compiling()
            or not x.is_cuda or not fits(math.prod(shape)))


class FusedLayerNorm(torch.nn.Module):
    mixed = False
    rms = False

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True,
                 memory_efficient=False):
        super().__init__()
        extension()  # a missing module is an error here, and never again later
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = torch.Size(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.memory_efficient = memory_efficient
        affine = Parameter(torch.empty(*normalized_shape)) if elementwise_affine else None
        self.register_parameter("weight", affine)
        if not self.rms:
            bias = Parameter(torch.empty(*normalized_shape)) if elementwise_affine else None
            self.register_parameter("bias", bias)
        self.reset_parameters()

    def reset_parameters(self):
        if self.elementwise_affine:
            init.ones_(self.weight)
            if not self.rms:
                init.zeros_(self.bias)

    def forward(self, input):
        bias = None if self.rms else self.bias
        if runs_pytorch(input, self.normalized_shape):
            if self.rms:
                return manual_rms_norm(input, self.normalized_shape, self.weight, self.eps)
            return F.layer_norm(input, self.normalized_shape, self.weight, bias, self.eps)
        return apply_norm(input, self.weight, bias, self.normalized_shape, self.eps,
                          self.memory_efficient, self.rms, self.mixed)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, affine={self.elementwise_affine}"


class FusedRMSNorm(FusedLayerNorm):
    rms = True


class MixedFusedLayerNorm(FusedLayerNorm):
    mixed = True

    def __init__(self, normalized_shape, eps=1e-5, *, memory_efficient=False):
        super().__init__(normalized_shape, eps, True, memory_efficient)


class MixedFusedRMSNorm(FusedRMSNorm):
    mixed = True

    def __init__(self, normalized_shape, eps=1e-5, *, memory_efficient=False):
        super().__init__(normalized_shape, eps, True, memory_efficient)
