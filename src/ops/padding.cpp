// SPDX-License-Identifier: Apache-2.0
// Borders added to some dims, which stay whole; the others may be split. `pad`
// has (before, after) for the last dim, then for the one before, ...
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/words.h"

#include <utility>

namespace weft {
namespace {

struct PadTerms {
  std::string from;
  std::string to;
};

PadTerms pad_terms(const Dims& sizes, const Dims& pad) {
  Words from = dim_words(sizes.size());
  Words to = from;
  for (size_t i = 0; 2 * i + 1 < pad.size(); ++i) {
    if (pad[2 * i] != 0 || pad[2 * i + 1] != 0) {
      size_t dim = from.size() - 1 - i;
      int64_t size = sizes[dim] + pad[2 * i] + pad[2 * i + 1];
      from[dim] = cat("from", dim, "!");
      to[dim] = cat("to", dim, "=", size, "!");
    }
  }
  return {term(from), term(to)};
}

Rule pad_rule(const Function& function, const Node& node) {
  PadTerms terms =
      pad_terms(type_arg(function, node, 0).sizes, dims_arg(node, 1));
  return rule_from_text(cat(terms.from, " -> ", terms.to), function, node);
}

// (grad, self, pad)
Rule pad_backward_rule(const Function& function, const Node& node) {
  PadTerms terms =
      pad_terms(type_arg(function, node, 1).sizes, dims_arg(node, 2));
  return rule_from_text(
      cat(terms.to, ", ", terms.from, " -> ", terms.from), function, node);
}

// Replicated borders: 4 and 5 dims keep the memory format.
std::vector<TensorType> pad_backward_types(
    const Function& function, const Node& node) {
  const TensorType& self = type_arg(function, node, 1);
  bool keeps = node.op == "aten.reflection_pad2d_backward" ||
               node.op == "aten.replication_pad2d_backward" ||
               node.op == "aten.replication_pad3d_backward" ||
               node.op == "aten.reflection_pad3d_backward";
  return {
      keeps ? in_format_of(self, self.dtype, self.sizes)
            : make_type(self.dtype, self.sizes)};
}

OpDef pad(
    std::string_view name,
    std::string_view backward,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = pad_rule,
      .linear = Linear::All,
      .backward = backward,
      .examples = std::move(examples),
  };
}

OpDef pad_backward(
    std::string_view name, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = pad_backward_rule,
      .linear = Linear::First,
      .types = pad_backward_types,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_padding_ops(OpTable& ops) {
  // Not linear where it pads with another number than 0.
  ops.push_back({
      .name = "aten.constant_pad_nd",
      .rule_of = pad_rule,
      .examples =
          {"(f32[8, 4], [1, 2])",
           "(f32[4, 8, 4], [0, 0, 1, 0], 0.5)",
           "(f32[8, 4], [-1, 1])",
           "(f32[4, 8, 4, 4]{128, 1, 32, 8}, [1, 1, 1, 1])"},
  });
  ops.push_back(
      pad("aten.reflection_pad1d",
          "aten.reflection_pad1d_backward",
          {"(f32[4, 8, 8], [2, 1])"}));
  ops.push_back(
      pad("aten.reflection_pad2d",
          "aten.reflection_pad2d_backward",
          {"(f32[4, 8, 8, 4], [2, 1, 0, 1])",
           "(f32[4, 8, 8, 4], [2, 1, 0, 0])",
           "(f32[4, 8, 8, 4]{256, 1, 32, 8}, [2, 1, 0, 1])"}));
  ops.back().types = [](const Function& function, const Node& node) {
    const TensorType& self = type_arg(function, node, 0);
    return std::vector<TensorType>{in_format_of(
        self, self.dtype, result_sizes(pad_rule(function, node), 0))};
  };
  ops.push_back(
      pad("aten.reflection_pad3d",
          "aten.reflection_pad3d_backward",
          {"(f32[4, 8, 4, 4, 4], [1, 1, 1, 1, 1, 1])"}));
  ops.push_back(
      pad("aten.replication_pad1d",
          "aten.replication_pad1d_backward",
          {"(f32[4, 8, 8], [2, 1])"}));
  ops.push_back(
      pad("aten.replication_pad2d",
          "aten.replication_pad2d_backward",
          {"(f32[4, 8, 8, 4], [2, 1, 0, 1])"}));
  ops.push_back(
      pad("aten.replication_pad3d",
          "aten.replication_pad3d_backward",
          {"(f32[4, 8, 4, 4, 4], [1, 1, 1, 1, 1, 1])"}));
  for (std::string_view name :
       {"aten.reflection_pad1d_backward", "aten.replication_pad1d_backward"}) {
    ops.push_back(
        pad_backward(name, {"(f32[4, 8, 11], f32[4, 8, 8], [2, 1])"}));
  }
  for (std::string_view name :
       {"aten.reflection_pad2d_backward", "aten.replication_pad2d_backward"}) {
    ops.push_back(pad_backward(
        name,
        {"(f32[4, 8, 9, 7], f32[4, 8, 8, 4], [2, 1, 0, 1])",
         "(f32[4, 8, 9, 7], f32[4, 8, 8, 4]{256, 1, 32, 8}, [2, 1, 0, 1])"}));
  }
  for (std::string_view name :
       {"aten.reflection_pad3d_backward", "aten.replication_pad3d_backward"}) {
    ops.push_back(pad_backward(
        name,
        {"(f32[4, 8, 6, 6, 6], f32[4, 8, 4, 4, 4], [1, 1, 1, 1, 1, 1])"}));
  }
}

}  // namespace weft
