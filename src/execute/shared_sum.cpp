// SPDX-License-Identifier: Apache-2.0
#include "execute/shared_sum.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weft {
namespace {

// What stays in a core's cache while term after term is added. Also too little
// for ATen to call other threads for help.
constexpr size_t kBlockItems = 16 * 1024;

at::Tensor view(std::byte* data, size_t count, c10::ScalarType type) {
  return at::from_blob(
      data, {static_cast<int64_t>(count)}, at::TensorOptions(type));
}

bool is_half(c10::ScalarType type) {
  return type == c10::kHalf || type == c10::kBFloat16;
}

// More than two terms: through memory of our own, for `out` may be a term that
// is still to be added.
class Accumulator {
 public:
  explicit Accumulator(c10::ScalarType type)
      : type_(is_half(type) ? c10::kFloat : type),
        sum_(kBlockItems * c10::elementSize(type_)),
        term_(sum_.size()) {}

  void add_up(
      const std::vector<at::Tensor>& terms, at::Tensor& out, size_t count) {
    at::Tensor sum = view(sum_.data(), count, type_);
    at::Tensor term = view(term_.data(), count, type_);
    sum.copy_(terms.front());
    for (size_t i = 1; i < terms.size(); ++i) {
      // Without the copy ATen would ask for memory to convert into.
      term.copy_(terms[i]);
      at::add_out(sum, sum, term);
    }
    out.copy_(sum);
  }

 private:
  c10::ScalarType type_;
  std::vector<std::byte> sum_;
  std::vector<std::byte> term_;
};

}  // namespace

void add_up(
    const std::vector<std::byte*>& terms,
    std::byte* out,
    size_t count,
    c10::ScalarType type) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const size_t item_bytes = c10::elementSize(type);
  std::vector<Accumulator> accumulator;
  if (terms.size() > 2) {
    accumulator.emplace_back(type);
  }
  for (size_t begin = 0; begin < count; begin += kBlockItems) {
    const size_t items = std::min(kBlockItems, count - begin);
    std::vector<at::Tensor> views;
    views.reserve(terms.size());
    for (std::byte* term : terms) {
      views.push_back(view(term + begin * item_bytes, items, type));
    }
    at::Tensor sum = view(out + begin * item_bytes, items, type);
    if (terms.size() == 1) {
      std::memmove(
          out + begin * item_bytes,
          terms[0] + begin * item_bytes,
          items * item_bytes);
    } else if (terms.size() == 2) {
      at::add_out(sum, views[0], views[1]);
    } else {
      accumulator.front().add_up(views, sum, items);
    }
  }
}

}  // namespace weft
