// SPDX-License-Identifier: Apache-2.0
#include "aten/ctc_loss.h"

#include "base/error.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace weft {
namespace {

// The function of PyTorch's whose checks these are.
constexpr const char* kChecker = "ctc_loss_allocate_outputs";

std::vector<int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const int64_t* first = dense.const_data_ptr<int64_t>();
  return {first, first + dense.numel()};
}

int64_t states_of(const std::vector<int64_t>& target_lengths) {
  int64_t longest = 0;
  for (const int64_t length : target_lengths) {
    longest = std::max(longest, length);
  }
  return 2 * longest + 1;
}

}  // namespace

at::Tensor ctc_targets(
    const at::Tensor& targets,
    const std::optional<at::Tensor>& selected,
    const at::Tensor& lengths,
    int64_t width) {
  const at::Tensor labels =
      (selected && selected->defined() ? at::masked_select(targets, *selected)
                                       : targets)
          .contiguous();
  const std::vector<int64_t> counts = numbers_of(lengths);
  for (const int64_t count : counts) {
    TORCH_CHECK(
        count >= 0,
        "Expected target_lengths to have value at least 0, but got value ",
        count,
        " (while checking arguments for ",
        kChecker,
        ")");
  }
  at::checkSize(
      kChecker,
      at::TensorArg(labels, "targets", 2),
      0,
      std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  at::Tensor rows =
      at::zeros({static_cast<int64_t>(counts.size()), width}, labels.options());
  const int64_t* from = labels.const_data_ptr<int64_t>();
  auto* to = rows.mutable_data_ptr<int64_t>();
  for (const int64_t count : counts) {
    WEFT_CHECK(count <= width);
    std::copy(from, from + count, to);
    from += count;
    to += width;
  }
  return rows;
}

std::tuple<at::Tensor, at::Tensor> ctc_loss(
    const at::Tensor& log_probs,
    const at::Tensor& targets,
    const at::Tensor& input_lengths,
    const at::Tensor& target_lengths,
    int64_t blank,
    bool zero_infinity) {
  const std::vector<int64_t> lengths = numbers_of(target_lengths);
  auto [losses, states] = at::_ctc_loss(
      log_probs,
      targets,
      numbers_of(input_lengths),
      lengths,
      blank,
      zero_infinity);
  at::Tensor padded = at::zeros(
      {states.size(0), states.size(1), 2 * targets.size(1) + 1},
      states.options());
  padded.narrow(2, 0, states.size(2)).copy_(states);
  return {losses, padded};
}

at::Tensor ctc_loss_backward(
    const at::Tensor& gradient,
    const at::Tensor& log_probs,
    const at::Tensor& targets,
    const at::Tensor& input_lengths,
    const at::Tensor& target_lengths,
    const at::Tensor& losses,
    const at::Tensor& states,
    int64_t blank,
    bool zero_infinity) {
  const std::vector<int64_t> lengths = numbers_of(target_lengths);
  return at::_ctc_loss_backward(
      gradient,
      log_probs,
      targets,
      numbers_of(input_lengths),
      lengths,
      losses,
      states.narrow(2, 0, states_of(lengths)).contiguous(),
      blank,
      zero_infinity);
}

}  // namespace weft
