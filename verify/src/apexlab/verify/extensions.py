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

# The contrib modules of Apex's refs, each with its flag: known by name, and judged like any other.
CONTRIB = {
    "fused_lamb_cuda": "deprecated_fused_lamb", "distributed_adam_cuda": "distributed_adam",
    "distributed_lamb_cuda": "distributed_lamb", "xentropy_cuda": "xentropy",
    "focal_loss_cuda": "focal_loss", "fused_index_mul_2d": "index_mul_2d",
    "fast_layer_norm": "fast_layer_norm", "group_norm_cuda": "group_norm",
    "group_norm_v2_cuda": "group_norm", "bnp": "bnp",
    "permutation_search_cuda": "permutation_search", "transducer_joint_cuda": "transducer",
    "transducer_loss_cuda": "transducer", "cudnn_gbn_lib": "cudnn_gbn",
    "fast_bottleneck": "fast_bottleneck", "fused_conv_bias_relu": "fused_conv_bias_relu",
    "peer_memory_cuda": "peer_memory", "nccl_p2p_cuda": "nccl_p2p",
    "apex_nccl_allocator": "nccl_allocator", "nccl_allocator": "nccl_allocator",
    "apex_gpu_direct_storage": "gpu_direct_storage", "fmhalib": "fmha",
    "fast_multihead_attn": "fast_multihead_attn",
}  # fmt: skip
KNOWN_NAMES = (*BY_NAME, *CONTRIB)

# The flags behind the profile `core`. Without a record, nobody knows whether the third was asked
# for: a healthy default build of Apex has no fused_adam_cuda (apex#738), so it is optional then.
CORE_FLAGS = ("cpp_ext", "cuda_ext", "deprecated_fused_adam")
OPTIONAL_WITHOUT_RECORD = ("fused_adam_cuda",)


def of_flags(flags: tuple[str, ...]) -> tuple[Extension, ...]:
    """The extensions that `flags` build, in the order of the table."""
    return tuple(extension for extension in EXTENSIONS if extension.flag in flags)
