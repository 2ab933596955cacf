"""The calls that are to be proven, and those that are known to fall back. Data only: it imports
nothing of torch, and is read on both sides.

Signatures and meanings are those that Apex's compiled modules and its public classes state. Where
Apex defines a number otherwise than a textbook does, the call leaves it out (see the functions).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One call. `function` is "file:function" in this folder and takes `options` as keywords;
    `api` and `condition` are how reports name it and how it is called. Without `required`, an
    answer that this Apex has no such call is no gap."""

    extension: str
    api: str
    function: str
    dtypes: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    condition: str = ""
    required: bool = True


@dataclass(frozen=True)
class Fallback:
    """A call that Apex is known to answer with PyTorch's code: the finding that says so, the call
    in words, how to make it, and the extension that it leaves out."""

    code: str
    text: str
    function: str
    extension: str


_ALL = ("fp32", "fp16", "bf16")
_HALF = ("fp16", "bf16")
# The widths of well-known models, one that is no multiple of 16 or so, and an odd one.
_WIDTHS = (768, 1024, 4096, 1000, 1023)
_NORMS = ("FusedLayerNorm", "FusedRMSNorm")
_MIXED = ("MixedFusedLayerNorm", "MixedFusedRMSNorm")
# For dtypes that some refs have and others do not compile the function for.
_IF_COMPILED: dict[str, Any] = {"options": {"refusable": True}, "required": False}


def _adam(dtypes: tuple[str, ...], condition: str, required: bool = True, **options: Any) -> Call:
    return Call("amp_C", "FusedAdam", "adam:fused_adam", dtypes, options, condition, required)


def _norm(name: str, width: int, dtypes: tuple[str, ...] = _ALL) -> Call:
    return Call("fused_layer_norm_cuda", name, "norms:norm", dtypes,
                {"name": name, "width": width}, f"width {width}")


def _mixed(name: str, weights: str) -> Call:
    return Call("fused_layer_norm_cuda", name, "norms:norm", ("fp32",),
                {"name": name, "width": 1024, "weights": weights},
                f"width 1024, {weights} weights", required=False)


def _autocast(name: str, dtype: str) -> Call:
    return Call("fused_layer_norm_cuda", name, "norms:under_autocast", (dtype,),
                {"name": name, "width": 1024}, f"width 1024, autocast {dtype}")


def _softmax(extension: str, masked: bool) -> Call:
    return Call(extension, f"{extension}.forward", "direct:softmax", _HALF,
                {"extension": extension, "masked": masked})


CALLS: tuple[Call, ...] = (
    # Optimizers.
    _adam(_ALL, ""),
    _adam(_ALL, "10 steps", steps=10),
    _adam(_ALL, "capturable", capturable=True),
    _adam(_ALL, "capturable, 10 steps", capturable=True, steps=10),
    _adam(("fp16",), "capturable, master weights", capturable=True, master_weights=True,
          required=False),
    _adam(("fp16",), "capturable, master weights, 10 steps", capturable=True, master_weights=True,
          steps=10, required=False),
    Call("amp_C", "amp_C.multi_tensor_adam", "adam:multi_tensor_adam", ("fp32",)),
    Call("amp_C", "amp_C.multi_tensor_scale", "direct:scale", ("fp32", "fp16")),
    Call("amp_C", "amp_C.multi_tensor_scale", "direct:scale", ("bf16",), **_IF_COMPILED),
    Call("amp_C", "amp_C.multi_tensor_l2norm", "direct:l2norm", ("fp32", "fp16")),
    Call("amp_C", "amp_C.multi_tensor_l2norm", "direct:l2norm", ("bf16",), **_IF_COMPILED),
    Call("amp_C", "contrib.clip_grad.clip_grad_norm_", "direct:clip", ("fp32", "fp16"),
         required=False),
    Call("fused_adam_cuda", "fused_adam_cuda.adam", "adam:one_tensor_adam", ("fp32",)),
    Call("fused_adam_cuda", "contrib.optimizers.FusedAdam", "adam:contrib_adam", ("fp32",),
         required=False),
    # Norms: each call is a forward and a backward.
    *(_norm(name, width) for name in _NORMS for width in _WIDTHS),
    *(_norm(name, 1024) for name in _MIXED),
    *(_mixed(name, weights) for name in _MIXED for weights in _HALF),
    *(_autocast(name, dtype) for name in (*_NORMS, *_MIXED) for dtype in _HALF),
    Call("fused_layer_norm_cuda", "fused_layer_norm_cuda.forward_affine", "norms:forward_affine",
         ("fp32",), {"rms": False}),
    Call("fused_layer_norm_cuda", "fused_layer_norm_cuda.rms_forward_affine",
         "norms:forward_affine", ("fp32",), {"rms": True}),
    # Direct calls of the further modules.
    _softmax("scaled_softmax_cuda", masked=False),
    _softmax("scaled_masked_softmax_cuda", masked=True),
    _softmax("generic_scaled_masked_softmax_cuda", masked=True),
    Call("scaled_upper_triang_masked_softmax_cuda",
         "scaled_upper_triang_masked_softmax_cuda.forward", "direct:causal_softmax", _HALF),
    Call("fused_rotary_positional_embedding", "fused_rotary_positional_embedding.forward",
         "direct:rotary", ("fp32", "fp16")),
    Call("fused_rotary_positional_embedding", "fused_rotary_positional_embedding.forward",
         "direct:rotary", ("bf16",), **_IF_COMPILED),
    Call("fused_dense_cuda", "fused_dense_cuda.linear_bias_forward", "direct:dense", ("fp16",)),
    Call("fused_dense_cuda", "fused_dense_cuda.linear_bias_forward", "direct:dense",
         ("fp32", "bf16"), **_IF_COMPILED),
    Call("mlp_cuda", "mlp_cuda.forward", "direct:mlp", ("fp16",)),
    Call("mlp_cuda", "mlp_cuda.forward", "direct:mlp", ("fp32", "bf16"), **_IF_COMPILED),
    Call("fused_weight_gradient_mlp_cuda", "fused_weight_gradient_mlp_cuda.wgrad_gemm_accum_fp32",
         "direct:weight_gradient", ("fp16",)),
    Call("fused_weight_gradient_mlp_cuda", "fused_weight_gradient_mlp_cuda.wgrad_gemm_accum_fp32",
         "direct:weight_gradient", ("bf16",), **_IF_COMPILED),
    Call("syncbn", "syncbn.welford_mean_var", "direct:welford", ("fp32", "fp16")),
    Call("syncbn", "syncbn.welford_mean_var", "direct:welford", ("bf16",), **_IF_COMPILED),
    Call("apex_C", "apex_C.flatten", "direct:flatten", ("fp32",)),
    Call("apex_C", "apex_C.unflatten", "direct:unflatten", ("fp32",)),
)

FALLBACKS: tuple[Fallback, ...] = (
    Fallback("known-fallback-cpu", "FusedLayerNorm and FusedRMSNorm on CPU tensors",
             "fallbacks:cpu_norms", "fused_layer_norm_cuda"),
    Fallback("known-fallback-compile", "FusedLayerNorm and FusedRMSNorm inside torch.compile",
             "fallbacks:compiled_norms", "fused_layer_norm_cuda"),
    Fallback("known-fallback-softmax", "FusedScaleMaskSoftmax with 16 keys",
             "fallbacks:refused_softmax", "scaled_masked_softmax_cuda"),
    Fallback("known-fallback-clip", "contrib.clip_grad with BF16 gradients",
             "fallbacks:bf16_clip", "amp_C"),
)
