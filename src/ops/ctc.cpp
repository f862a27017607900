// SPDX-License-Identifier: Apache-2.0
// The CTC loss of a batch whose lengths are operands. PyTorch's own operator
// takes them as numbers, and the size of what it keeps for backward is that of
// the longest target. Here that has room for any target that fits into
// `targets`, so that sizes do not depend on data. t = steps in time, n =
// samples, c = classes, s = labels of a target, a = 2 s + 1 states.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/words.h"

namespace weft {
namespace {

int64_t state_count(const Function& function, const Node& node) {
  return 2 * type_arg(function, node, 1).sizes.back() + 1;
}

Rule ctc_loss_rule(const Function& function, const Node& node) {
  return rule_from_text(
      cat("t! n c!, n s!, n, n -> n, n t! a=",
          state_count(function, node),
          "!"),
      function,
      node);
}

std::vector<TensorType> ctc_loss_types(
    const Function& function, const Node& node) {
  const TensorType& log_probs = type_arg(function, node, 0);
  const int64_t samples = log_probs.sizes.at(1);
  return {
      make_type(log_probs.dtype, {samples}),
      make_type(
          log_probs.dtype,
          {samples, log_probs.sizes[0], state_count(function, node)})};
}

std::vector<TensorType> ctc_gradient_types(
    const Function& function, const Node& node) {
  const TensorType& log_probs = type_arg(function, node, 1);
  return {make_type(log_probs.dtype, log_probs.sizes)};
}

std::vector<TensorType> ctc_targets_types(
    const Function& function, const Node& node) {
  return {make_type(
      DType::I64,
      {type_arg(function, node, 2).sizes.front(), int_arg(node, 3, 1)})};
}

}  // namespace

void add_ctc_ops(OpTable& ops) {
  // (targets, selected or none, lengths, width) -> targets that stand one after
  // the other, as rows of `width` with zeros behind them. Where a row begins
  // follows from all lengths before it: whole on every rank.
  ops.push_back({
      .name = "weft.ctc_targets",
      .types = ctc_targets_types,
      .examples = {"(i64[3]<2, none, i64[1]^3, 3)"},
  });
  // (log_probs, targets, input lengths, target lengths, blank, zero_infinity)
  // -> losses, and for backward the logarithms of how likely each state is.
  ops.push_back({
      .name = "weft.ctc_loss",
      .rule_of = ctc_loss_rule,
      .types = ctc_loss_types,
      .backward = "weft.ctc_loss_backward",
      .examples = {"(f32[5, 4, 6], i64[4, 3]<6, i64[4]<6, i64[4]<4, 0, true)"},
  });
  // (gradient of the losses, operands and results of ctc_loss, blank,
  // zero_infinity)
  ops.push_back({
      .name = "weft.ctc_loss_backward",
      .rule = "n, t! n c!, n s!, n, n, n, n t! a! -> t! n c!",
      .types = ctc_gradient_types,
      .examples =
          {"(f32[4], f32[5, 4, 6], i64[4, 3]<6, i64[4]<6, i64[4]<4, f32[4], "
           "f32[4, 5, 7], 0, true)"},
  });
}

}  // namespace weft
