// SPDX-License-Identifier: Apache-2.0
// Ops whose results lie in the storage of their operand.
#include "base/error.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/reshape.h"
#include "ops/sections.h"
#include "ops/view_types.h"
#include "ops/words.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {
namespace {

size_t ndim_of(const Function& function, const Node& node) {
  return operand_type(function, node, 0).sizes.size();
}

size_t dim_of(
    const Function& function,
    const Node& node,
    size_t position,
    int64_t fallback) {
  return static_cast<size_t>(
      wrap_dim(int_arg(node, position, fallback), ndim_of(function, node)));
}

Rule to_rule(
    const Function& function,
    const Node& node,
    const Words& from,
    const Words& to) {
  return rule_from_text(cat(term(from), " -> ", term(to)), function, node);
}

Rule view_rule(const Function& function, const Node& node) {
  const Dims& from = operand_type(function, node, 0).sizes;
  return reshape_rule(from, resolve_sizes(from, dims_arg(node, 1)));
}

// Bits read as another type: the last dim changes with the bytes an element.
Rule bits_rule(const Function& function, const Node& node) {
  const TensorType& from = operand_type(function, node, 0);
  DType to = std::get<DType>(node.args.at(1).data);
  bool same = element_bytes(from.dtype) == element_bytes(to);
  return rule_from_text(
      same ? "... -> ..." : "... from! -> ... to!", function, node);
}

Rule expand_rule(const Function& function, const Node& node) {
  Words to = dim_words(dims_arg(node, 1).size());
  auto ndim = static_cast<std::ptrdiff_t>(ndim_of(function, node));
  Words from(to.end() - ndim, to.end());
  // New dims have only the stated size.
  Dims sizes = dims_arg(node, 1);
  for (size_t i = 0; i < to.size(); ++i) {
    if (sizes[i] > 0) {
      to[i] += cat("=", sizes[i]);
    }
  }
  return to_rule(function, node, from, to);
}

Words permuted(const Words& from, const Dims& order) {
  Words to;
  for (int64_t dim : order) {
    to.push_back(from[static_cast<size_t>(wrap_dim(dim, from.size()))]);
  }
  return to;
}

Rule permute_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  return to_rule(function, node, from, permuted(from, dims_arg(node, 1)));
}

Rule transpose_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  Words to = from;
  if (!to.empty()) {
    std::swap(
        to[dim_of(function, node, 1, 0)], to[dim_of(function, node, 2, 0)]);
  }
  return to_rule(function, node, from, to);
}

Rule t_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  return to_rule(function, node, from, {from.rbegin(), from.rend()});
}

Rule unsqueeze_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  auto dim = wrap_dim(int_arg(node, 1, 0), from.size() + 1);
  Words to = from;
  to.insert(to.begin() + dim, "1");
  return to_rule(function, node, from, to);
}

// The dims of size 1 that squeeze drops: those it names, or all.
Dims squeezed_dims(const Function& function, const Node& node) {
  const Dims& sizes = operand_type(function, node, 0).sizes;
  Dims named = wrap_dims(
      dims_arg(node, 1),
      sizes.size(),
      /*empty_means_all=*/node.args.size() < 2);
  std::erase_if(named, [&](int64_t dim) {
    return sizes.empty() || sizes[static_cast<size_t>(dim)] != 1;
  });
  return named;
}

Rule squeeze_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  Dims dropped = squeezed_dims(function, node);
  Words to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::find(dropped.begin(), dropped.end(), static_cast<int64_t>(i)) ==
        dropped.end()) {
      to.push_back(from[i]);
    } else {
      from[i] = "1";
    }
  }
  return to_rule(function, node, from, to);
}

// A piece may have size 1 where the whole has not, and must keep that dim.
void localize_squeeze(
    const Function& function, Node& node, const std::vector<Piece>&) {
  Dims dropped = squeezed_dims(function, node);
  node.op = "aten.squeeze.dims";
  node.args.resize(1);
  node.args.push_back(to_arg(dropped));
}

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
  Words from = dim_words(sizes.size());
  Words to = from;
  bool side_by_side = size == step && sizes[dim] % step == 0;
  from[dim] = side_by_side ? cat("(window inside=", size, "!)") : "from!";
  to[dim] = side_by_side ? "window" : "window!";
  to.emplace_back("inside!");
  return to_rule(function, node, from, to);
}

OpDef view(
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

void add_shape_changes(OpTable& ops) {
  const std::vector<std::string_view> shapes = {
      "(f32[8, 12], [8, 4, 3])",
      "(f32[4, 8, 4], [-1, 4])",
      "(f32[4, 8, 4], [4, 4, 8])",
      "(f32[8, 1, 12], [24, 4])",
      "(f32[12, 8], [8, 12])",
      "(f32[4, 8, 4]{4, 16, 1}, [4, 2, 1, 4, 4])",
      "(f32[1], [])"};
  OpDef reshape = view("aten.view", view_rule, shapes);
  reshape.types = view_types;
  reshape.sizes_arg = 1;
  ops.push_back(reshape);
  // The result of _unsafe_view is a tensor of its own that nobody else sees; it
  // still lies in the operand's storage.
  reshape.name = "aten._unsafe_view";
  ops.push_back(reshape);
  // Only written by capture, for what a write through a view leaves behind:
  // there it never copies.
  reshape.name = "aten.reshape";
  ops.push_back(reshape);
  ops.push_back(view(
      "aten.view.dtype", bits_rule, {"(f32[8, 4], i32)", "(f32[8, 4], i16)"}));
  ops.back().linear = Linear::No;
  OpDef expand = view(
      "aten.expand",
      expand_rule,
      {"(f32[8, 1], [8, 4])",
       "(f32[4], [8, 4])",
       "(f32[4, 1, 8], [-1, 12, -1])",
       "(f32[8, 4], [8, 4])"});
  expand.sizes_arg = 1;
  ops.push_back(expand);
  for (std::string_view name :
       {"aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims"}) {
    OpDef squeeze = view(name, squeeze_rule, {});
    squeeze.localize = localize_squeeze;
    if (name == "aten.squeeze") {
      squeeze.examples = {"(f32[4, 1, 8, 1])", "(f32[4, 8])"};
    } else if (name == "aten.squeeze.dim") {
      squeeze.examples = {"(f32[4, 1, 8], 1)", "(f32[4, 8], 0)"};
    } else {
      squeeze.examples = {"(f32[4, 1, 8, 1], [1, -1])", "(f32[4, 8], [0])"};
    }
    ops.push_back(squeeze);
  }
  ops.push_back(view(
      "aten.unsqueeze",
      unsqueeze_rule,
      {"(f32[8, 4], 1)", "(f32[8, 4], -1)", "(f32[8, 4]{1, 8}, 1)"}));
  ops.back().types = unsqueeze_types;
}

void add_orders(OpTable& ops) {
  ops.push_back(view(
      "aten.permute",
      permute_rule,
      {"(f32[8, 4, 12], [2, 0, 1])", "(f32[8, 4], [-1, 0])"}));
  ops.back().types = permute_types;
  for (std::string_view name : {"aten.transpose.int", "aten.swapaxes"}) {
    ops.push_back(view(
        name,
        transpose_rule,
        {"(f32[8, 4, 12], 0, 2)", "(f32[8, 4, 12], -1, -2)"}));
    ops.back().types = transpose_types;
  }
  ops.push_back(view("aten.t", t_rule, {"(f32[8, 4])", "(f32[8])"}));
}

void add_parts(OpTable& ops) {
  ops.push_back(view(
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
  ops.push_back(view(
      "aten.narrow",
      narrow_rule,
      {"(f32[8, 4], 0, 3, 4)", "(f32[4, 12], 1, 4, 8)"}));
  ops.back().localize = localize_narrow;
  ops.push_back(view(
      "aten.select.int",
      select_rule,
      {"(f32[8, 4, 12], 1, 2)", "(f32[8, 4], 0, -1)"}));
  ops.push_back(view(
      "aten.split.Tensor",
      parts_rule,
      {"(f32[8, 4], 2)", "(f32[8, 12], 5, 1)", "(f32[4, 12], 8, 1)"}));
  ops.push_back(view(
      "aten.split_with_sizes",
      parts_rule,
      {"(f32[8, 12], [4, 6, 2], -1)", "(f32[4, 16], [4, 8, 4], 1)"}));
  ops.push_back(view("aten.chunk", parts_rule, {"(f32[8, 12], 3, 1)"}));
  // Views that autograd does not know as such.
  ops.push_back(
      view("aten.unsafe_split.Tensor", parts_rule, {"(f32[8, 4], 2)"}));
  ops.push_back(view(
      "aten.unsafe_split_with_sizes", parts_rule, {"(f32[8, 4], [2, 6])"}));
  for (size_t i = ops.size() - 5; i < ops.size(); ++i) {
    ops[i].localize = localize_parts;
  }
  ops.push_back(view("aten.unbind.int", unbind_rule, {"(f32[3, 8, 4])"}));
  ops.push_back(view(
      "aten.diagonal",
      diagonal_rule,
      {"(f32[8, 8])", "(f32[8, 4, 8], 1, 0, -1)"}));
  ops.push_back(view(
      "aten.unfold",
      unfold_rule,
      {"(f32[4, 12], 1, 4, 2)", "(f32[4, 12], 1, 3, 3)"}));
}

void add_same(OpTable& ops) {
  for (std::string_view name :
       {"aten.alias", "aten.detach", "aten.lift_fresh", "aten._neg_view"}) {
    ops.push_back({
        .name = name,
        .rule = "... -> ...",
        .kind = OpKind::View,
        .linear = Linear::All,
        .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"},
    });
  }
  ops.push_back({
      .name = "aten._conj",
      .rule = "... -> ...",
      .kind = OpKind::View,
      .linear = Linear::All,
      .examples = {"(c64[8, 4])"},
  });
  ops.push_back({
      .name = "aten.view_as_real",
      .rule = "... -> ... part!",
      .kind = OpKind::View,
      .linear = Linear::All,
      .examples = {"(c64[8, 4])"},
  });
  ops.push_back({
      .name = "aten.view_as_complex",
      .rule = "... part! -> ...",
      .kind = OpKind::View,
      .linear = Linear::All,
      .examples = {"(f32[8, 4, 2])"},
  });
  // Speaks of the storage: nothing can be said about its dims.
  ops.push_back({
      .name = "aten.as_strided",
      .kind = OpKind::View,
      .linear = Linear::All,
      .examples = {"(f32[8, 4], [4, 4], [8, 1], 4)"},
  });
}

}  // namespace

void add_view_ops(OpTable& ops) {
  add_shape_changes(ops);
  add_orders(ops);
  add_parts(ops);
  add_same(ops);
}

}  // namespace weft
