// SPDX-License-Identifier: Apache-2.0
#include "ops/bounds.h"

#include "ops/call.h"
#include "ops/op_def.h"

#include <algorithm>
#include <string_view>

namespace weft {
namespace {

// Of the dim in which an op finds positions, by where the dim stands among its
// arguments.
struct Finder {
  std::string_view op;
  // Which result has the positions.
  int32_t result;
  // -1: the option `dim`.
  int dim_arg;
};

constexpr Finder kFinders[] = {
    {"aten.topk", 1, 2},
    {"aten.sort", 1, 1},
    {"aten.sort.stable", 1, -1},
    {"aten.max.dim", 1, 1},
    {"aten.min.dim", 1, 1},
    {"aten.argmax", 0, 1},
    {"aten.argmin", 0, 1},
};

std::optional<int64_t> positions_found(
    const Function& function, const Node& node, int32_t result) {
  const auto* finder = std::find_if(
      std::begin(kFinders), std::end(kFinders), [&](const Finder& one) {
        return one.op == node.op && one.result == result;
      });
  if (finder == std::end(kFinders)) {
    return std::nullopt;
  }
  const TensorType& from = type_arg(function, node, 0);
  const bool is_flat =
      finder->result == 0 && find_arg(node, 1) == nullptr;  // argmax of all
  if (is_flat || from.sizes.empty()) {
    return element_count(from);
  }
  const int64_t dim =
      finder->dim_arg < 0
          ? int_option(node, "dim", -1)
          : int_arg(node, static_cast<size_t>(finder->dim_arg), -1);
  return from.sizes[static_cast<size_t>(wrap_dim(dim, from.sizes.size()))];
}

bool keeps_elements(const Node& node) {
  return is_view(node) || node.op == "aten.clone" ||
         node.op == "aten._to_copy" || node.op == "aten._unsafe_view";
}

}  // namespace

std::optional<int64_t> upper_bound(const Function& function, ValueId value) {
  while (function[value].node != NodeId::None) {
    const DType dtype = function[value].type.dtype;
    const Node& node = function.nodes[index(function[value].node)];
    if (is_floating(dtype) || is_complex(dtype)) {
      return std::nullopt;
    }
    if (const auto found =
            positions_found(function, node, function[value].result)) {
      return found;
    }
    const std::vector<ValueId> read = operands(node);
    if (!keeps_elements(node) || read.size() != 1) {
      return std::nullopt;
    }
    value = read.front();
  }
  return std::nullopt;
}

std::optional<bool> decided_comparison(
    const Function& function, ValueId value) {
  if (function[value].node == NodeId::None) {
    return std::nullopt;
  }
  const Node& comparison = function.nodes[index(function[value].node)];
  const bool is_below = comparison.op == "aten.lt.Scalar";
  const bool is_above = comparison.op == "aten.ge.Scalar";
  if (!is_below && !is_above) {
    return std::nullopt;
  }
  const ValueId drawn = value_arg(comparison, 0);
  if (function[drawn].node == NodeId::None ||
      function.nodes[index(function[drawn].node)].op != "aten.rand") {
    return std::nullopt;
  }
  const double limit = number_arg(comparison, 1, 0.5);
  if (!(limit <= 0 || limit >= 1)) {
    return std::nullopt;
  }
  return is_below == (limit >= 1);
}

}  // namespace weft
