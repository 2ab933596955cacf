#pragma once
#include "../common/types.h"

struct SoftmaxForward {
  const void* x;
  void* y;
  const uint8_t* mask;
  int64_t rows, width, queries, heads, mask_batches;
  float scale;
  DType type;
};

struct SoftmaxBackward {
  const void* dy;
  const void* y;
  void* dx;
  int64_t rows, width;
  float scale;
  DType type;
};

LAUNCH_API void launch_softmax_forward(const SoftmaxForward&, cudaStream_t) LAUNCHER
LAUNCH_API void launch_softmax_backward(const SoftmaxBackward&, cudaStream_t) LAUNCHER
