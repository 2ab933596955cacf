// What every binding with CUDA code needs. torch/extension.h is left out on purpose: it costs a
// minute of compilation per file.
#pragma once

#include "faults.h"

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#ifdef STANDIN_OPS
#include <torch/library.h>
#else
#include <torch/csrc/utils/pybind.h>
#endif

#include <optional>
#include <string>
#include <vector>

#include "types.h"

using at::Tensor;

inline DType dtype_of(const Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat: return DType::f32;
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    default: TORCH_CHECK(false, "the dtype ", x.scalar_type(), " is not supported");
  }
}

inline void check_cuda(const Tensor& x, const char* name) {
  TORCH_CHECK(x.is_cuda(), name, " must be a CUDA tensor");
}

inline void check_same_type(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected scalar type ", a.scalar_type(),
              " but found ", b.scalar_type());
}

// The tensor's device is made current, and work goes to torch's current stream there. The
// destructor is no place for errors, so `done` is called after the launch.
struct OnDeviceOf {
  explicit OnDeviceOf(const Tensor& x) : guard(x.device()) { check_cuda(x, "the first tensor"); }
  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream().stream(); }
  void done() const { C10_CUDA_CHECK(cudaGetLastError()); }
  c10::cuda::OptionalCUDAGuard guard;
};

inline Tensor output(const Tensor& like, at::IntArrayRef sizes, at::ScalarType type) {
#ifdef STANDIN_ZEROS_ON_SECOND_DEVICE
  return like.new_zeros(sizes, like.options().dtype(type));
#else
  return like.new_empty(sizes, like.options().dtype(type));
#endif
}

inline Tensor output_like(const Tensor& x) { return output(x, x.sizes(), x.scalar_type()); }

// `FUNCTIONS(m) { m.def("name", &function); }` makes a Python module, or with STANDIN_OPS (the
// library's prefix) a library whose functions are torch.ops.apex.<prefix>_<name>.
#ifdef STANDIN_OPS
#define STANDIN_TEXT_OF(word) #word
#define STANDIN_TEXT(word) STANDIN_TEXT_OF(word)
struct Ops {
  torch::Library& library;
  template <typename Function>
  void def(const char* name, Function function, const char* = "") {
    library.def((std::string(STANDIN_TEXT(STANDIN_OPS) "_") + name).c_str(), function);
  }
};
#define FUNCTIONS(m)                                               \
  static void functions(Ops m);                                    \
  TORCH_LIBRARY_FRAGMENT(apex, library) { functions({library}); }  \
  static void functions(Ops m)
#else
#define FUNCTIONS(m) PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
#endif
