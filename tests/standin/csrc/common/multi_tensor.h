// Lists of tensors as plain pointers: `depth` lists of `count` tensors each.
#pragma once

#include "types.h"

struct TensorLists {
  int depth;
  int count;
  void* const* addresses;  // depth * count of them, list after list
  const int64_t* sizes;    // count of them
  void* address(int list, int tensor) const { return addresses[list * count + tensor]; }
};

// Adam's numbers. 1 - beta is taken in double: in float it would cost half the digits.
struct AdamNumbers {
  float lr, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, decay, correction1, correction2;
  bool decoupled;
};
