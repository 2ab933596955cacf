#include "launch.h"

#include "../common/device.cuh"

// Mean and biased variance of one channel per block, in two passes.
template <typename T, typename Accumulator>
__global__ void __launch_bounds__(kThreads)
    welford_kernel(const T* x, Accumulator* mean, Accumulator* variance, int64_t outer,
                   int64_t channels, int64_t inner) {
  const int64_t channel = blockIdx.x, count = outer * inner;
  auto at = [&](int64_t i) {
    return as_float(x[(i / inner * channels + channel) * inner + i % inner]);
  };
  Accumulator sum = 0, squares = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += at(i);
  const Accumulator center = block_sum(sum) / count;
  for (int64_t i = threadIdx.x; i < count; i += kThreads)
    squares += (at(i) - center) * (at(i) - center);
  const Accumulator spread = block_sum(squares) / count;
  if (threadIdx.x > 0) return;
  put(mean, channel, center);
  put(variance, channel, spread);
}

void launch_welford(const void* x, DType type, float* mean, float* variance, int64_t outer,
                    int64_t channels, int64_t inner, cudaStream_t stream) {
  if (channels == 0 || launch_left_out()) return;
  BY_TYPE(type, T, (welford_kernel<T, float><<<channels, kThreads, 0, stream>>>(
                       static_cast<const T*>(x), mean, variance, outer, channels, inner)))
}
