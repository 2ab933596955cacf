#pragma once
#include "../common/types.h"

// x is contiguous [s, b, h, d]; the angles are FP32 [s, turned], turned <= d. Strides of the
// output, in elements, for s and b.
struct Rope {
  const void* x;
  void* y;
  const float* angles;
  int64_t s, b, h, d, turned, stride_s, stride_b;
  DType type;
};

LAUNCH_API void launch_rope_forward(const Rope&, cudaStream_t) LAUNCHER
LAUNCH_API void launch_rope_backward(const Rope&, cudaStream_t) LAUNCHER
