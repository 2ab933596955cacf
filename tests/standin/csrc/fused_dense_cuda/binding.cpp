#include "../common/gemm.h"

namespace {

// The bias is laid out first, and the product added to it.
Tensor linear_bias_forward(Tensor x, Tensor weight, Tensor bias) {
  const OnDeviceOf here(x);
  Tensor y = output(x, {matrix(x).size(0), weight.size(0)}, x.scalar_type());
  y.copy_(bias.expand_as(y));
  gemm(matrix(x), false, weight.contiguous(), true, y, 1.f);
  return y;
}

std::vector<Tensor> linear_bias_backward(Tensor x, Tensor weight, Tensor dy) {
  const OnDeviceOf here(x);
  Tensor dx = output_like(matrix(x)), dweight = output_like(weight);
  gemm(matrix(dy), false, weight.contiguous(), false, dx, 0.f);
  gemm(matrix(dy), true, matrix(x), false, dweight, 0.f);
  return {dx, dweight, matrix(dy).sum(0)};
}

}  // namespace

FUNCTIONS(m) {
  m.def("linear_bias_forward", &linear_bias_forward, "x weight' + bias");
  m.def("linear_bias_backward", &linear_bias_backward, "Gradients of x, weight and bias");
}
