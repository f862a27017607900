// SPDX-License-Identifier: Apache-2.0
// Ops that put tensors together or elements elsewhere: cat, stack, repeat,
// roll, flip, triangles, shuffles.
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/sections.h"
#include "ops/words.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

// Tensors laid one after another along a dim, which can be split inside the
// sections of equal size that they have.
Rule cat_rule(const Function& function, const Node& node) {
  std::vector<ValueId> ids = operands(node);
  size_t ndim = 0;
  for (ValueId id : ids) {
    ndim = std::max(ndim, function[id].type.sizes.size());
  }
  auto dim = static_cast<size_t>(wrap_dim(int_arg(node, 1, 0), ndim));
  // Empty tensors of one dim are passed over, whatever the others are.
  auto is_skipped = [&](ValueId id) {
    return function[id].type.sizes == Dims{0} && ndim != 1;
  };
  Dims sizes;
  for (ValueId id : ids) {
    sizes.push_back(is_skipped(id) ? 0 : function[id].type.sizes[dim]);
  }
  int64_t section = section_size(sizes);
  Words result = dim_words(ndim);
  std::string inside = result[dim];
  Words terms;
  for (size_t i = 0; i < ids.size(); ++i) {
    Words words = dim_words(ndim);
    words[dim] = section_word(cat("part", i), sizes[i], section, inside);
    terms.push_back(is_skipped(ids[i]) ? "_" : term(words));
  }
  int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  result[dim] = section_word("all", total, section, inside);
  return rule_from_text(
      cat(join(terms, ", "), " -> ", term(result)), function, node);
}

Rule stack_rule(const Function& function, const Node& node) {
  std::vector<ValueId> ids = operands(node);
  Words words = dim_words(operand_type(function, node, 0).sizes.size());
  auto dim = wrap_dim(int_arg(node, 1, 0), words.size() + 1);
  Words result = words;
  result.insert(result.begin() + dim, cat("all=", ids.size(), "!"));
  return rule_from_text(
      cat(join(Words(ids.size(), term(words)), ", "), " -> ", term(result)),
      function,
      node);
}

// Every dim of the result is its repeats times the operand's dim.
Rule repeat_rule(const Function& function, const Node& node) {
  Dims repeats = dims_arg(node, 1);
  size_t ndim = operand_type(function, node, 0).sizes.size();
  Words result;
  for (size_t i = 0; i < repeats.size(); ++i) {
    size_t added = repeats.size() - ndim;
    std::string count = cat("repeat", i, "=", repeats[i]);
    result.push_back(i < added ? count : cat("(", count, " d", i - added, ")"));
  }
  return rule_from_text(
      cat(term(dim_words(ndim)), " -> ", term(result)), function, node);
}

void localize_repeat(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  Rule rule = repeat_rule(function, node);
  Dims repeats = dims_arg(node, 1);
  for (size_t i = 0; i < repeats.size(); ++i) {
    int factor = find_factor(rule, cat("repeat", i));
    repeats[i] = pieces[static_cast<size_t>(factor)].size;
  }
  set_arg(node, 1, to_arg(repeats));
}

// Elements move along the dims named by an argument; none named: along all.
RuleFunction moves_along(size_t dims_at, bool empty_means_all) {
  return [=](const Function& function, const Node& node) {
    Words words = dim_words(operand_type(function, node, 0).sizes.size());
    for (int64_t dim :
         wrap_dims(dims_arg(node, dims_at), words.size(), empty_means_all)) {
      words[static_cast<size_t>(dim)] += "!";
    }
    return rule_from_text(
        cat(term(words), " -> ", term(words)), function, node);
  };
}

// Row r and column c of a piece are r + its first row and c + its first column
// of the whole.
void localize_triangle(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  Rule rule = rule_of(function, node);
  const Piece& rows = pieces[static_cast<size_t>(find_factor(rule, "row"))];
  const Piece& columns =
      pieces[static_cast<size_t>(find_factor(rule, "column"))];
  set_arg(node, 1, {int_arg(node, 1, 0) + rows.start - columns.start});
}

// Copied into a new tensor of the same memory format.
std::vector<TensorType> roll_types(const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  return {in_format_of(self, self.dtype, self.sizes)};
}

Rule diag_embed_rule(const Function& function, const Node& node) {
  size_t ndim = operand_type(function, node, 0).sizes.size();
  int64_t offset = int_arg(node, 1, 0);
  auto dim1 = wrap_dim(int_arg(node, 2, -2), ndim + 1);
  auto dim2 = wrap_dim(int_arg(node, 3, -1), ndim + 1);
  int64_t size =
      operand_type(function, node, 0).sizes.back() + std::abs(offset);
  Words from = dim_words(ndim);
  Words to(from.begin(), from.end() - 1);
  from.back() = "diagonal!";
  to.insert(to.begin() + std::min(dim1, dim2), cat("row=", size, "!"));
  to.insert(to.begin() + std::max(dim1, dim2), cat("column=", size, "!"));
  return rule_from_text(cat(term(from), " -> ", term(to)), function, node);
}

// Channels and the pixels of a block change places; c = channels kept.
Rule shuffle_rule(const Function& function, const Node& node) {
  int64_t block = int_arg(node, 1, 1);
  bool up = node.op == "aten.pixel_shuffle";
  std::string fine = "... c (h i) (w j)";
  std::string coarse = cat("... (c i=", block, "! j=", block, "!) h w");
  return rule_from_text(
      up ? cat(coarse, " -> ", fine) : cat(fine, " -> ", coarse),
      function,
      node);
}

Rule channel_shuffle_rule(const Function& function, const Node& node) {
  int64_t groups = int_arg(node, 1, 1);
  return rule_from_text(
      cat("n (g=", groups, "! c!) ... -> n (c g) ..."), function, node);
}

// Of row-major operands of one type; others are left to PyTorch.
std::vector<TensorType> cat_types(const Function& function, const Node& node) {
  const std::vector<ValueId> parts = operands(node);
  TensorType type = function[parts.front()].type;
  const size_t ndim = type.sizes.size();
  if (ndim == 0) {
    return {};
  }
  const size_t dim = static_cast<size_t>(wrap_dim(int_arg(node, 1, 0), ndim));
  type.sizes[dim] = 0;
  for (const ValueId part : parts) {
    const TensorType& other = function[part].type;
    if (!other.strides.empty() || other.dtype != type.dtype ||
        other.sizes.size() != ndim) {
      return {};
    }
    type.sizes[dim] += other.sizes[dim];
  }
  return {type};
}

}  // namespace

void add_join_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.cat",
      .rule_of = cat_rule,
      .linear = Linear::All,
      .types = cat_types,
      .examples =
          {"([f32[8, 4], f32[8, 12]], 1)",
           "([f32[4, 8], f32[2, 8], f32[4, 8]])",
           "([f32[4, 8], f32[4, 4]], 1)",
           "([f32[0], f32[8, 4]], -1)",
           "([f32[8, 4]{1, 8}, f32[8, 4]{1, 8}], 1)"},
  });
  ops.push_back({
      .name = "aten.stack",
      .rule_of = stack_rule,
      .linear = Linear::All,
      .examples = {"([f32[8, 4], f32[8, 4]])", "([f32[8, 4], f32[8, 4]], -1)"},
  });
  ops.push_back({
      .name = "aten.repeat",
      .rule_of = repeat_rule,
      .linear = Linear::All,
      .localize = localize_repeat,
      .examples = {"(f32[8, 4], [4, 1])", "(f32[8], [4, 2])"},
  });
  ops.push_back({
      .name = "aten.roll",
      .rule_of = moves_along(2, true),
      .linear = Linear::All,
      .types = roll_types,
      .examples =
          {"(f32[8, 4], [3], [1])",
           "(f32[8, 4], [3])",
           "(f32[8, 4]{1, 8}, [1], [0])",
           "(f32[4, 8, 4, 4]{128, 1, 32, 8}, [1], [2])",
           "(f32[4, 8, 4, 4]{128, 1, 32, 8}, [1, 2], [2, 3])"},
  });
  ops.push_back({
      .name = "aten.flip",
      .rule_of = moves_along(1, false),
      .linear = Linear::All,
      .types =
          [](const Function& function, const Node& node) {
            return std::vector<TensorType>{
                like(operand_type(function, node, 0))};
          },
      .examples = {"(f32[8, 4], [1])", "(f32[8, 4]{1, 8}, [0, -1])"},
  });
  add_ops(
      ops,
      {"aten.tril", "aten.triu"},
      {
          .rule = "... row column -> ... row column",
          .linear = Linear::All,
          .localize = localize_triangle,
          .examples = {"(f32[8, 8])", "(f32[4, 8, 12], 2)", "(bool[8, 8], -1)"},
      });
  ops.push_back({
      .name = "aten.diag_embed",
      .rule_of = diag_embed_rule,
      .linear = Linear::All,
      .examples = {"(f32[8, 4])", "(f32[8, 4], 1, 0, 2)"},
  });
  ops.push_back({
      .name = "aten.pixel_shuffle",
      .rule_of = shuffle_rule,
      .linear = Linear::All,
      .examples = {"(f32[4, 16, 4, 8], 2)"},
  });
  ops.push_back({
      .name = "aten.pixel_unshuffle",
      .rule_of = shuffle_rule,
      .linear = Linear::All,
      .examples = {"(f32[4, 4, 8, 16], 2)"},
  });
  ops.push_back({
      .name = "aten.channel_shuffle",
      .rule_of = channel_shuffle_rule,
      .linear = Linear::All,
      .types = roll_types,
      .examples =
          {"(f32[4, 8, 4, 4], 2)", "(f32[4, 8, 4, 4]{128, 1, 32, 8}, 2)"},
  });
}

}  // namespace weft
