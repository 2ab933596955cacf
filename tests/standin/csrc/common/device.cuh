// Device helpers of all kernels: conversions, the one place where results are stored, reductions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "types.h"

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float as_float(float x) { return x; }
__device__ __forceinline__ float as_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ void convert(float x, float& out) { out = x; }
__device__ __forceinline__ void convert(float x, __half& out) { out = __float2half_rn(x); }
__device__ __forceinline__ void convert(float x, __nv_bfloat16& out) {
  out = __float2bfloat16_rn(x);
}

// Every result goes through here, so that "one element off" is one line for all kernels.
template <typename T>
__device__ __forceinline__ void put(T* out, int64_t i, float value) {
#ifdef STANDIN_WRONG_NUMBERS
  if (i == 0) value = value * 1.5f + 0.25f;
#endif
#ifdef STANDIN_NAN_NUMBERS
  if (i == 0) value = __int_as_float(0x7fffffff);
#endif
  convert(value, out[i]);
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(kAllLanes, x, lane);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
  for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, lane));
  return x;
}

// The sum over a block of kThreads threads, in all of them.
__device__ __forceinline__ float block_sum(float x) {
  __shared__ float parts[kThreads / 32];
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < kThreads / 32; ++i) total += parts[i];
  return total;
}

// True where the sabotaged build leaves a launch out. The outputs were zeroed by the binding.
inline bool launch_left_out() {
#ifdef STANDIN_ZEROS_ON_SECOND_DEVICE
  int device = 0;
  cudaGetDevice(&device);
  return device > 0;
#else
  return false;
#endif
}

inline unsigned blocks_for(int64_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

#define BY_TYPE(dtype, T, ...)                                     \
  switch (dtype) {                                                 \
    case DType::f32: { using T = float; __VA_ARGS__; break; }      \
    case DType::f16: { using T = __half; __VA_ARGS__; break; }     \
    case DType::bf16: { using T = __nv_bfloat16; __VA_ARGS__; break; } \
  }

#define BY_HALF_TYPE(dtype, T, ...)                                \
  switch (dtype) {                                                 \
    case DType::f16: { using T = __half; __VA_ARGS__; break; }     \
    case DType::bf16: { using T = __nv_bfloat16; __VA_ARGS__; break; } \
    default: break;                                                \
  }
