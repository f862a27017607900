// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/op_def.h"
#include "ops/rule_text.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

OpTable make_table() {
  OpTable ops;
  for (const OpFamily& family : op_families()) {
    family.add(ops);
  }
  return ops;
}

using OpsByName = std::unordered_map<std::string_view, const OpDef*>;

OpsByName make_lookup(const OpTable& ops) {
  OpsByName lookup;
  for (const OpDef& def : ops) {
    bool added = lookup.emplace(def.name, &def).second;
    WEFT_CHECK(added, "two entries for ", def.name);
  }
  return lookup;
}

struct FusedOp {
  std::string_view name;
  const Fusion* fusion = nullptr;
};

using FusionsByPair =
    std::map<std::pair<std::string_view, std::string_view>, FusedOp>;

FusionsByPair make_fusions(const OpTable& ops) {
  FusionsByPair fusions;
  for (const OpDef& def : ops) {
    for (const Fusion& each : def.fusions) {
      bool added =
          fusions
              .emplace(
                  std::pair(each.first, each.second), FusedOp{def.name, &each})
              .second;
      WEFT_CHECK(added, "two fusions of ", each.first, " and ", each.second);
    }
  }
  return fusions;
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

const std::vector<OpFamily>& op_families() {
  static const std::vector<OpFamily> families = {
      {"Products of matrices", add_matmul_ops},
      {"Pointwise", add_pointwise_ops},
      {"Activations", add_activation_ops},
      {"Reductions", add_reduction_ops},
      {"Views", add_view_ops},
      {"Views of a part", add_view_part_ops},
      {"Gradients of views", add_view_backward_ops},
      {"Views by places in memory", add_strided_ops},
      {"Joining and moving", add_join_ops},
      {"Padding", add_padding_ops},
      {"Creation", add_creation_ops},
      {"Random numbers", add_random_ops},
      {"Sampling", add_sampling_ops},
      {"Linear algebra", add_linalg_ops},
      {"Fourier transforms", add_fft_ops},
      {"Shapes that depend on data", add_data_dependent_ops},
      {"Convolution", add_convolution_ops},
      {"Pooling", add_pooling_ops},
      {"Adaptive pooling", add_adaptive_pooling_ops},
      {"Resizing", add_upsample_ops},
      {"Normalisation", add_norm_ops},
      {"Normalisation over channels", add_batch_norm_ops},
      {"Batch norm over ranks", add_global_batch_norm_ops},
      {"Softmax", add_softmax_ops},
      {"Negative log likelihood", add_nll_loss_ops},
      {"Elementwise losses", add_loss_ops},
      {"CTC loss", add_ctc_ops},
      {"Embeddings", add_embedding_ops},
      {"Indexing", add_index_ops},
      {"Gather and scatter", add_scatter_ops},
      {"Order and running totals", add_sort_ops},
      {"Rows by expert", add_expert_rows_ops},
      {"Attention", add_attention_ops},
      {"Attention on GPUs", add_gpu_attention_ops},
      {"Recurrent layers", add_recurrent_ops},
      {"Two calls as one", add_fused_ops},
      {"Optimizer steps", add_optimizer_ops},
      {"Guards", add_guard_ops},
      {"Between stages", add_crossing_ops}};
  return families;
}

const std::vector<OpDef>& all_ops() {
  static const OpTable ops = make_table();
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const OpsByName lookup = make_lookup(all_ops());
  auto found = lookup.find(name);
  return found == lookup.end() ? nullptr : found->second;
}

std::vector<TensorType> types_of(const Function& function, Node node) {
  const OpDef* def = find_op(node.op);
  if (def == nullptr || def->types == nullptr) {
    return {};
  }
  node.results.clear();
  return def->types(function, node);
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

int64_t hidden_flops_of(const Function& function, const Node& node) {
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->hidden_flops != nullptr
             ? def->hidden_flops(function, node)
             : 0;
}

Special special_of(const Node& node) {
  const OpDef* def = find_op(node.op);
  if (def == nullptr) {
    return Special::None;
  }
  return def->special_of ? def->special_of(node) : def->special;
}

int64_t scratch_bytes_of(const Function& function, const Node& node) {
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->scratch_bytes != nullptr
             ? def->scratch_bytes(function, node)
             : 0;
}

int64_t work_bytes_of(const Function& function, const Node& node) {
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->work_bytes != nullptr
             ? def->work_bytes(function, node)
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
  // A conversion to integers rounds.
  if (std::optional<DType> dtype = dtype_option(node, "dtype")) {
    if (!is_floating(*dtype) && !is_complex(*dtype)) {
      return Linear::No;
    }
  }
  // x + 1 has a number in the place of a tensor: every rank would add it.
  if (def->linear == Linear::All && !def->rule.empty()) {
    const size_t terms = parse_rule_text(def->rule).operands.size();
    return operands(node).size() < terms ? Linear::No : Linear::All;
  }
  return def->linear;
}

std::optional<Node> fused(
    const Function& function,
    const Node& first,
    const Node& second,
    Bits bits) {
  static const FusionsByPair fusions = make_fusions(all_ops());
  const auto found = fusions.find({first.op, second.op});
  if (found == fusions.end() ||
      (bits == Bits::Same && !found->second.fusion->same_bits)) {
    return std::nullopt;
  }
  std::optional<std::vector<Arg>> args =
      found->second.fusion->join(function, first, second);
  if (!args) {
    return std::nullopt;
  }
  Node node;
  node.op = found->second.name;
  node.args = std::move(*args);
  node.results = second.results;
  node.phase = second.phase;
  return node;
}

}  // namespace weft
