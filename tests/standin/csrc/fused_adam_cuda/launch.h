#pragma once
#include "../common/multi_tensor.h"

// `n.decoupled` is not used. With eps_inside_root the update is m / sqrt(v + eps).
struct OldAdam {
  AdamNumbers n;
  float inverse_grad_scale;
  bool eps_inside_root;
};

// p, m, v are FP32; g, and the copy of p if there is one, are of `g_type`.
LAUNCH_API void launch_adam(float* p, void* copy, float* m, float* v, const void* g, int64_t count,
                            DType g_type, OldAdam, cudaStream_t) LAUNCHER
// Lists [p, m, v, g] and, with `depth` 5, the copies.
LAUNCH_API void launch_adam_mt(const TensorLists&, DType g_type, int64_t chunk, int* flag, OldAdam,
                               cudaStream_t) LAUNCHER
