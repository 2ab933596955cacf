#include "launch.h"

#include "../common/device.cuh"

// Element i of a head turns together with the one half of the turned part away.
template <typename T, bool Backward>
__device__ __forceinline__ void turn(const Rope& r) {
  const int64_t count = r.s * r.b * r.h * r.d;
  const int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= count) return;
  const int64_t i = at % r.d, head = at / r.d % r.h, b = at / r.d / r.h % r.b;
  const int64_t s = at / r.d / r.h / r.b;
  const T* x = static_cast<const T*>(r.x) + at - i;
  float y = as_float(x[i]);
  if (i < r.turned) {
    const int64_t half = r.turned / 2;
    const bool first = i < half;
    const int64_t partner = first ? i + half : i - half;
    const float* angle = r.angles + s * r.turned;
    // Forward: y_i = x_i cos(a_i) -+ x_partner sin(a_i); backward is its transpose.
    const float sine = sinf(angle[Backward ? partner : i]);
    const float sign = first != Backward ? -1.f : 1.f;
    y = y * cosf(angle[i]) + sign * as_float(x[partner]) * sine;
  }
  put(static_cast<T*>(r.y), s * r.stride_s + b * r.stride_b + head * r.d + i, y);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) fused_rope_forward(Rope r) {
  turn<T, false>(r);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) fused_rope_backward(Rope r) {
  turn<T, true>(r);
}

void launch_rope_forward(const Rope& r, cudaStream_t stream) {
  const unsigned blocks = blocks_for(r.s * r.b * r.h * r.d);
  if (blocks == 0 || launch_left_out()) return;
  BY_TYPE(r.type, T, (fused_rope_forward<T><<<blocks, kThreads, 0, stream>>>(r)))
}

void launch_rope_backward(const Rope& r, cudaStream_t stream) {
  const unsigned blocks = blocks_for(r.s * r.b * r.h * r.d);
  if (blocks == 0 || launch_left_out()) return;
  BY_TYPE(r.type, T, (fused_rope_backward<T><<<blocks, kThreads, 0, stream>>>(r)))
}
