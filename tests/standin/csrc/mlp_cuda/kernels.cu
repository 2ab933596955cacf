#include "launch.h"

#include "../common/device.cuh"

// One element per thread: y becomes EXPRESSION of x = y + bias.
#define IN_PLACE_KERNEL(NAME, EXPRESSION)                                                  \
  template <typename T>                                                                    \
  __global__ void __launch_bounds__(kThreads)                                              \
      NAME(T* y, const T* bias, int64_t count, int64_t width) {                            \
    const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;                        \
    if (i >= count) return;                                                                \
    const float x = as_float(y[i]) + (bias ? as_float(bias[i % width]) : 0.f);             \
    put(y, i, EXPRESSION);                                                                 \
  }

IN_PLACE_KERNEL(biasAdd_fprop, x)
IN_PLACE_KERNEL(biasAddRelu_fprop, fmaxf(x, 0.f))
IN_PLACE_KERNEL(Relu_fprop, fmaxf(x, 0.f))
IN_PLACE_KERNEL(Sigmoid_fprop, 1.f / (1.f + expf(-x)))

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Relu_bprop(const T* dy, const T* y, T* dz, int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) put(dz, i, as_float(y[i]) > 0.f ? as_float(dy[i]) : 0.f);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Sigmoid_bprop(const T* dy, const T* y, T* dz, int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) put(dz, i, as_float(dy[i]) * as_float(y[i]) * (1.f - as_float(y[i])));
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    biasAdd_bprop(const T* dz, T* dbias, int64_t rows, int64_t width) {
  float sum = 0.f;
  for (int64_t row = threadIdx.x; row < rows; row += kThreads)
    sum += as_float(dz[row * width + blockIdx.x]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) put(dbias, blockIdx.x, sum);
}

namespace {

template <typename T>
void activate(T* y, const T* bias, Activation activation, int64_t count, int64_t width,
              cudaStream_t stream) {
  const unsigned blocks = blocks_for(count);
  const T* none = nullptr;
  switch (activation) {
    case Activation::none:
      if (bias) biasAdd_fprop<<<blocks, kThreads, 0, stream>>>(y, bias, count, width);
      break;
    case Activation::relu:
      if (bias) biasAddRelu_fprop<<<blocks, kThreads, 0, stream>>>(y, bias, count, width);
      else Relu_fprop<<<blocks, kThreads, 0, stream>>>(y, none, count, width);
      break;
    case Activation::sigmoid:
      if (bias) biasAdd_fprop<<<blocks, kThreads, 0, stream>>>(y, bias, count, width);
      Sigmoid_fprop<<<blocks, kThreads, 0, stream>>>(y, none, count, width);
      break;
  }
}

}  // namespace

void launch_activate(void* y, const void* bias, DType type, Activation activation, int64_t rows,
                     int64_t width, cudaStream_t stream) {
  if (rows * width == 0 || launch_left_out()) return;
  BY_TYPE(type, T, (activate(static_cast<T*>(y), static_cast<const T*>(bias), activation,
                             rows * width, width, stream)))
}

void launch_activate_backward(const void* dy, const void* y, void* dz, DType type,
                              Activation activation, int64_t rows, int64_t width,
                              cudaStream_t stream) {
  const int64_t count = rows * width;
  if (count == 0 || launch_left_out()) return;
  BY_TYPE(type, T, {
    auto a = static_cast<const T*>(dy);
    auto b = static_cast<const T*>(y);
    auto c = static_cast<T*>(dz);
    if (activation == Activation::relu)
      Relu_bprop<<<blocks_for(count), kThreads, 0, stream>>>(a, b, c, count);
    else
      Sigmoid_bprop<<<blocks_for(count), kThreads, 0, stream>>>(a, b, c, count);
  })
}

void launch_bias_backward(const void* dz, void* dbias, DType type, int64_t rows, int64_t width,
                          cudaStream_t stream) {
  if (width == 0 || launch_left_out()) return;
  BY_TYPE(type, T, (biasAdd_bprop<<<width, kThreads, 0, stream>>>(
                       static_cast<const T*>(dz), static_cast<T*>(dbias), rows, width)))
}
