#pragma once
#include "../common/types.h"

// Row-major [rows, width]. `x_type` is the input's type; `y_type` that of output, weight and bias.
// Null weight, bias: none. Null mean: RMS norm.
struct NormForward {
  const void* x;
  const void* weight;
  const void* bias;
  void* y;
  float* mean;
  float* inverse_deviation;
  int64_t rows, width;
  float eps;
  DType x_type, y_type;
};

// `saved` is the input, or with `from_output` the output, from which the normalized value is won
// back. `parts` is scratch for [2, kParts, width] sums.
struct NormBackward {
  const void* dy;
  const void* saved;
  const void* weight;
  const void* bias;
  const float* mean;
  const float* inverse_deviation;
  void* dx;
  void* dweight;
  void* dbias;
  float* parts;
  int64_t rows, width;
  bool from_output, rms;
  DType x_type, y_type;
};

constexpr int kParts = 16;

LAUNCH_API void launch_norm_forward(const NormForward&, cudaStream_t) LAUNCHER
LAUNCH_API void launch_norm_backward(const NormBackward&, cudaStream_t) LAUNCHER
