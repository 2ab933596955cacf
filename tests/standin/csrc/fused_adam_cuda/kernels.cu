#include "launch.h"

#include "../common/multi_tensor.cuh"

__device__ __forceinline__ float old_adam_element(float g, float p, float& m, float& v,
                                                  const OldAdam& a) {
  g *= a.inverse_grad_scale;
  m = a.n.beta1 * m + a.n.one_minus_beta1 * g;
  v = a.n.beta2 * v + a.n.one_minus_beta2 * g * g;
  const float v_hat = v / a.n.correction2;
  const float root = a.eps_inside_root ? sqrtf(v_hat + a.n.eps) : sqrtf(v_hat) + a.n.eps;
  return p - a.n.lr * (m / a.n.correction1 / root + a.n.decay * p);
}

template <typename T, typename GradT>
__global__ void __launch_bounds__(kThreads)
    adam_cuda_kernel(T* p, GradT* copy, T* m, T* v, const GradT* g, int64_t count, OldAdam a) {
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * kThreads) {
    const float updated = old_adam_element(as_float(g[i]), p[i], m[i], v[i], a);
    put(p, i, updated);
    if (copy) put(copy, i, updated);
  }
}

template <int Depth, typename T, typename GradT>
struct AdamFunctor {
  __device__ void operator()(int64_t size, int* flag, const TensorListMetadata<Depth>& meta,
                             OldAdam a) const {
    if (*flag) return;
    const Chunk<Depth> chunk(size, meta);
    auto p = chunk.template list<T>(0), m = chunk.template list<T>(1);
    auto v = chunk.template list<T>(2);
    auto g = chunk.template list<GradT>(3);
    for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
      const float updated = old_adam_element(as_float(g[i]), p[i], m[i], v[i], a);
      put(p, i, updated);
      if constexpr (Depth == 5) put(chunk.template list<GradT>(4), i, updated);
    }
  }
};

void launch_adam(float* p, void* copy, float* m, float* v, const void* g, int64_t count,
                 DType g_type, OldAdam a, cudaStream_t stream) {
  if (count == 0 || launch_left_out()) return;
  const unsigned blocks = blocks_for(count) < 65535u ? blocks_for(count) : 65535u;
  BY_TYPE(g_type, G, (adam_cuda_kernel<float, G><<<blocks, kThreads, 0, stream>>>(
                         p, static_cast<G*>(copy), m, v, static_cast<const G*>(g), count, a)))
}

void launch_adam_mt(const TensorLists& lists, DType g_type, int64_t chunk, int* flag, OldAdam a,
                    cudaStream_t stream) {
  BY_TYPE(g_type, G, {
    if (lists.depth == 5)
      multi_tensor_apply<5>(lists, chunk, flag, stream, AdamFunctor<5, float, G>(), a);
    else
      multi_tensor_apply<4>(lists, chunk, flag, stream, AdamFunctor<4, float, G>(), a);
  })
}
