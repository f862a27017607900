// SPDX-License-Identifier: Apache-2.0
// Ops whose results have sizes that the data decide. A Graph has one size for
// every value, so a step that uses them cannot be captured; these entries let
// the message say so. Where something is known of the data, one may have a
// size after all: then its entry has types.
#include "base/text.h"
#include "ops/bounds.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <optional>

namespace weft {
namespace {

// (values, weights, least size): as many as are asked for, where no value can
// be larger.
std::vector<TensorType> bincount_types(
    const Function& function, const Node& node) {
  const std::optional<int64_t> bound =
      upper_bound(function, value_arg(node, 0));
  const int64_t size = int_arg(node, 2, 0);
  if (!bound || *bound > size) {
    return {};
  }
  const Arg* weights = find_arg(node, 1);
  const bool in_f32 =
      weights != nullptr && type_arg(function, node, 1).dtype == DType::F32;
  return {make_type(
      weights == nullptr ? DType::I64
      : in_f32           ? DType::F32
                         : DType::F64,
      {size})};
}

// Counts add up.
Rule bincount_rule(const Function& function, const Node& node) {
  const std::string size = cat(
      "b=",
      node.results.empty() ? int_arg(node, 2, 0)
                           : function[node.results.front()].type.sizes.front(),
      "!");
  return rule_from_text(
      cat(find_arg(node, 1) == nullptr ? "v" : "v, v", " -> ", size),
      function,
      node);
}

}  // namespace

void add_data_dependent_ops(OpTable& ops) {
  add_ops(
      ops,
      {"aten.nonzero",
       "aten.masked_select",
       "aten._unique",
       "aten._unique2",
       "aten.unique_dim",
       "aten.unique_consecutive",
       "aten.unique_dim_consecutive",
       "aten.repeat_interleave.Tensor",
       "aten._pack_padded_sequence"},
      {.kind = OpKind::DataDependent});
  ops.push_back({
      .name = "aten.bincount",
      .rule_of = bincount_rule,
      .kind = OpKind::DataDependent,
      .types = bincount_types,
  });
}

}  // namespace weft
