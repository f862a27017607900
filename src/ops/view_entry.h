// SPDX-License-Identifier: Apache-2.0
// What the entries of views have in common.
#pragma once

#include "ops/call.h"
#include "ops/op_def.h"
#include "ops/words.h"

#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// Of operand 0.
inline size_t ndim_of(const Function& function, const Node& node) {
  return operand_type(function, node, 0).sizes.size();
}

// The dim at an argument.
inline size_t dim_of(
    const Function& function,
    const Node& node,
    size_t position,
    int64_t fallback) {
  return static_cast<size_t>(
      wrap_dim(int_arg(node, position, fallback), ndim_of(function, node)));
}

inline Rule to_rule(
    const Function& function,
    const Node& node,
    const Words& from,
    const Words& to) {
  return rule_from_text(cat(term(from), " -> ", term(to)), function, node);
}

inline OpDef view_entry(
    std::string_view name,
    RuleFunction rule_of,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = std::move(rule_of),
      .kind = OpKind::View,
      .linear = Linear::All,
      .examples = std::move(examples),
  };
}

}  // namespace weft
