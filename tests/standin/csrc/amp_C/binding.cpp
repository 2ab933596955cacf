#include "../common/tensor_lists.h"

#include <cmath>
#include <tuple>

#include "launch.h"

namespace {

int* flag_of(const Tensor& flag) {
  TORCH_CHECK(flag.is_cuda() && flag.scalar_type() == at::kInt, "the flag must be an int32 on CUDA");
  return flag.data_ptr<int>();
}

AdamNumbers numbers(double lr, double beta1, double beta2, double eps, int64_t step, int64_t mode,
                    int64_t bias_correction, double decay) {
  AdamNumbers n{};
  n.lr = lr;
  n.beta1 = beta1;
  n.beta2 = beta2;
  n.one_minus_beta1 = 1.0 - beta1;
  n.one_minus_beta2 = 1.0 - beta2;
  n.eps = eps;
  n.decay = decay;
  n.correction1 = bias_correction ? 1.0 - std::pow(beta1, step) : 1.0;
  n.correction2 = bias_correction ? 1.0 - std::pow(beta2, step) : 1.0;
  n.decoupled = mode == 1;
  return n;
}

DType check_adam(const Lists& lists) {
  check_same_type(lists[1][0], lists[0][0]);
  for (size_t i = 2; i < lists.size(); ++i) require_float(lists[i]);
  return dtype_of(lists[1][0]);
}

OnDeviceNumbers on_device(const Tensor& lr, const Tensor& step, const Tensor& inverse_scale,
                          int64_t bias_correction) {
  TORCH_CHECK(lr.is_cuda() && step.is_cuda() && inverse_scale.is_cuda(),
              "lr, step and the inverse scale must be CUDA tensors");
  return {lr.data_ptr<float>(), step.data_ptr<int>(), inverse_scale.data_ptr<float>(),
          bias_correction != 0};
}

void adam(int64_t chunk, Tensor flag, Lists lists, double lr, double beta1, double beta2,
          double eps, int64_t step, int64_t mode, int64_t bias_correction, double decay) {
  const OwnedLists owned(lists, 4);
  const OnDeviceOf here(lists[0][0]);
  launch_adam(owned.plain(), check_adam(lists), chunk, flag_of(flag),
              numbers(lr, beta1, beta2, eps, step, mode, bias_correction, decay), here.stream());
  here.done();
}

template <int Depth, typename Launch>
void capturable(Launch launch, int64_t chunk, Tensor flag, Lists lists, Tensor lr, double beta1,
                double beta2, double eps, Tensor step, int64_t mode, int64_t bias_correction,
                double decay, Tensor inverse_scale) {
  const OwnedLists owned(lists, Depth);
  const OnDeviceOf here(lists[0][0]);
  launch(owned.plain(), check_adam(lists), chunk, flag_of(flag),
         numbers(0, beta1, beta2, eps, 1, mode, 0, decay),
         on_device(lr, step, inverse_scale, bias_correction), here.stream());
  here.done();
}

void adam_capturable(int64_t chunk, Tensor flag, Lists lists, Tensor lr, double beta1,
                     double beta2, double eps, Tensor step, int64_t mode, int64_t bias_correction,
                     double decay, Tensor inverse_scale) {
  capturable<4>(launch_adam_capturable, chunk, flag, lists, lr, beta1, beta2, eps, step, mode,
                bias_correction, decay, inverse_scale);
}

void adam_capturable_master(int64_t chunk, Tensor flag, Lists lists, Tensor lr, double beta1,
                            double beta2, double eps, Tensor step, int64_t mode,
                            int64_t bias_correction, double decay, Tensor inverse_scale) {
  capturable<5>(launch_adam_capturable_master, chunk, flag, lists, lr, beta1, beta2, eps, step,
                mode, bias_correction, decay, inverse_scale);
}

void scale(int64_t chunk, Tensor flag, Lists lists, double factor) {
  const OwnedLists owned(lists, 2);
  const OnDeviceOf here(lists[0][0]);
  launch_scale(owned.plain(), dtype_of(lists[0][0]), dtype_of(lists[1][0]), chunk, flag_of(flag),
               factor, here.stream());
  here.done();
}

std::tuple<Tensor, Tensor> l2norm(int64_t chunk, Tensor flag, Lists lists,
                                  std::optional<bool> per_tensor) {
  const OwnedLists owned(lists, 1);
  const OnDeviceOf here(lists[0][0]);
  const Tensor& like = lists[0][0];
  const auto count = static_cast<int64_t>(lists[0].size());
  const bool each = per_tensor.value_or(false);
  Tensor sums = like.new_zeros({count}, like.options().dtype(at::kFloat));
  Tensor norm = output(like, {1}, at::kFloat);
  Tensor norms = output(like, {each ? count : 0}, at::kFloat);
  launch_l2norm(owned.plain(), dtype_of(like), chunk, flag_of(flag), sums.data_ptr<float>(),
                norm.data_ptr<float>(), each ? norms.data_ptr<float>() : nullptr, here.stream());
  here.done();
  return {norm, norms};
}

}  // namespace

FUNCTIONS(m) {
  m.def("multi_tensor_adam", &adam, "One Adam step for many tensors, in place");
  m.def("multi_tensor_adam_capturable", &adam_capturable, "The same; step and lr on the device");
  m.def("multi_tensor_adam_capturable_master", &adam_capturable_master,
        "The same, with FP32 master weights as the fifth list");
  m.def("multi_tensor_scale", &scale, "out = in * scale; the flag is set by a value not finite");
  m.def("multi_tensor_l2norm", &l2norm, "The norm over all tensors, and of each if asked for");
}
