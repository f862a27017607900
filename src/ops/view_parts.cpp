// SPDX-License-Identifier: Apache-2.0
// Views of some of their operand: slices, parts, diagonals, windows.
#include "base/error.h"
#include "ops/families.h"
#include "ops/sections.h"
#include "ops/view_entry.h"
#include "ops/view_types.h"

#include <optional>

namespace weft {
namespace {

// Part of a dim. A piece takes all of itself as the start of 0 and any end that
// is large enough say.
Rule part_rule(const Function& function, const Node& node, const Slice& slice) {
  const Dims& sizes = operand_type(function, node, 0).sizes;
  size_t dim = dim_of(function, node, 1, 0);
  Words from = dim_words(sizes.size());
  Words to = from;
  SliceWords words = slice_words(slice, sizes[dim], from[dim]);
  from[dim] = words.whole;
  to[dim] = words.part;
  return to_rule(function, node, from, to);
}

Rule slice_rule(const Function& function, const Node& node) {
  const Dims& sizes = operand_type(function, node, 0).sizes;
  size_t dim = dim_of(function, node, 1, 0);
  return part_rule(function, node, read_slice(node, 2, sizes[dim]));
}

// The piece of the factor inside the sections of a dim; none where it has no
// such factor.
std::optional<Piece> piece_inside(
    const Function& function,
    const Node& node,
    size_t dim,
    const std::vector<Piece>& pieces) {
  int factor = find_factor(rule_of(function, node), cat("d", dim));
  if (factor < 0) {
    return std::nullopt;
  }
  return pieces[static_cast<size_t>(factor)];
}

void localize_slice_view(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  size_t dim = dim_of(function, node, 1, 0);
  if (auto inside = piece_inside(function, node, dim, pieces)) {
    int64_t size = operand_type(function, node, 0).sizes[dim];
    localize_slice(node, 2, size, *inside);
  }
}

// (self, dim, start, length)
Rule narrow_rule(const Function& function, const Node& node) {
  const Dims& sizes = operand_type(function, node, 0).sizes;
  int64_t size = sizes[dim_of(function, node, 1, 0)];
  int64_t start = int_arg(node, 2, 0);
  Slice slice = {start < 0 ? start + size : start, int_arg(node, 3, 0), 1};
  return part_rule(function, node, slice);
}

void localize_narrow(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  size_t dim = dim_of(function, node, 1, 0);
  auto inside = piece_inside(function, node, dim, pieces);
  if (inside && inside->size != inside->whole) {
    set_arg(node, 2, {int_arg(node, 2, 0) / inside->whole * inside->size});
    set_arg(node, 3, {int_arg(node, 3, 0) / inside->whole * inside->size});
  }
}

Rule select_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  size_t dim = dim_of(function, node, 1, 0);
  Words to = from;
  to.erase(to.begin() + static_cast<std::ptrdiff_t>(dim));
  from[dim] += "!";
  return to_rule(function, node, from, to);
}

// Several results, each one index of a dim.
Rule unbind_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  size_t dim = dim_of(function, node, 1, 0);
  Words to = from;
  to.erase(to.begin() + static_cast<std::ptrdiff_t>(dim));
  from[dim] += "!";
  Words results(node.results.size(), term(to));
  return rule_from_text(
      cat(term(from), " -> ", join(results, ", ")), function, node);
}

// Several results, each with a part of one dim: (self, ..., dim)
Rule parts_rule(const Function& function, const Node& node) {
  const Dims& sizes = operand_type(function, node, 0).sizes;
  size_t dim = dim_of(function, node, 2, 0);
  Dims parts;
  for (ValueId result : node.results) {
    parts.push_back(function[result].type.sizes[dim]);
  }
  int64_t section = section_size(parts);
  Words from = dim_words(sizes.size());
  Words results;
  for (size_t i = 0; i < parts.size(); ++i) {
    Words to = from;
    to[dim] = section_word(cat("part", i), parts[i], section, from[dim]);
    results.push_back(term(to));
  }
  from[dim] = section_word("whole", sizes[dim], section, from[dim]);
  return rule_from_text(
      cat(term(from), " -> ", join(results, ", ")), function, node);
}

// Says the local sizes, and all of them where a count of parts might cut
// otherwise.
void localize_parts(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  size_t dim = dim_of(function, node, 2, 0);
  auto inside = piece_inside(function, node, dim, pieces);
  if (!inside || inside->size == inside->whole) {
    return;
  }
  Dims sizes;
  for (ValueId result : node.results) {
    int64_t size = function[result].type.sizes[dim];
    sizes.push_back(size / inside->whole * inside->size);
  }
  if (node.op == "aten.chunk") {
    node.op = "aten.split_with_sizes";
  }
  bool lists = node.op.ends_with("split_with_sizes");
  set_arg(node, 1, lists ? to_arg(sizes) : Arg{sizes.front()});
}

Rule diagonal_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  size_t dim1 = dim_of(function, node, 2, 0);
  size_t dim2 = dim_of(function, node, 3, 1);
  Words to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i == dim1 || i == dim2) {
      from[i] += "!";
    } else {
      to.push_back(from[i]);
    }
  }
  to.emplace_back("diagonal!");
  return to_rule(function, node, from, to);
}

// Windows over a dim. Windows side by side can be split between them.
Rule unfold_rule(const Function& function, const Node& node) {
  const Dims& sizes = operand_type(function, node, 0).sizes;
  size_t dim = dim_of(function, node, 1, 0);
  int64_t size = int_arg(node, 2, 1);
  int64_t step = int_arg(node, 3, 1);
  WEFT_CHECK(step > 0, "a step is ", step);
  Words from = dim_words(sizes.size());
  Words to = from;
  bool side_by_side = size == step && sizes[dim] % step == 0;
  from[dim] = side_by_side ? cat("(window inside=", size, "!)") : "from!";
  to[dim] = side_by_side ? "window" : "window!";
  to.emplace_back("inside!");
  return to_rule(function, node, from, to);
}

}  // namespace

void add_view_part_ops(OpTable& ops) {
  ops.push_back(view_entry(
      "aten.slice.Tensor",
      slice_rule,
      {"(f32[8, 4], 0, 2, 6)",
       "(f32[8, 4], 1, -3, -1)",
       "(f32[8, 4], 0, 0, 9223372036854775807)",
       "(f32[8, 4], 0, 1, 7, 2)",
       "(f32[4, 12], 1, 4, 8)",
       "(f32[4, 12], 1, 8)",
       "(f32[4, 12], -1, -8, 12)",
       "(f32[4, 8], 1, 1, 8, 2)",
       "(f32[4, 8], 1, -7, 8, 2)",
       "(f32[8, 4])"}));
  ops.back().localize = localize_slice_view;
  ops.back().types = slice_types;
  ops.push_back(view_entry(
      "aten.narrow",
      narrow_rule,
      {"(f32[8, 4], 0, 3, 4)", "(f32[4, 12], 1, 4, 8)"}));
  ops.back().localize = localize_narrow;
  ops.back().types = narrow_types;
  ops.push_back(view_entry(
      "aten.select.int",
      select_rule,
      {"(f32[8, 4, 12], 1, 2)", "(f32[8, 4], 0, -1)"}));
  ops.back().types = select_types;
  ops.push_back(view_entry(
      "aten.split.Tensor",
      parts_rule,
      {"(f32[8, 4], 2)", "(f32[8, 12], 5, 1)", "(f32[4, 12], 8, 1)"}));
  ops.push_back(view_entry(
      "aten.split_with_sizes",
      parts_rule,
      {"(f32[8, 12], [4, 6, 2], -1)", "(f32[4, 16], [4, 8, 4], 1)"}));
  ops.push_back(view_entry("aten.chunk", parts_rule, {"(f32[8, 12], 3, 1)"}));
  // Views that autograd does not know as such.
  ops.push_back(
      view_entry("aten.unsafe_split.Tensor", parts_rule, {"(f32[8, 4], 2)"}));
  ops.push_back(view_entry(
      "aten.unsafe_split_with_sizes", parts_rule, {"(f32[8, 4], [2, 6])"}));
  for (size_t i = ops.size() - 5; i < ops.size(); ++i) {
    ops[i].localize = localize_parts;
    ops[i].types = split_types;
  }
  ops.push_back(view_entry("aten.unbind.int", unbind_rule, {"(f32[3, 8, 4])"}));
  ops.back().types = unbind_types;
  ops.push_back(view_entry(
      "aten.diagonal",
      diagonal_rule,
      {"(f32[8, 8])",
       "(f32[8, 4, 8], 1, 0, -1)",
       "(f32[4, 8, 8]{8, 32, 1}, -2, 1, 2)"}));
  ops.back().types = diagonal_types;
  ops.push_back(view_entry(
      "aten.unfold",
      unfold_rule,
      {"(f32[4, 12], 1, 4, 2)", "(f32[4, 12], 1, 3, 3)"}));
  ops.back().types = unfold_types;
}

}  // namespace weft
