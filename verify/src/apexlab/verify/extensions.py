"""Apex's extension modules: which flag builds each, what it serves, what its binary must hold.

Data only. Sources: Apex's setup.py at the refs of the matrix, and thirteen modules of
5c8860f1 that were built and opened. Contrib modules that differ between refs are listed per ref
in the matrix, not here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Extension:
    """One compiled module.

    `device_code` says what its fatbin holds: "kernels", "empty" (machine code without a kernel,
    since cuBLAS does the work) or "none" (C++ only, no fatbin). `proof` is the grade its kind
    allows: "kernel", "call" or "host".
    """

    name: str
    flag: str
    api: str
    device_code: str
    proof: str


_KERNELS = ("kernels", "kernel")
_CUBLAS = ("empty", "call")
_SOFTMAX = "Megatron-Core's fused softmax"

EXTENSIONS = (
    Extension("apex_C", "cpp_ext", "flatten and unflatten", "none", "host"),
    Extension("amp_C", "cuda_ext", "FusedAdam, FusedLAMB, FusedSGD, clip_grad", *_KERNELS),
    Extension("syncbn", "cuda_ext", "SyncBatchNorm", *_KERNELS),
    Extension("fused_layer_norm_cuda", "cuda_ext", "FusedLayerNorm, FusedRMSNorm", *_KERNELS),
    Extension("mlp_cuda", "cuda_ext", "apex.mlp.MLP", *_KERNELS),
    Extension("fused_dense_cuda", "cuda_ext", "apex.fused_dense", *_CUBLAS),
    Extension("scaled_upper_triang_masked_softmax_cuda", "cuda_ext", _SOFTMAX, *_KERNELS),
    Extension("scaled_masked_softmax_cuda", "cuda_ext", _SOFTMAX, *_KERNELS),
    Extension("scaled_softmax_cuda", "cuda_ext", _SOFTMAX, *_KERNELS),
    Extension("generic_scaled_masked_softmax_cuda", "cuda_ext", _SOFTMAX, *_KERNELS),
    Extension("fused_rotary_positional_embedding", "cuda_ext", "rotary embedding", *_KERNELS),
    Extension("fused_weight_gradient_mlp_cuda", "cuda_ext",
              "gradient accumulation fusion", *_CUBLAS),
    Extension("fused_adam_cuda", "deprecated_fused_adam", "apex.contrib FusedAdam", *_KERNELS),
)  # fmt: skip

BY_NAME = {extension.name: extension for extension in EXTENSIONS}

# The flags behind the profile `core`. Without a record, nobody knows whether the third was asked
# for: a healthy default build of Apex has no fused_adam_cuda (apex#738), so it is optional then.
CORE_FLAGS = ("cpp_ext", "cuda_ext", "deprecated_fused_adam")
OPTIONAL_WITHOUT_RECORD = ("fused_adam_cuda",)


def of_flags(flags: tuple[str, ...]) -> tuple[Extension, ...]:
    """The extensions that `flags` build, in the order of the table."""
    return tuple(extension for extension in EXTENSIONS if extension.flag in flags)
