#include "../common/binding.h"

#include "launch.h"

namespace {

using Shape = at::IntArrayRef;
using MaybeTensor = std::optional<Tensor>;

struct Rows {
  int64_t rows, width;
};

Rows rows_of(const Tensor& x, Shape shape) {
  const auto dims = static_cast<int64_t>(shape.size());
  TORCH_CHECK(dims > 0 && x.dim() >= dims && x.sizes().slice(x.dim() - dims) == shape,
              "the input ends in other dimensions than the normalized shape ", shape);
  int64_t width = 1;
  for (const int64_t size : shape) width *= size;
  TORCH_CHECK(width > 0, "the normalized shape holds no element");
  return {x.numel() / width, width};
}

const void* pointer(const MaybeTensor& x) { return x ? x->data_ptr() : nullptr; }

// Weight and bias must have the shape that is normalized and one type, which the output gets. With
// a narrower input an FP32 weight is refused, by the mixed functions too.
at::ScalarType output_type(const Tensor& x, Shape shape, const MaybeTensor& weight,
                           const MaybeTensor& bias, bool mixed) {
  if (!weight) return x.scalar_type();
  TORCH_CHECK(weight->sizes() == shape, "the weight has another shape than ", shape);
  if (bias) TORCH_CHECK(bias->sizes() == shape, "the bias has another shape than ", shape);
  if (bias) check_same_type(*weight, *bias);
  if (!mixed || x.scalar_type() != at::kFloat) check_same_type(x, *weight);
  return weight->scalar_type();
}

std::vector<Tensor> forward_any(Tensor x, Shape shape, MaybeTensor weight, MaybeTensor bias,
                                double eps, bool rms, bool mixed) {
  const OnDeviceOf here(x);
  const auto [rows, width] = rows_of(x, shape);
  const auto y_type = output_type(x, shape, weight, bias, mixed);
  x = x.contiguous();
  if (weight) weight = weight->contiguous();
  if (bias) bias = bias->contiguous();
  Tensor y = output(x, x.sizes(), y_type);
  Tensor mean = output(x, {rms ? 0 : rows}, at::kFloat);
  Tensor inverse = output(x, {rows}, at::kFloat);
  launch_norm_forward({x.data_ptr(), pointer(weight), pointer(bias), y.data_ptr(),
                       rms ? nullptr : mean.data_ptr<float>(), inverse.data_ptr<float>(), rows,
                       width, static_cast<float>(eps), dtype_of(x), dtype_of(y)},
                      here.stream());
  here.done();
  if (rms) return {y, inverse};
  return {y, mean, inverse};
}

// The saved tensor is the input, or the output when memory was to be spared; then the input's type
// is the output's.
std::vector<Tensor> backward_any(Tensor dy, MaybeTensor mean, Tensor inverse, Tensor saved,
                                 Shape shape, MaybeTensor weight, MaybeTensor bias,
                                 bool from_output, bool rms) {
  const OnDeviceOf here(dy);
  const auto [rows, width] = rows_of(dy, shape);
  TORCH_CHECK(saved.sizes() == dy.sizes(), "gradient and saved tensor differ in shape");
  if (saved.scalar_type() != at::kFloat) check_same_type(saved, dy);
  if (weight) check_same_type(dy, *weight);
  TORCH_CHECK(rms || from_output || mean, "the mean is needed with a saved input");
  dy = dy.contiguous();
  saved = saved.contiguous();
  if (weight) weight = weight->contiguous();
  if (bias) bias = bias->contiguous();
  Tensor dx = output(saved, saved.sizes(), saved.scalar_type());
  MaybeTensor dweight, dbias, parts;
  if (weight) {
    dweight = output_like(*weight);
    parts = output(saved, {2, kParts, width}, at::kFloat);
  }
  if (bias) dbias = output_like(*bias);
  launch_norm_backward(
      {dy.data_ptr(), saved.data_ptr(), pointer(weight), pointer(bias),
       static_cast<const float*>(pointer(mean)), inverse.data_ptr<float>(), dx.data_ptr(),
       const_cast<void*>(pointer(dweight)), const_cast<void*>(pointer(dbias)),
       static_cast<float*>(const_cast<void*>(pointer(parts))), rows, width, from_output, rms,
       dtype_of(saved), dtype_of(dy)},
      here.stream());
  here.done();
  std::vector<Tensor> gradients{dx};
  if (dweight) gradients.push_back(*dweight);
  if (dbias) gradients.push_back(*dbias);
  return gradients;
}

std::vector<Tensor> forward(Tensor x, Shape shape, double eps) {
  return forward_any(x, shape, {}, {}, eps, false, false);
}
std::vector<Tensor> forward_affine(Tensor x, Shape shape, Tensor weight, Tensor bias, double eps) {
  return forward_any(x, shape, weight, bias, eps, false, false);
}
std::vector<Tensor> forward_affine_mixed(Tensor x, Shape shape, Tensor weight, Tensor bias,
                                         double eps) {
  return forward_any(x, shape, weight, bias, eps, false, true);
}
std::vector<Tensor> rms_forward(Tensor x, Shape shape, double eps) {
  return forward_any(x, shape, {}, {}, eps, true, false);
}
std::vector<Tensor> rms_forward_affine(Tensor x, Shape shape, Tensor weight, double eps) {
  return forward_any(x, shape, weight, {}, eps, true, false);
}
std::vector<Tensor> rms_forward_affine_mixed(Tensor x, Shape shape, Tensor weight, double eps) {
  return forward_any(x, shape, weight, {}, eps, true, true);
}

// eps is part of the saved deviation already; the functions take it all the same.
Tensor backward(Tensor dy, MaybeTensor mean, Tensor inverse, Tensor saved, Shape shape, double,
                bool from_output) {
  return backward_any(dy, mean, inverse, saved, shape, {}, {}, from_output, false)[0];
}
std::vector<Tensor> backward_affine(Tensor dy, MaybeTensor mean, Tensor inverse, Tensor saved,
                                    Shape shape, Tensor weight, Tensor bias, double,
                                    bool from_output) {
  return backward_any(dy, mean, inverse, saved, shape, weight, bias, from_output, false);
}
Tensor rms_backward(Tensor dy, Tensor inverse, Tensor saved, Shape shape, double,
                    bool from_output) {
  return backward_any(dy, {}, inverse, saved, shape, {}, {}, from_output, true)[0];
}
std::vector<Tensor> rms_backward_affine(Tensor dy, Tensor inverse, Tensor saved, Shape shape,
                                        Tensor weight, double, bool from_output) {
  return backward_any(dy, {}, inverse, saved, shape, weight, {}, from_output, true);
}

}  // namespace

FUNCTIONS(m) {
  m.def("forward", &forward);
  m.def("forward_affine", &forward_affine);
  m.def("forward_affine_mixed_dtypes", &forward_affine_mixed);
  m.def("rms_forward", &rms_forward);
  m.def("rms_forward_affine", &rms_forward_affine);
  m.def("rms_forward_affine_mixed_dtypes", &rms_forward_affine_mixed);
  m.def("backward", &backward);
  m.def("backward_affine", &backward_affine);
  m.def("rms_backward", &rms_backward);
  m.def("rms_backward_affine", &rms_backward_affine);
}
