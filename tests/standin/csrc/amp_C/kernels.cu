#include "launch.h"

#include "../common/multi_tensor.cuh"

// One Adam step of one element; returns the new parameter.
__device__ __forceinline__ float adam_element(float g, float p, float& m, float& v,
                                              const AdamNumbers& n) {
  if (!n.decoupled) g += n.decay * p;
  m = n.beta1 * m + n.one_minus_beta1 * g;
  v = n.beta2 * v + n.one_minus_beta2 * g * g;
  float update = (m / n.correction1) / (sqrtf(v / n.correction2) + n.eps);
  if (n.decoupled) update += n.decay * p;
  return p - n.lr * update;
}

// The step counter lives on the device, so the corrections are worked out here, in double.
__device__ __forceinline__ void read_numbers(AdamNumbers& n, const OnDeviceNumbers& on_device) {
  __shared__ float corrections[2];
  if (threadIdx.x == 0) {
    const int step = *on_device.step;
    const bool wanted = on_device.bias_correction;
    corrections[0] = wanted ? float(1.0 - pow(1.0 - double(n.one_minus_beta1), step)) : 1.f;
    corrections[1] = wanted ? float(1.0 - pow(1.0 - double(n.one_minus_beta2), step)) : 1.f;
  }
  __syncthreads();
  n.correction1 = corrections[0];
  n.correction2 = corrections[1];
  n.lr = *on_device.lr;
}

template <typename T, typename Full, typename Index>
struct AdamFunctor {
  __device__ void operator()(int64_t size, int* flag, const TensorListMetadata<4>& meta,
                             AdamNumbers n) const {
    if (*flag) return;
    const Chunk<4> chunk(size, meta);
    auto g = chunk.list<T>(0), p = chunk.list<T>(1);
    auto m = chunk.list<Full>(2), v = chunk.list<Full>(3);
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads)
      put(p, i, adam_element(as_float(g[i]), as_float(p[i]), m[i], v[i], n));
  }
};

template <typename T, typename Full>
struct AdamCapturableFunctor {
  __device__ void operator()(int64_t size, int* flag, const TensorListMetadata<4>& meta,
                             AdamNumbers n, OnDeviceNumbers on_device) const {
    if (*flag) return;
    read_numbers(n, on_device);
    const Chunk<4> chunk(size, meta);
    auto g = chunk.list<T>(0), p = chunk.list<T>(1);
    auto m = chunk.list<Full>(2), v = chunk.list<Full>(3);
    const float scale = *on_device.inverse_scale;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads)
      put(p, i, adam_element(as_float(g[i]) * scale, as_float(p[i]), m[i], v[i], n));
  }
};

template <typename T, typename Full>
struct AdamCapturableMasterFunctor {
  __device__ void operator()(int64_t size, int* flag, const TensorListMetadata<5>& meta,
                             AdamNumbers n, OnDeviceNumbers on_device) const {
    if (*flag) return;
    read_numbers(n, on_device);
    const Chunk<5> chunk(size, meta);
    auto g = chunk.list<T>(0), p = chunk.list<T>(1);
    auto m = chunk.list<Full>(2), v = chunk.list<Full>(3), master = chunk.list<Full>(4);
    const float scale = *on_device.inverse_scale;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
      master[i] = adam_element(as_float(g[i]) * scale, master[i], m[i], v[i], n);
      put(p, i, master[i]);
    }
  }
};

template <typename In, typename Out>
struct ScaleFunctor {
  __device__ void operator()(int64_t size, int* flag, const TensorListMetadata<2>& meta,
                             float scale) const {
    const Chunk<2> chunk(size, meta);
    auto in = chunk.list<In>(0);
    auto out = chunk.list<Out>(1);
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
      const float x = as_float(in[i]);
      if (!isfinite(x)) *flag = 1;
      put(out, i, x * scale);
    }
  }
};

template <typename T>
struct L2NormFunctor {
  __device__ void operator()(int64_t size, int*, const TensorListMetadata<1>& meta,
                             float* sums) const {
    const Chunk<1> chunk(size, meta);
    auto x = chunk.list<T>(0);
    float sum = 0.f;
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads)
      sum += as_float(x[i]) * as_float(x[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(sums + meta.first_tensor + chunk.tensor, sum);
  }
};

// Roots of the tensors' sums of squares, and of their total.
__global__ void cleanup(const float* sums, int count, float* norm, float* per_tensor) {
  float total = 0.f;
  for (int t = threadIdx.x; t < count; t += kThreads) {
    total += sums[t];
    if (per_tensor) put(per_tensor, t, sqrtf(sums[t]));
  }
  total = block_sum(total);
  if (threadIdx.x == 0) put(norm, 0, sqrtf(total));
}

void launch_adam(const TensorLists& lists, DType type, int64_t chunk, int* flag, AdamNumbers n,
                 cudaStream_t stream) {
  BY_TYPE(type, T, (multi_tensor_apply<4>(lists, chunk, flag, stream,
                                          AdamFunctor<T, float, int>(), n)))
}

void launch_adam_capturable(const TensorLists& lists, DType type, int64_t chunk, int* flag,
                            AdamNumbers n, OnDeviceNumbers on_device, cudaStream_t stream) {
  BY_TYPE(type, T, (multi_tensor_apply<4>(lists, chunk, flag, stream,
                                          AdamCapturableFunctor<T, float>(), n, on_device)))
}

void launch_adam_capturable_master(const TensorLists& lists, DType type, int64_t chunk, int* flag,
                                   AdamNumbers n, OnDeviceNumbers on_device, cudaStream_t stream) {
  BY_TYPE(type, T, (multi_tensor_apply<5>(lists, chunk, flag, stream,
                                          AdamCapturableMasterFunctor<T, float>(), n, on_device)))
}

void launch_scale(const TensorLists& lists, DType in, DType out, int64_t chunk, int* flag,
                  float scale, cudaStream_t stream) {
  BY_TYPE(in, In, BY_TYPE(out, Out, (multi_tensor_apply<2>(lists, chunk, flag, stream,
                                                           ScaleFunctor<In, Out>(), scale))))
}

void launch_l2norm(const TensorLists& lists, DType type, int64_t chunk, int* flag, float* sums,
                   float* norm, float* per_tensor, cudaStream_t stream) {
  BY_TYPE(type, T, (multi_tensor_apply<1>(lists, chunk, flag, stream, L2NormFunctor<T>(), sums)))
  if (!launch_left_out())
    cleanup<<<1, kThreads, 0, stream>>>(sums, lists.count, norm, per_tensor);
}
