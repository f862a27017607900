// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ops/families.h"
#include "ops/op_def.h"
#include "ops/rule_text.h"

namespace weft {
namespace {

OpTable make_table() {
  OpTable ops;
  add_matmul_ops(ops);
  add_pointwise_ops(ops);
  add_activation_ops(ops);
  add_reduction_ops(ops);
  add_view_ops(ops);
  add_view_backward_ops(ops);
  add_join_ops(ops);
  add_padding_ops(ops);
  add_creation_ops(ops);
  add_random_ops(ops);
  add_sampling_ops(ops);
  add_linalg_ops(ops);
  add_fft_ops(ops);
  add_data_dependent_ops(ops);
  add_convolution_ops(ops);
  add_pooling_ops(ops);
  add_adaptive_pooling_ops(ops);
  add_upsample_ops(ops);
  add_norm_ops(ops);
  add_batch_norm_ops(ops);
  add_softmax_ops(ops);
  add_nll_loss_ops(ops);
  add_loss_ops(ops);
  add_embedding_ops(ops);
  add_index_ops(ops);
  add_scatter_ops(ops);
  add_sort_ops(ops);
  add_attention_ops(ops);
  add_gpu_attention_ops(ops);
  add_recurrent_ops(ops);
  add_optimizer_ops(ops);
  add_guard_ops(ops);
  return ops;
}

using Lookup = std::unordered_map<std::string_view, const OpDef*>;

Lookup make_lookup(const OpTable& ops) {
  Lookup lookup;
  for (const OpDef& def : ops) {
    bool added = lookup.emplace(def.name, &def).second;
    WEFT_CHECK(added, "two entries for ", def.name);
  }
  return lookup;
}

int64_t largest_count(const Function& function, const Node& node) {
  int64_t largest = 0;
  for (ValueId id : operands(node)) {
    largest = std::max(largest, element_count(function[id].type));
  }
  for (ValueId id : node.results) {
    largest = std::max(largest, element_count(function[id].type));
  }
  return largest;
}

}  // namespace

const std::vector<OpDef>& all_ops() {
  static const OpTable ops = make_table();
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const Lookup lookup = make_lookup(all_ops());
  auto found = lookup.find(name);
  return found == lookup.end() ? nullptr : found->second;
}

Rule rule_of(const Function& function, const Node& node) {
  const OpDef* def = find_op(node.op);
  if (def != nullptr && def->rule_of != nullptr) {
    return def->rule_of(function, node);
  }
  if (def != nullptr && !def->rule.empty()) {
    return rule_from_text(def->rule, function, node);
  }
  return whole_rule(function, node);
}

int64_t flops_of(const Function& function, const Node& node) {
  const OpDef* def = find_op(node.op);
  if (def != nullptr && def->flops != nullptr) {
    return def->flops(function, node);
  }
  if (def != nullptr &&
      (def->kind == OpKind::View || def->kind == OpKind::Empty)) {
    return 0;
  }
  return largest_count(function, node);
}

int64_t scratch_bytes_of(const Function& function, const Node& node) {
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->scratch_bytes != nullptr
             ? def->scratch_bytes(function, node)
             : 0;
}

bool is_view(const Node& node) {
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->kind == OpKind::View;
}

bool is_random(const Node& node) {
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->kind == OpKind::Random;
}

Linear linear_of(const Node& node) {
  const OpDef* def = find_op(node.op);
  if (def == nullptr) {
    return Linear::No;
  }
  if (def->kind == OpKind::View) {
    return Linear::All;
  }
  // x + 1 has a number in the place of a tensor: every rank would add it.
  if (def->linear == Linear::All && !def->rule.empty()) {
    const size_t terms = parse_rule_text(def->rule).operands.size();
    return operands(node).size() < terms ? Linear::No : Linear::All;
  }
  return def->linear;
}

}  // namespace weft
