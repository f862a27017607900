// SPDX-License-Identifier: Apache-2.0
// Activation functions, each beside its backward op, which is linear in the
// gradient.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/iterator.h"
#include "ops/kernel.h"

#include <utility>

namespace weft {
namespace {

constexpr std::string_view kForward = "... -> ...";
constexpr std::string_view kBackward = "..., ... -> ...";

// glu halves a dim: it is made of the two halves and what is in each.
std::string halved_dims(
    const Function& function,
    const Node& node,
    size_t self,
    size_t dim_at,
    bool halves) {
  size_t ndim = type_arg(function, node, self).sizes.size();
  auto dim = static_cast<size_t>(wrap_dim(int_arg(node, dim_at, -1), ndim));
  std::vector<std::string> words;
  for (size_t i = 0; i < ndim; ++i) {
    words.push_back(
        i == dim && halves ? cat("(half=2! d", i, ")") : cat("d", i));
  }
  return join(words, " ");
}

Rule glu_rule(const Function& function, const Node& node) {
  return rule_from_text(
      cat(halved_dims(function, node, 0, 1, true),
          " -> ",
          halved_dims(function, node, 0, 1, false)),
      function,
      node);
}

Rule glu_backward_rule(const Function& function, const Node& node) {
  std::string self = halved_dims(function, node, 1, 2, true);
  std::string grad = halved_dims(function, node, 1, 2, false);
  return rule_from_text(cat(grad, ", ", self, " -> ", self), function, node);
}

std::vector<TensorType> glu_backward_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 1);
  return {make_type(self.dtype, self.sizes)};
}

// The result, and a buffer of its size.
std::vector<TensorType> log_sigmoid_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  return {make_type(self.dtype, self.sizes), make_type(self.dtype, self.sizes)};
}

// Both gradients have the sizes of self; that of the weight is summed later.
std::vector<TensorType> prelu_backward_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 1);
  return {like(self), like(self)};
}

OpDef forward(
    std::string_view name,
    std::string_view backward,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule = kForward,
      .types = iterated_as_first(),
      .backward = backward,
      .examples = std::move(examples),
  };
}

OpDef backward(std::string_view name, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule = kBackward,
      .linear = Linear::First,
      .types = iterated(),
      .examples = std::move(examples),
  };
}

OpDef with(Special special, OpDef def) {
  def.special = special;
  return def;
}

// For kernels that go by the second operand where the two lie differently.
OpDef by_second(OpDef def) {
  def.types = iterated_from_last();
  return def;
}

// By a tanh, or by erf.
OpDef with_gelu(OpDef def) {
  def.special_of = [](const Node& node) {
    const Arg* approximate = find_option(node, "approximate");
    return approximate != nullptr && *approximate == Arg{std::string("tanh")}
               ? Special::Tangent
               : Special::Exponential;
  };
  return def;
}

}  // namespace

void add_activation_ops(OpTable& ops) {
  const size_t first = ops.size();
  ops.push_back(with_gelu(forward(
      "aten.gelu",
      "aten.gelu_backward",
      {"(f32[8, 4])", "(f32[8, 4], approximate=\"tanh\")"})));
  ops.push_back(with_gelu(backward(
      "aten.gelu_backward",
      {"(f32[8, 4], f32[8, 4])",
       "(f32[8, 4], f32[8, 4]{1, 8})",
       "(f32[8, 4], f32[8, 4], approximate=\"tanh\")"})));
  add_ops(
      ops,
      {"aten.silu"},
      with(
          Special::Exponential,
          forward("", "", {"(f32[8, 4])", "(f32[8, 4]{1, 8})"})));
  add_ops(
      ops,
      {"aten.mish"},
      with(
          Special::Tangent,
          forward("", "", {"(f32[8, 4])", "(f32[8, 4]{1, 8})"})));
  add_ops(
      ops,
      {"aten.hardsigmoid"},
      forward("", "", {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}));
  ops.push_back(forward(
      "aten.hardswish",
      "aten.hardswish_backward",
      {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}));
  const OpDef unary_backward = backward(
      "",
      {"(f32[8, 4], f32[8, 4])",
       "(f32[8, 4]{1, 8}, f32[8, 4]{1, 8})",
       "(f32[8, 4], f32[8, 4]{1, 8})"});
  add_ops(
      ops, {"aten.silu_backward"}, with(Special::Exponential, unary_backward));
  add_ops(ops, {"aten.mish_backward"}, with(Special::Tangent, unary_backward));
  add_ops(
      ops,
      {"aten.hardsigmoid_backward",
       "aten.sigmoid_backward",
       "aten.tanh_backward"},
      unary_backward);
  ops.push_back(backward(
      "aten.hardswish_backward",
      {"(f32[8, 4], f32[8, 4])",
       "(f32[8, 4]{1, 8}, f32[8, 4]{1, 8})",
       "(f32[8, 4], f32[8, 4]{1, 8})"}));
  ops.push_back(forward(
      "aten.threshold", "aten.threshold_backward", {"(f32[8, 4], 0, 0.5)"}));
  ops.push_back(by_second(backward(
      "aten.threshold_backward",
      {"(f32[8, 4], f32[8, 4], 0)",
       "(f32[8, 4], f32[8, 4]{1, 8}, 0)",
       "(f32[8, 4]{1, 8}, f32[8, 4], 0)"})));
  ops.push_back(with(
      Special::Exponential,
      forward("aten.softplus", "aten.softplus_backward", {"(f32[8, 4])"})));
  ops.push_back(with(
      Special::Exponential,
      backward(
          "aten.softplus_backward",
          {"(f32[8, 4], f32[8, 4], 1, 20)",
           "(f32[8, 4], f32[8, 4]{1, 8}, 1, 20)"})));
  ops.push_back(with(
      Special::Exponential,
      forward(
          "aten.elu",
          "aten.elu_backward",
          {"(f32[8, 4])", "(f32[8, 4], 0.5)"})));
  ops.push_back(with(
      Special::Exponential,
      backward(
          "aten.elu_backward",
          {"(f32[8, 4], 1, 1, 1, false, f32[8, 4])",
           "(f32[8, 4], 1, 1, 1, false, f32[8, 4]{1, 8})"})));
  ops.push_back(with(
      Special::Exponential, forward("aten.celu", "", {"(f32[8, 4], 0.5)"})));
  ops.push_back(forward(
      "aten.leaky_relu",
      "aten.leaky_relu_backward",
      {"(f32[8, 4])", "(f32[8, 4], 0.2)"}));
  ops.push_back(by_second(backward(
      "aten.leaky_relu_backward",
      {"(f32[8, 4], f32[8, 4], 0.01, false)",
       "(f32[8, 4], f32[8, 4]{1, 8}, 0.01, false)",
       "(f32[8, 4]{1, 8}, f32[8, 4], 0.01, false)"})));
  ops.push_back(forward(
      "aten.hardtanh",
      "aten.hardtanh_backward",
      {"(f32[8, 4])", "(f32[8, 4]{1, 8}, 0, 6)"}));
  ops.push_back(backward(
      "aten.hardtanh_backward",
      {"(f32[8, 4], f32[8, 4], -0.5, 0.5)",
       "(f32[8, 4], f32[8, 4]{1, 8}, -0.5, 0.5)"}));
  add_ops(
      ops,
      {"aten.hardshrink", "aten.softshrink"},
      forward("", "", {"(f32[8, 4])"}));
  add_ops(
      ops,
      {"aten.hardshrink_backward", "aten.softshrink_backward"},
      backward("", {"(f32[8, 4], f32[8, 4], 0.3)"}));
  ops.push_back({
      .name = "aten.logit_backward",
      .rule = kBackward,
      .linear = Linear::First,
      .examples = {"(f32[8, 4], f32[8, 4])"},
  });
  ops.push_back({
      .name = "aten.log_sigmoid_forward",
      .rule = "... -> ..., ...",
      .types = log_sigmoid_types,
      .backward = "aten.log_sigmoid_backward",
      .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"},
  });
  ops.push_back({
      .name = "aten.log_sigmoid_backward",
      .rule = "..., ..., ... -> ...",
      .linear = Linear::First,
      .types = iterated_as_first(),
      .examples =
          {"(f32[8, 4], f32[8, 4], f32[8, 4])",
           "(f32[8, 4], f32[8, 4]{1, 8}, f32[8, 4])"},
  });
  ops.push_back({
      .name = "aten.rrelu_with_noise_backward",
      .rule = "..., ..., ... -> ...",
      .linear = Linear::First,
      .examples =
          {"(f32[8, 4], f32[8, 4], f32[8, 4], 0.125, 0.25, true, false)"},
  });
  ops.push_back({
      .name = "aten._prelu_kernel",
      .rule = kBackward,
      .types = iterated_as_first(),
      .backward = "aten._prelu_kernel_backward",
      .examples = {"(f32[8, 4], f32[1, 4])", "(f32[8, 4]{1, 8}, f32[1, 4])"},
  });
  ops.push_back({
      .name = "aten._prelu_kernel_backward",
      .rule = "..., ..., ... -> ..., ...",
      .linear = Linear::First,
      .types = prelu_backward_types,
      .examples =
          {"(f32[8, 4], f32[8, 4], f32[1, 4])",
           "(f32[8, 4], f32[8, 4]{1, 8}, f32[1, 4])"},
  });
  ops.push_back({
      .name = "aten.glu",
      .rule_of = glu_rule,
      .backward = "aten.glu_backward",
      .examples = {"(f32[4, 8])", "(f32[8, 4, 4], 0)"},
  });
  ops.push_back({
      .name = "aten.glu_backward",
      .rule_of = glu_backward_rule,
      .linear = Linear::First,
      .types = glu_backward_types,
      .examples =
          {"(f32[4, 4], f32[4, 8], -1)", "(f32[4, 4], f32[4, 8]{1, 4}, -1)"},
  });
  ops.push_back(backward(
      "aten.native_dropout_backward",
      {"(f32[8, 4], bool[8, 4], 2)", "(f32[8, 4], bool[8, 4]{1, 8}, 2)"}));
  mark_in_place(ops, first, "aten.glu_backward");
}

}  // namespace weft
