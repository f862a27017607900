// SPDX-License-Identifier: Apache-2.0
#include "capture/memory_overlap.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace weft {
namespace {

// A whole number from `low` to `high` times `stride`.
struct Term {
  int64_t stride;
  int64_t low;
  int64_t high;
};

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0 && a < 0) ? 1 : 0);
}

// Whether a sum of the terms from the first on is `target`. Strides are
// positive and fall; where they are those of one tensor, at most two numbers
// are worth a try in each place, because the smaller strides do not reach
// farther.
bool reaches(
    const std::vector<Term>& terms,
    const std::vector<std::pair<int64_t, int64_t>>& reach,
    size_t first,
    int64_t target) {
  if (first == terms.size()) {
    return target == 0;
  }
  const Term& term = terms[first];
  const auto [low, high] = reach[first + 1];
  const int64_t from =
      std::max(term.low, -floor_div(high - target, term.stride));
  const int64_t to = std::min(term.high, floor_div(target - low, term.stride));
  for (int64_t number = from; number <= to; ++number) {
    if (reaches(terms, reach, first + 1, target - number * term.stride)) {
      return true;
    }
  }
  return false;
}

// Asked of the storages alone: what PyTorch's own question looks at besides,
// tensors without memory do not have.
bool have_one_storage(const at::Tensor& one, const at::Tensor& other) {
  return one.storage().unsafeGetStorageImpl() ==
         other.storage().unsafeGetStorageImpl();
}

}  // namespace

bool is_same_view(const at::Tensor& one, const at::Tensor& other) {
  return have_one_storage(one, other) &&
         one.scalar_type() == other.scalar_type() &&
         one.storage_offset() == other.storage_offset() &&
         one.sizes() == other.sizes() && one.strides() == other.strides();
}

// A byte of the one is a byte of the other where the index into the one, times
// its strides, is the index into the other, times its own, plus the distance
// between their beginnings: one equation in whole numbers with bounds.
bool shares_elements(const at::Tensor& one, const at::Tensor& other) {
  if (!have_one_storage(one, other) || one.numel() == 0 || other.numel() == 0) {
    return false;
  }
  const auto bytes = [](const at::Tensor& tensor) {
    return static_cast<int64_t>(tensor.element_size());
  };
  std::map<int64_t, std::pair<int64_t, int64_t>, std::greater<>> bounds;
  bounds[1] = {1 - bytes(other), bytes(one) - 1};
  for (int64_t dim = 0; dim < one.dim(); ++dim) {
    bounds[one.stride(dim) * bytes(one)].second += one.size(dim) - 1;
  }
  for (int64_t dim = 0; dim < other.dim(); ++dim) {
    bounds[other.stride(dim) * bytes(other)].first -= other.size(dim) - 1;
  }
  std::vector<Term> terms;
  for (const auto& [stride, range] : bounds) {
    if (stride != 0) {
      terms.push_back({stride, range.first, range.second});
    }
  }
  std::vector<std::pair<int64_t, int64_t>> reach(terms.size() + 1);
  for (size_t i = terms.size(); i-- > 0;) {
    reach[i] = {
        reach[i + 1].first + terms[i].low * terms[i].stride,
        reach[i + 1].second + terms[i].high * terms[i].stride};
  }
  const int64_t distance =
      other.storage_offset() * bytes(other) - one.storage_offset() * bytes(one);
  return reaches(terms, reach, 0, distance);
}

}  // namespace weft
