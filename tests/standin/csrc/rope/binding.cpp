#include "../common/binding.h"

#include "launch.h"

namespace {

// With `transposed` the memory of the [s, b, h, d] output lies as [b, s, h, d].
Tensor run(void (*launch)(const Rope&, cudaStream_t), Tensor x, Tensor angles, bool transposed) {
  const OnDeviceOf here(x);
  TORCH_CHECK(x.dim() == 4 && angles.dim() == 4, "expected [s, b, h, d] and [s, 1, 1, turned]");
  TORCH_CHECK(angles.size(0) >= x.size(0) && angles.size(1) == 1 && angles.size(2) == 1 &&
                  angles.size(3) <= x.size(3) && angles.size(3) % 2 == 0,
              "the angles must be [s, 1, 1, turned] with an even number turned");
  TORCH_CHECK(angles.is_cuda() && angles.scalar_type() == at::kFloat, "the angles must be FP32");
  x = x.contiguous();
  angles = angles.contiguous();
  const int64_t s = x.size(0), b = x.size(1), h = x.size(2), d = x.size(3);
  Tensor y = transposed ? output(x, {b, s, h, d}, x.scalar_type()).transpose(0, 1) : output_like(x);
  launch({x.data_ptr(), y.data_ptr(), angles.data_ptr<float>(), s, b, h, d, angles.size(3),
          y.stride(0), y.stride(1), dtype_of(x)},
         here.stream());
  here.done();
  return y;
}

Tensor forward(Tensor x, Tensor angles, bool transposed) {
  return run(launch_rope_forward, x, angles, transposed);
}

Tensor backward(Tensor dy, Tensor angles, bool transposed) {
  return run(launch_rope_backward, dy, angles, transposed);
}

}  // namespace

FUNCTIONS(m) {
  m.def("forward", &forward, "x cos(angles) + rotate_half(x) sin(angles)");
  m.def("backward", &backward, "The gradient of x");
}
