// The binding of all four modules: each .cpp file defines which one it is, and includes this.
#pragma once

#include "../common/binding.h"

#include "launch.h"

namespace {

DType check_softmax(const Tensor& x, int64_t dims) {
  TORCH_CHECK(x.dim() == dims, "expected a tensor of ", dims, " dimensions");
  TORCH_CHECK(x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16,
              "only FP16 and BF16 are supported");
  return dtype_of(x);
}

Tensor run(Tensor x, std::optional<Tensor> mask, double scale, int64_t dims) {
  const OnDeviceOf here(x);
  const DType type = check_softmax(x, dims);
  x = x.contiguous();
  const int64_t queries = x.size(-2), width = x.size(-1), heads = dims == 4 ? x.size(1) : 1;
  if (mask) {
    TORCH_CHECK(mask->element_size() == 1 && mask->dim() == 4 && mask->size(1) == 1 &&
                    (mask->size(0) == 1 || mask->size(0) == x.size(0)) &&
                    mask->size(2) == queries && mask->size(3) == width,
                "the mask must be bytes, [batches or 1, 1, queries, keys]");
    mask = mask->contiguous();
  }
  Tensor y = output_like(x);
  launch_softmax_forward(
      {x.data_ptr(), y.data_ptr(), mask ? static_cast<const uint8_t*>(mask->data_ptr()) : nullptr,
       width ? x.numel() / width : 0, width, queries, heads, mask ? mask->size(0) : 1,
       static_cast<float>(scale), type},
      here.stream());
  here.done();
  return y;
}

Tensor backward(Tensor dy, Tensor y, double scale) {
  const OnDeviceOf here(dy);
  const DType type = check_softmax(y, dy.dim());
  check_same_type(y, dy);
  dy = dy.contiguous();
  y = y.contiguous();
  Tensor dx = output_like(y);
  const int64_t width = y.size(-1);
  launch_softmax_backward({dy.data_ptr(), y.data_ptr(), dx.data_ptr(), y.numel() / width, width,
                           static_cast<float>(scale), type},
                          here.stream());
  here.done();
  return dx;
}

[[maybe_unused]] Tensor forward(Tensor x, double scale) { return run(x, {}, scale, 4); }
[[maybe_unused]] Tensor causal_forward(Tensor x, double scale) {
  TORCH_CHECK(x.dim() == 3 && x.size(1) == x.size(2), "expected [batches * heads, s, s]");
  return run(x, {}, scale, 3);
}
[[maybe_unused]] Tensor masked_forward(Tensor x, Tensor mask, double scale) {
  return run(x, mask, scale, 4);
}

// Callers take the kernel only where this divides their rows; ours works row by row, so any number
// would do, whatever the sizes.
[[maybe_unused]] int64_t get_batch_per_block(int64_t, int64_t, int64_t, int64_t) { return 4; }

}  // namespace

FUNCTIONS(m) {
#if defined(SOFTMAX_CAUSAL)
  m.def("forward", &causal_forward);
#elif defined(SOFTMAX_MASKED)
  m.def("forward", &masked_forward);
#else
  m.def("forward", &forward);
#endif
#if defined(SOFTMAX_WITH_BATCH_PER_BLOCK)
  m.def("get_batch_per_block", &get_batch_per_block);
#endif
  m.def("backward", &backward);
}
