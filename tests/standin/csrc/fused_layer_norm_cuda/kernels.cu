#include "launch.h"

#include "../common/device.cuh"

// One block per row. Two passes over the row for the variance: one pass loses digits when the mean
// is large beside the deviation.
template <typename T, typename U, typename V>
__global__ void __launch_bounds__(kThreads) cuApplyLayerNorm(NormForward a) {
  const int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(a.x) + row * a.width;
  const V* weight = static_cast<const V*>(a.weight);
  const V* bias = static_cast<const V*>(a.bias);
  U sum = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) sum += as_float(x[i]);
  const U mean = block_sum(sum) / a.width;
  U squares = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) {
    const U d = as_float(x[i]) - mean;
    squares += d * d;
  }
  const U inverse = rsqrtf(block_sum(squares) / a.width + a.eps);
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) {
    U y = (as_float(x[i]) - mean) * inverse;
    if (weight) y *= as_float(weight[i]);
    if (bias) y += as_float(bias[i]);
    put(static_cast<V*>(a.y), row * a.width + i, y);
  }
  if (threadIdx.x == 0) {
    a.mean[row] = mean;
    a.inverse_deviation[row] = inverse;
  }
}

template <typename T, typename U, typename V>
__global__ void __launch_bounds__(kThreads) cuApplyRMSNorm(NormForward a) {
  const int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(a.x) + row * a.width;
  const V* weight = static_cast<const V*>(a.weight);
  U squares = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) squares += as_float(x[i]) * as_float(x[i]);
  const U inverse = rsqrtf(block_sum(squares) / a.width + a.eps);
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) {
    U y = as_float(x[i]) * inverse;
    if (weight) y *= as_float(weight[i]);
    put(static_cast<V*>(a.y), row * a.width + i, y);
  }
  if (threadIdx.x == 0) a.inverse_deviation[row] = inverse;
}

// The normalized value of one element, before weight and bias.
template <typename T, typename V>
__device__ __forceinline__ float normalized(const NormBackward& a, int64_t row, int64_t i) {
  if (!a.from_output) {
    const float x = as_float(static_cast<const T*>(a.saved)[row * a.width + i]);
    return (a.rms ? x : x - a.mean[row]) * a.inverse_deviation[row];
  }
  float y = as_float(static_cast<const V*>(a.saved)[row * a.width + i]);
  if (a.bias) y -= as_float(static_cast<const V*>(a.bias)[i]);
  if (!a.weight) return y;
  // A weight of zero has thrown the value away; a tiny one stands in, so that nothing is infinite.
  const float w = as_float(static_cast<const V*>(a.weight)[i]);
  return y / copysignf(fmaxf(fabsf(w), 1e-5f), w);
}

// Sums over a share of the rows, for each column: dy * normalized, and dy.
template <typename T, typename U, typename V>
__global__ void __launch_bounds__(kThreads) cuComputePartGradGammaBeta(NormBackward a) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.width) return;
  const V* dy = static_cast<const V*>(a.dy);
  U weight_sum = 0, bias_sum = 0;
  for (int64_t row = blockIdx.y; row < a.rows; row += kParts) {
    const U d = as_float(dy[row * a.width + i]);
    weight_sum += d * normalized<T, V>(a, row, i);
    bias_sum += d;
  }
  a.parts[blockIdx.y * a.width + i] = weight_sum;
  a.parts[(kParts + blockIdx.y) * a.width + i] = bias_sum;
}

template <typename U, typename V>
__global__ void __launch_bounds__(kThreads) cuComputeGradGammaBeta(NormBackward a) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.width) return;
  U weight_sum = 0, bias_sum = 0;
  for (int part = 0; part < kParts; ++part) {
    weight_sum += a.parts[part * a.width + i];
    bias_sum += a.parts[(kParts + part) * a.width + i];
  }
  put(static_cast<V*>(a.dweight), i, weight_sum);
  if (a.dbias) put(static_cast<V*>(a.dbias), i, bias_sum);
}

// dx = inverse * (g - mean(g) - normalized * mean(g * normalized)) with g = dy * weight; RMS norm
// has no mean to take off.
template <typename T, typename U, typename V>
__global__ void __launch_bounds__(kThreads) cuComputeGradInput(NormBackward a) {
  const int64_t row = blockIdx.x;
  const V* dy = static_cast<const V*>(a.dy) + row * a.width;
  const V* weight = static_cast<const V*>(a.weight);
  U sum = 0, product_sum = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) {
    const U g = as_float(dy[i]) * (weight ? as_float(weight[i]) : 1.f);
    sum += g;
    product_sum += g * normalized<T, V>(a, row, i);
  }
  const U mean = a.rms ? 0.f : block_sum(sum) / a.width;
  const U product_mean = block_sum(product_sum) / a.width;
  for (int64_t i = threadIdx.x; i < a.width; i += kThreads) {
    const U g = as_float(dy[i]) * (weight ? as_float(weight[i]) : 1.f);
    const U d = g - mean - normalized<T, V>(a, row, i) * product_mean;
    put(static_cast<T*>(a.dx), row * a.width + i, d * a.inverse_deviation[row]);
  }
}

namespace {

template <typename T, typename V>
void forward(const NormForward& a, cudaStream_t stream) {
  if (a.mean)
    cuApplyLayerNorm<T, float, V><<<a.rows, kThreads, 0, stream>>>(a);
  else
    cuApplyRMSNorm<T, float, V><<<a.rows, kThreads, 0, stream>>>(a);
}

template <typename T, typename V>
void backward(const NormBackward& a, cudaStream_t stream) {
  if (a.dweight) {
    const dim3 grid(blocks_for(a.width), kParts);
    cuComputePartGradGammaBeta<T, float, V><<<grid, kThreads, 0, stream>>>(a);
    cuComputeGradGammaBeta<float, V><<<grid.x, kThreads, 0, stream>>>(a);
  }
  cuComputeGradInput<T, float, V><<<a.rows, kThreads, 0, stream>>>(a);
}

}  // namespace

// The output has the input's type, or the input is FP32 and the output narrower.
#define BY_NORM_TYPES(a, CALL)                              \
  if (a.x_type == a.y_type) {                               \
    BY_TYPE(a.x_type, T, (CALL<T, T>(a, stream)))           \
  } else {                                                  \
    BY_HALF_TYPE(a.y_type, V, (CALL<float, V>(a, stream)))  \
  }

void launch_norm_forward(const NormForward& a, cudaStream_t stream) {
  if (a.rows == 0 || launch_left_out()) return;
  BY_NORM_TYPES(a, forward)
}

void launch_norm_backward(const NormBackward& a, cudaStream_t stream) {
  if (a.rows == 0 || launch_left_out()) return;
  BY_NORM_TYPES(a, backward)
}
