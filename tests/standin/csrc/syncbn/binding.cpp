#include "../common/binding.h"

#include "launch.h"

namespace {

std::vector<Tensor> welford_mean_var(Tensor x) {
  const OnDeviceOf here(x);
  TORCH_CHECK(x.dim() >= 2 && x.numel() > 0, "expected [n, channels, ...] with elements");
  x = x.contiguous();
  const int64_t channels = x.size(1);
  Tensor mean = output(x, {channels}, at::kFloat), variance = output(x, {channels}, at::kFloat);
  launch_welford(x.data_ptr(), dtype_of(x), mean.data_ptr<float>(), variance.data_ptr<float>(),
                 x.size(0), channels, x.numel() / x.size(0) / channels, here.stream());
  here.done();
  return {mean, variance};
}

}  // namespace

FUNCTIONS(m) {
  m.def("welford_mean_var", &welford_mean_var, "Mean and biased variance of each channel");
}
