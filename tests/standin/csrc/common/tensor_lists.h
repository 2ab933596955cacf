// From lists of torch tensors to plain pointers.
#pragma once

#include "binding.h"
#include "multi_tensor.h"

using Lists = std::vector<std::vector<Tensor>>;

struct OwnedLists {
  OwnedLists(const Lists& lists, size_t depth) {
    TORCH_CHECK(lists.size() == depth, "expected ", depth, " lists of tensors, got ", lists.size());
    TORCH_CHECK(!lists[0].empty(), "the lists of tensors are empty");
    for (const auto& list : lists) {
      TORCH_CHECK(list.size() == lists[0].size(), "the lists of tensors differ in length");
      for (size_t i = 0; i < list.size(); ++i) {
        const Tensor& x = list[i];
        TORCH_CHECK(x.device() == lists[0][0].device(), "all tensors must be on one device");
        TORCH_CHECK(x.numel() == lists[0][i].numel(), "the lists' tensors differ in size");
        TORCH_CHECK(x.is_non_overlapping_and_dense(), "tensors must be dense");
        check_same_type(list[0], x);
        addresses.push_back(x.data_ptr());
      }
    }
    for (const Tensor& x : lists[0]) sizes.push_back(x.numel());
  }
  TensorLists plain() const {
    const int count = static_cast<int>(sizes.size());
    return {static_cast<int>(addresses.size()) / count, count, addresses.data(), sizes.data()};
  }
  std::vector<void*> addresses;
  std::vector<int64_t> sizes;
};

inline void require_float(const std::vector<Tensor>& list) {
  for (const Tensor& x : list)
    TORCH_CHECK(x.scalar_type() == at::kFloat, "expected scalar type Float but found ",
                x.scalar_type());
}
