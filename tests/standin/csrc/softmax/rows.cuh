// Softmax of one row by one warp. The four modules differ in which elements are masked and in the
// names of their kernels; the row's work is the same.
#pragma once

#include "../common/device.cuh"
#include "launch.h"

constexpr int kRowsPerBlock = kThreads / 32;

// `kept(i)` tells whether element i takes part. A row without any is all zero.
template <typename T, typename Kept>
__device__ __forceinline__ void softmax_row(const SoftmaxForward& a, int64_t row, Kept kept) {
  const int lane = threadIdx.x % 32;
  const T* x = static_cast<const T*>(a.x) + row * a.width;
  float highest = -INFINITY, sum = 0.f;
  for (int64_t i = lane; i < a.width; i += 32)
    if (kept(i)) highest = fmaxf(highest, a.scale * as_float(x[i]));
  highest = warp_max(highest);
  for (int64_t i = lane; i < a.width; i += 32)
    if (kept(i)) sum += expf(a.scale * as_float(x[i]) - highest);
  sum = warp_sum(sum);
  for (int64_t i = lane; i < a.width; i += 32) {
    const float y = kept(i) ? expf(a.scale * as_float(x[i]) - highest) / sum : 0.f;
    put(static_cast<T*>(a.y), row * a.width + i, y);
  }
}

// dx = scale * y * (dy - sum(dy * y)). Where y is zero, so is dx: no mask is needed.
template <typename T>
__device__ __forceinline__ void softmax_row_backward(const SoftmaxBackward& a, int64_t row) {
  const int lane = threadIdx.x % 32;
  const T* dy = static_cast<const T*>(a.dy) + row * a.width;
  const T* y = static_cast<const T*>(a.y) + row * a.width;
  float sum = 0.f;
  for (int64_t i = lane; i < a.width; i += 32) sum += as_float(dy[i]) * as_float(y[i]);
  sum = warp_sum(sum);
  for (int64_t i = lane; i < a.width; i += 32)
    put(static_cast<T*>(a.dx), row * a.width + i,
        a.scale * as_float(y[i]) * (as_float(dy[i]) - sum));
}

__device__ __forceinline__ int64_t row_of_warp() {
  return int64_t(blockIdx.x) * kRowsPerBlock + threadIdx.x / 32;
}

#define FORWARD_KERNEL(NAME, KEPT)                                                     \
  template <typename T, typename Accumulator>                                          \
  __global__ void __launch_bounds__(kThreads) NAME(SoftmaxForward a) {                 \
    const int64_t row = row_of_warp();                                                 \
    if (row < a.rows) softmax_row<T>(a, row, [&](int64_t i) { return KEPT; });         \
  }                                                                                    \
  void launch_softmax_forward(const SoftmaxForward& a, cudaStream_t stream) {          \
    const int64_t blocks = (a.rows + kRowsPerBlock - 1) / kRowsPerBlock;               \
    if (blocks == 0 || launch_left_out()) return;                                      \
    BY_HALF_TYPE(a.type, T, (NAME<T, float><<<blocks, kThreads, 0, stream>>>(a)))      \
  }

#define BACKWARD_KERNEL(NAME)                                                          \
  template <typename T, typename Accumulator>                                          \
  __global__ void __launch_bounds__(kThreads) NAME(SoftmaxBackward a) {                \
    const int64_t row = row_of_warp();                                                 \
    if (row < a.rows) softmax_row_backward<T>(a, row);                                 \
  }                                                                                    \
  void launch_softmax_backward(const SoftmaxBackward& a, cudaStream_t stream) {        \
    const int64_t blocks = (a.rows + kRowsPerBlock - 1) / kRowsPerBlock;               \
    if (blocks == 0 || launch_left_out()) return;                                      \
    BY_HALF_TYPE(a.type, T, (NAME<T, float><<<blocks, kThreads, 0, stream>>>(a)))      \
  }

// The mask is [batches or 1, 1, queries, width]; a row of x is (batch, head, query).
__device__ __forceinline__ const uint8_t* mask_row(const SoftmaxForward& a, int64_t row) {
  const int64_t batch = a.mask_batches == 1 ? 0 : row / (a.heads * a.queries);
  return a.mask + (batch * a.queries + row % a.queries) * a.width;
}
