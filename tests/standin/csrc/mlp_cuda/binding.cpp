#include "../common/gemm.h"

#include "launch.h"

namespace {

Activation activation_of(int64_t number) {
  TORCH_CHECK(number >= 0 && number <= 2, "the activation must be 0 (none), 1 (ReLU) or 2 (sigmoid)");
  return static_cast<Activation>(number);
}

size_t layers_of(const std::vector<Tensor>& inputs, bool bias) {
  const size_t rest = inputs.size() - 1, per_layer = bias ? 2 : 1;
  TORCH_CHECK(rest >= per_layer && rest % per_layer == 0,
              "expected [x, weights..., biases...]");
  return rest / per_layer;
}

// The inputs are [x, weights..., biases...]; the activation follows every layer, the last too.
// Output first, then the hidden layers' outputs, which backward needs.
std::vector<Tensor> forward(int64_t bias, int64_t activation, std::vector<Tensor> inputs) {
  const OnDeviceOf here(inputs.at(0));
  const size_t layers = layers_of(inputs, bias);
  std::vector<Tensor> outputs(layers);
  Tensor x = inputs[0].contiguous();
  for (size_t i = 0; i < layers; ++i) {
    const Tensor weight = inputs[1 + i].contiguous();
    Tensor y = output(x, {x.size(0), weight.size(0)}, x.scalar_type());
    gemm(x, false, weight, true, y, 0.f);
    const Tensor b = bias ? inputs[1 + layers + i].contiguous() : Tensor();
    if (bias) check_same_type(x, b);
    launch_activate(y.data_ptr(), bias ? b.data_ptr() : nullptr, dtype_of(y),
                    activation_of(activation), y.size(0), y.size(1), here.stream());
    here.done();
    outputs[i + 1 < layers ? i + 1 : 0] = y;
    x = y;
  }
  return outputs;
}

// Gradients in the order of the inputs.
std::vector<Tensor> backward(int64_t bias, int64_t activation, Tensor dy,
                             std::vector<Tensor> outputs, std::vector<Tensor> inputs) {
  const OnDeviceOf here(dy);
  const size_t layers = layers_of(inputs, bias);
  std::vector<Tensor> gradients(inputs.size());
  dy = dy.contiguous();
  for (size_t i = layers; i-- > 0;) {
    const Tensor y = outputs.at(i + 1 < layers ? i + 1 : 0);
    const Tensor x = i > 0 ? outputs.at(i) : inputs[0].contiguous();
    Tensor dz = dy;
    if (activation_of(activation) != Activation::none) {
      dz = output_like(y);
      launch_activate_backward(dy.data_ptr(), y.data_ptr(), dz.data_ptr(), dtype_of(y),
                               activation_of(activation), y.size(0), y.size(1), here.stream());
    }
    if (bias) {
      gradients[1 + layers + i] = output(dz, {dz.size(1)}, dz.scalar_type());
      launch_bias_backward(dz.data_ptr(), gradients[1 + layers + i].data_ptr(), dtype_of(dz),
                           dz.size(0), dz.size(1), here.stream());
    }
    gradients[1 + i] = output_like(inputs[1 + i]);
    gemm(dz, true, x, false, gradients[1 + i], 0.f);
    dy = output_like(x);
    gemm(dz, false, inputs[1 + i].contiguous(), false, dy, 0.f);
    here.done();
  }
  gradients[0] = dy;
  return gradients;
}

}  // namespace

FUNCTIONS(m) {
  m.def("forward", &forward);
  m.def("backward", &backward);
}
