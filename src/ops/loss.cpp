// SPDX-License-Identifier: Apache-2.0
// Elementwise losses: tensors that broadcast against each other, then nothing,
// a mean or a sum. The gradient of a mean divides by the number of elements
// that the kernel sees, so it stays whole; expanded, it is that of a sum, and
// divides by the number that the whole has.
#include "base/text.h"
#include "ops/arithmetic.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <algorithm>
#include <utility>

namespace weft {

namespace {

Dims broadcast(const Dims& a, const Dims& b) {
  Dims sizes = a.size() < b.size() ? b : a;
  const Dims& other = a.size() < b.size() ? a : b;
  const size_t shift = sizes.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t& size = sizes[shift + i];
    size = size == 1 ? other[i] : size;
  }
  return sizes;
}

// The last dims of "d0:mean d1:mean d2:mean" that a tensor has.
std::string aligned_term(size_t ndim, size_t whole, const std::string& mark) {
  std::string term;
  for (size_t i = whole - ndim; i < whole; ++i) {
    term += cat(term.empty() ? "" : " ", "d", i, mark);
  }
  return ndim == 0 ? "()" : term;
}

struct ElementwiseLoss {
  size_t reduction_position;
  // Of the input: 0 forward, 1 backward, where the gradient comes first.
  size_t input_position;
  // The gradient has the input's strides instead of row-major ones.
  bool keeps_strides = false;
  // Made of other ops: one temporary lives beside the elements.
  bool composite = false;

  int64_t reduction(const Node& node) const {
    return int_arg(node, reduction_position, kMean);
  }

  Dims sizes(const Function& function, const Node& node) const {
    return broadcast(
        type_arg(function, node, input_position).sizes,
        type_arg(function, node, input_position + 1).sizes);
  }

  // `mark` goes on every dim; all positions before the reduction are tensors.
  std::vector<std::string> operand_terms(
      const Function& function,
      const Node& node,
      const std::string& mark) const {
    const size_t ndim = sizes(function, node).size();
    std::vector<std::string> terms;
    for (size_t position = 0; position < reduction_position; ++position) {
      terms.push_back(
          value_arg(node, position) == ValueId::None
              ? "_"
              : aligned_term(
                    type_arg(function, node, position).sizes.size(),
                    ndim,
                    mark));
    }
    return terms;
  }
};

Rule loss_rule(
    const ElementwiseLoss& loss, const Function& function, const Node& node) {
  const bool mean = loss.reduction(node) == kMean;
  const std::vector<std::string> operands =
      loss.operand_terms(function, node, mean ? ":mean" : "");
  const size_t ndim = loss.sizes(function, node).size();
  const std::string result =
      loss.reduction(node) == kNone ? aligned_term(ndim, ndim, "") : "()";
  return rule_from_terms(operands, {result}, function, node);
}

// The gradient of a mean divides by the number of elements it sees.
Rule loss_backward_rule(
    const ElementwiseLoss& loss, const Function& function, const Node& node) {
  const std::string mark = loss.reduction(node) == kMean ? "!" : "";
  const size_t ndim = loss.sizes(function, node).size();
  return rule_from_terms(
      loss.operand_terms(function, node, mark),
      {aligned_term(ndim, ndim, mark)},
      function,
      node);
}

std::vector<TensorType> loss_types(
    const ElementwiseLoss& loss, const Function& function, const Node& node) {
  // What is made of several calls starts from 1 - target, and goes on in place.
  const TensorType& input =
      type_arg(function, node, loss.input_position + (loss.composite ? 1 : 0));
  if (loss.reduction(node) != kNone) {
    return {make_type(input.dtype, {})};
  }
  Dims sizes = loss.sizes(function, node);
  return {
      sizes == input.sizes ? like(input)
                           : make_type(input.dtype, std::move(sizes))};
}

std::vector<TensorType> loss_backward_types(
    const ElementwiseLoss& loss, const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, loss.input_position);
  if (loss.keeps_strides) {
    return {like(input)};
  }
  return {make_type(input.dtype, loss.sizes(function, node))};
}

Expanded expand_loss_backward(
    const ElementwiseLoss& loss, NodeBuilder& builder, const Node& node) {
  if (loss.reduction(node) != kMean) {
    return {};
  }
  const auto count = static_cast<double>(
      element_count(builder.type(value_arg(node, loss.input_position))));
  const ValueId grad = value_arg(node, 0);
  Node sum = node;
  set_arg(sum, loss.reduction_position, {kSum});
  const TensorType type = builder.type(node.results.front());
  // In half precision the error of one quotient would be in every element.
  if (accumulate_type(type.dtype) != type.dtype) {
    return {div(builder, builder.call(sum, {type}).front(), count)};
  }
  set_arg(sum, 0, {div(builder, grad, count)});
  return builder.call(sum, {type});
}

// Tensors of all elements that live until a sum or mean is taken. One more is
// kept by mse_loss, smooth_l1_loss and binary_cross_entropy as the storage of
// their scalar result. A mean of half precision is taken in f32.
int64_t loss_scratch(
    const ElementwiseLoss& loss,
    int64_t tensors,
    const Function& function,
    const Node& node) {
  const TensorType& input = type_arg(function, node, loss.input_position);
  const int64_t count =
      element_count(make_type(input.dtype, loss.sizes(function, node)));
  if (loss.reduction(node) == kNone) {
    return loss.composite ? count * element_bytes(input.dtype) : 0;
  }
  const DType sums = accumulate_type(input.dtype);
  const bool converts = loss.reduction(node) == kMean && sums != input.dtype;
  return count * (tensors * element_bytes(input.dtype) +
                  (converts ? element_bytes(sums) : 0));
}

struct LossEntry {
  std::string_view name;
  ElementwiseLoss loss;
  int64_t operations;
  // See loss_scratch.
  int64_t tensors;
  std::string_view backward;
  std::vector<std::string_view> examples;
};

OpDef loss_op(LossEntry entry) {
  const ElementwiseLoss loss = entry.loss;
  const int64_t tensors = entry.tensors;
  return {
      .name = entry.name,
      .rule_of =
          [=](const Function& function, const Node& node) {
            return loss_rule(loss, function, node);
          },
      .flops = per_element(entry.operations),
      .scratch_bytes =
          [=](const Function& function, const Node& node) {
            return loss_scratch(loss, tensors, function, node);
          },
      .types =
          [=](const Function& function, const Node& node) {
            return loss_types(loss, function, node);
          },
      .backward = entry.backward,
      .examples = std::move(entry.examples),
  };
}

OpDef loss_backward_op(LossEntry entry) {
  const ElementwiseLoss loss = entry.loss;
  return {
      .name = entry.name,
      .rule_of =
          [=](const Function& function, const Node& node) {
            return loss_backward_rule(loss, function, node);
          },
      .linear = Linear::First,
      .flops = per_element(entry.operations),
      .types =
          [=](const Function& function, const Node& node) {
            return loss_backward_types(loss, function, node);
          },
      .expand =
          [=](NodeBuilder& builder, const Node& node) {
            return expand_loss_backward(loss, builder, node);
          },
      .examples = std::move(entry.examples),
  };
}

}  // namespace

void add_loss_ops(OpTable& ops) {
  const std::vector<std::string_view> pair = {
      "(f32[8, 4], f32[8, 4], 2)",
      "(f32[8, 4], f32[8, 4])",
      "(f32[8, 4], f32[8, 4], 0)"};
  const std::vector<std::string_view> gradient = {
      "(f32[], f32[8, 4], f32[8, 4], 2)",
      "(f32[], f32[8, 4], f32[8, 4], 1)",
      "(f32[], f32[8, 4]{1, 8}, f32[8, 4]{1, 8}, 1)",
      "(f32[8, 4], f32[8, 4], f32[8, 4], 0)"};
  const std::vector<std::string_view> gradient_with_width = {
      "(f32[], f32[8, 4], f32[8, 4], 2, 1.0)",
      "(f32[], f32[8, 4], f32[8, 4], 1, 0.5)",
      "(f32[8, 4], f32[8, 4], f32[8, 4], 0, 1.0)"};
  const ElementwiseLoss forward = {
      .reduction_position = 2, .input_position = 0};
  const ElementwiseLoss backward = {
      .reduction_position = 3, .input_position = 1};
  ops.push_back(loss_op(
      {"aten.mse_loss", forward, 3, 1, "aten.mse_loss_backward", pair}));
  ops.push_back(loss_backward_op(
      {"aten.mse_loss_backward", backward, 3, 0, "", gradient}));
  ops.push_back(loss_op(
      {"aten.smooth_l1_loss",
       forward,
       5,
       1,
       "aten.smooth_l1_loss_backward",
       pair}));
  ops.push_back(loss_backward_op(
      {"aten.smooth_l1_loss_backward",
       backward,
       5,
       0,
       "",
       gradient_with_width}));
  ops.push_back(loss_op(
      {"aten.huber_loss", forward, 5, 1, "aten.huber_loss_backward", pair}));
  ops.push_back(loss_backward_op(
      {"aten.huber_loss_backward", backward, 5, 0, "", gradient_with_width}));
  ops.push_back(loss_op(
      {"aten.binary_cross_entropy",
       {.reduction_position = 3, .input_position = 0},
       9,
       0,
       "aten.binary_cross_entropy_backward",
       {"(f32[8, 4]>0, f32[8, 4]>0, none, 2)",
        "(f32[8, 4]>0, f32[8, 4]>0, f32[4], 1)"}}));
  ops.push_back(loss_backward_op(
      {"aten.binary_cross_entropy_backward",
       {.reduction_position = 4, .input_position = 1, .keeps_strides = true},
       6,
       0,
       "",
       {"(f32[], f32[8, 4]>0, f32[8, 4]>0, none, 2)",
        "(f32[], f32[8, 4]>0, f32[8, 4]>0, f32[8, 4]>0, 1)",
        "(f32[8, 4], f32[8, 4]>0, f32[8, 4]>0, none, 0)"}}));
  // Differentiated piece by piece: it has no backward op.
  ops.push_back(loss_op(
      {"aten.binary_cross_entropy_with_logits",
       {.reduction_position = 4, .input_position = 0, .composite = true},
       7,
       2,
       "",
       {"(f32[8, 4], f32[8, 4], none, none, 2)",
        "(f32[8, 4], f32[8, 4], f32[8, 4], f32[4], 1)",
        "(bf16[8, 4], f32[8, 4], none, none, 1)",
        "(f32[8, 4], f32[8, 4], none, none, 0)"}}));
}

}  // namespace weft
