// SPDX-License-Identifier: Apache-2.0
// Steps of an optimizer, one node a parameter. Operands are the parameter, its
// gradient, the states in torch.optim's order, and the learning rate (f64, as
// torch.optim computes with it); results the new parameter and the new states.
// Options are torch.optim's own numbers; switches are 0 or 1. The option
// `skip=%flag` is one more operand, a number: when it is not 0 the results are
// the parameter and the states as they were. All but adafactor work element by
// element.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {

namespace {

bool is_on(const Node& node, std::string_view option) {
  return number_option(node, option, 0) != 0;
}

// Whether an operand comes out again: neither the gradient nor the learning
// rate nor `skip` does.
bool is_result(const Node& node, size_t operand) {
  return operand != 1 && operand + 1 < node.args.size();
}

// Step counters, the learning rate and `skip` are scalars, the same on every
// rank.
Rule optimizer_rule(
    const Function& function, const Node& node, const std::string& mark) {
  const Dims& parameter = type_arg(function, node, 0).sizes;
  const std::string term =
      parameter.empty() ? "()" : numbered(parameter.size(), "d", mark);
  std::vector<std::string> terms;
  std::vector<std::string> results;
  for (const ValueId id : operands(node)) {
    const bool scalar = function[id].type.sizes.empty();
    const std::string own = scalar && !parameter.empty() ? "_" : term;
    if (is_result(node, terms.size())) {
      results.push_back(own);
    }
    terms.push_back(own);
  }
  return rule_from_terms(terms, results, function, node);
}

Rule elementwise_rule(const Function& function, const Node& node) {
  return optimizer_rule(function, node, "");
}

// Means over rows and columns, and norms of the whole.
Rule adafactor_rule(const Function& function, const Node& node) {
  return optimizer_rule(function, node, "!");
}

std::vector<TensorType> optimizer_types(
    const Function& function, const Node& node) {
  const std::vector<ValueId> all = operands(node);
  std::vector<TensorType> types;
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_result(node, i)) {
      types.push_back(function[all[i]].type);
    }
  }
  return types;
}

// Tensors of the parameter's size that torch.optim holds at once when it goes
// from parameter to parameter (its default on a CPU), measured. Its fused
// kernels hold none; `foreach` holds one a parameter, for all at once.
CountFunction temporaries(int64_t (*count)(const Node&)) {
  return [count](const Function& function, const Node& node) {
    if (is_on(node, "fused")) {
      return int64_t{0};
    }
    return count(node) * dense_bytes(type_arg(function, node, 0));
  };
}

// A gradient of its own when it is negated or decayed.
int64_t changed_gradient(const Node& node) {
  return is_on(node, "weight_decay") || is_on(node, "maximize") ? 1 : 0;
}

int64_t sgd_temporaries(const Node& node) {
  const bool nesterov = is_on(node, "nesterov") && !is_on(node, "foreach");
  return changed_gradient(node) + (nesterov ? 1 : 0);
}

// The denominator is a root, divided and shifted: two tensors.
int64_t adam_temporaries(const Node& node) {
  return is_on(node, "foreach") ? 1 : 2 + changed_gradient(node);
}

// Decays the parameter in place, not the gradient.
int64_t adamw_temporaries(const Node& node) {
  return is_on(node, "foreach") ? 1 : 2 + (is_on(node, "maximize") ? 1 : 0);
}

int64_t adagrad_temporaries(const Node& node) {
  return is_on(node, "foreach") ? 2 : 1 + changed_gradient(node);
}

// The estimate of the variance; of a vector also the squares.
int64_t adafactor_scratch(const Function& function, const Node& node) {
  const TensorType& parameter = type_arg(function, node, 0);
  const int64_t whole = dense_bytes(parameter);
  if (parameter.sizes.size() < 2) {
    return 2 * whole;
  }
  return whole + dense_bytes(type_arg(function, node, 2));
}

int64_t lion_temporaries(const Node&) { return 2; }

OpDef elementwise_optimizer(
    std::string_view name,
    int64_t operations,
    int64_t (*temporary_count)(const Node&),
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = elementwise_rule,
      .flops = per_element(operations),
      .scratch_bytes = temporaries(temporary_count),
      .types = optimizer_types,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_optimizer_ops(OpTable& ops) {
  const size_t first = ops.size();
  ops.push_back(elementwise_optimizer(
      "weft.sgd",
      4,
      sgd_temporaries,
      {"(f32[8, 4], f32[8, 4], f64[])",
       "(f32[8, 4], f32[8, 4], f32[8, 4], f64[], momentum=0.9, "
       "weight_decay=0.01)"}));
  ops.push_back(elementwise_optimizer(
      "weft.adam",
      12,
      adam_temporaries,
      {"(f32[8, 4], f32[8, 4], f32[8, 4], f32[8, 4]>0, f32[], f64[], "
       "beta1=0.9, beta2=0.999, eps=1e-08)"}));
  ops.push_back(elementwise_optimizer(
      "weft.adamw",
      14,
      adamw_temporaries,
      {"(f32[8, 4], f32[8, 4], f32[8, 4], f32[8, 4]>0, f32[], f64[], "
       "beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0.01)",
       "(f32[8, 4], f32[8, 4], f32[8, 4], f32[8, 4]>0, f32[], f64[], "
       "beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0.01, skip=f32[])",
       "(f32[8, 4], f32[8, 4], f32[8, 4], f32[8, 4]>0, f32[], f64[], "
       "beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0.01, fused=1)"}));
  ops.push_back(elementwise_optimizer(
      "weft.adagrad",
      6,
      adagrad_temporaries,
      {"(f32[8, 4], f32[8, 4], f32[8, 4]>0, f32[], f64[], eps=1e-10)"}));
  ops.push_back(elementwise_optimizer(
      "weft.lion",
      8,
      lion_temporaries,
      {"(f32[8, 4], f32[8, 4], f32[8, 4], f64[], beta1=0.9, beta2=0.99)"}));
  ops.push_back({
      .name = "weft.adafactor",
      .rule_of = adafactor_rule,
      .flops = per_element(12),
      .scratch_bytes = adafactor_scratch,
      .types = optimizer_types,
      .examples =
          {"(f32[8, 4], f32[8, 4], f32[8, 1]>0, f32[1, 4]>0, f32[], f64[])",
           "(f32[8], f32[8], f32[8]>0, f32[], f64[])"},
  });
  mark_in_place(ops, first);
}

}  // namespace weft
