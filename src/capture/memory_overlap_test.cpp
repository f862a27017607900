// SPDX-License-Identifier: Apache-2.0
#include "capture/memory_overlap.h"

#include <ATen/ops/arange.h>

#include <gtest/gtest.h>
#include <set>

namespace weft {
namespace {

// By looking at every element.
std::set<int64_t> places(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1});
  std::set<int64_t> out;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    out.insert(flat[i].item<int64_t>());
  }
  return out;
}

TEST(MemoryOverlap, IsThatOfTheElements) {
  // Every element is its own place.
  const at::Tensor whole = at::arange(4 * 6).reshape({4, 6});
  std::vector<at::Tensor> views = {whole, whole.t(), whole[1].expand({3, 6})};
  for (int64_t start = 0; start < 4; ++start) {
    for (int64_t step = 1; step < 4; ++step) {
      views.push_back(whole.slice(1, start, 6, step));
      views.push_back(whole.slice(0, start, 4, step).slice(1, step));
      views.push_back(whole.view({-1}).slice(0, start, 24, 2 * step));
    }
  }
  for (const at::Tensor& one : views) {
    for (const at::Tensor& other : views) {
      bool expected = false;
      const std::set<int64_t> theirs = places(other);
      for (const int64_t place : places(one)) {
        expected = expected || theirs.contains(place);
      }
      EXPECT_EQ(shares_elements(one, other), expected)
          << one.sizes() << one.strides() << one.storage_offset()
          << other.sizes() << other.strides() << other.storage_offset();
    }
  }
  EXPECT_FALSE(shares_elements(whole, whole.clone()));
  EXPECT_TRUE(is_same_view(whole, whole.view({4, 6})));
  EXPECT_FALSE(is_same_view(whole, whole.view({6, 4})));
}

}  // namespace
}  // namespace weft
