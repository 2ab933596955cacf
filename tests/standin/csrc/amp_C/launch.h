#pragma once
#include "../common/multi_tensor.h"

// Where the capturable functions find what may change between replays of a graph.
struct OnDeviceNumbers {
  const float* lr;
  const int* step;
  const float* inverse_scale;
  bool bias_correction;
};

LAUNCH_API void launch_adam(const TensorLists&, DType, int64_t chunk, int* flag, AdamNumbers,
                            cudaStream_t) LAUNCHER
LAUNCH_API void launch_adam_capturable(const TensorLists&, DType, int64_t chunk, int* flag,
                                       AdamNumbers, OnDeviceNumbers, cudaStream_t) LAUNCHER
LAUNCH_API void launch_adam_capturable_master(const TensorLists&, DType, int64_t chunk, int* flag,
                                              AdamNumbers, OnDeviceNumbers, cudaStream_t) LAUNCHER
LAUNCH_API void launch_scale(const TensorLists&, DType in, DType out, int64_t chunk, int* flag,
                             float scale, cudaStream_t) LAUNCHER
LAUNCH_API void launch_l2norm(const TensorLists&, DType, int64_t chunk, int* flag, float* sums,
                              float* norm, float* per_tensor, cudaStream_t) LAUNCHER
