#include "../common/tensor_lists.h"

#include <cmath>

#include "launch.h"

namespace {

OldAdam numbers(double lr, double beta1, double beta2, double eps, double grad_scale, int64_t step,
                int64_t mode, int64_t bias_correction, double decay) {
  OldAdam a{};
  a.n.lr = lr;
  a.n.beta1 = beta1;
  a.n.beta2 = beta2;
  a.n.one_minus_beta1 = 1.0 - beta1;
  a.n.one_minus_beta2 = 1.0 - beta2;
  a.n.eps = eps;
  a.n.decay = decay;
  a.n.correction1 = bias_correction ? 1.0 - std::pow(beta1, step) : 1.0;
  a.n.correction2 = bias_correction ? 1.0 - std::pow(beta2, step) : 1.0;
  a.inverse_grad_scale = 1.0 / grad_scale;
  a.eps_inside_root = mode == 0;
  return a;
}

void adam(Tensor p, Tensor copy, Tensor m, Tensor v, Tensor g, double lr, double beta1,
          double beta2, double eps, double grad_scale, int64_t step, int64_t mode,
          int64_t bias_correction, double decay) {
  const OnDeviceOf here(p);
  require_float({p, m, v});
  for (const Tensor& x : {p, m, v, g})
    TORCH_CHECK(x.numel() == p.numel() && x.is_non_overlapping_and_dense(),
                "p, m, v and g must be dense and of one size");
  if (copy.numel() > 0) {
    TORCH_CHECK(copy.numel() == p.numel(), "the copy must be empty or of p's size");
    check_same_type(g, copy);
  }
  launch_adam(p.data_ptr<float>(), copy.numel() > 0 ? copy.data_ptr() : nullptr,
              m.data_ptr<float>(), v.data_ptr<float>(), g.data_ptr(), p.numel(), dtype_of(g),
              numbers(lr, beta1, beta2, eps, grad_scale, step, mode, bias_correction, decay),
              here.stream());
  here.done();
}

void adam_mt(int64_t chunk, Tensor flag, Lists lists, double lr, double beta1, double beta2,
             double eps, double grad_scale, int64_t step, int64_t mode, int64_t bias_correction,
             double decay) {
  const OwnedLists owned(lists, lists.size() == 5 ? 5 : 4);
  const OnDeviceOf here(lists[0][0]);
  for (int i = 0; i < 3; ++i) require_float(lists[i]);
  if (lists.size() == 5) check_same_type(lists[3][0], lists[4][0]);
  launch_adam_mt(owned.plain(), dtype_of(lists[3][0]), chunk, flag.data_ptr<int>(),
                 numbers(lr, beta1, beta2, eps, grad_scale, step, mode, bias_correction, decay),
                 here.stream());
  here.done();
}

}  // namespace

FUNCTIONS(m) {
  m.def("adam", &adam, "One Adam step for one tensor, in place");
  m.def("adam_mt", &adam_mt, "The same for many tensors");
}
