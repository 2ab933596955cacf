#include "../common/gemm.h"

namespace {

void accumulate(const Tensor& x, const Tensor& dy, const Tensor& gradient) {
  const OnDeviceOf here(x);
  TORCH_CHECK(gradient.is_contiguous(), "the main gradient must be contiguous");
  gemm(matrix(dy), true, matrix(x), false, gradient, 1.f);
}

void wgrad_fp32(Tensor x, Tensor dy, Tensor gradient) {
  TORCH_CHECK(gradient.scalar_type() == at::kFloat, "the main gradient must be FP32");
  accumulate(x, dy, gradient);
}

void wgrad_fp16(Tensor x, Tensor dy, Tensor gradient) {
  check_same_type(x, gradient);
  accumulate(x, dy, gradient);
}

}  // namespace

FUNCTIONS(m) {
  m.def("wgrad_gemm_accum_fp32", &wgrad_fp32, "gradient += dy' x, with an FP32 gradient");
  m.def("wgrad_gemm_accum_fp16", &wgrad_fp16, "The same, with a gradient of x's 16-bit type");
}
