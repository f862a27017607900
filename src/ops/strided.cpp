// SPDX-License-Identifier: Apache-2.0
// Views that are given by places in memory (as_strided), and writes through
// them. Which elements they touch follows from how the operand lies, so it must
// lie as it was recorded.
//
// What can be split are blocks: where the operand's outer dims in memory and
// those of the view step over the same blocks, and everything else stays inside
// one block, the outer dims line up as in a change of shape.
#include "ops/strided.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/reshape.h"
#include "ops/split.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace weft {
namespace {

// What a node says of its view; `at` is where its sizes stand.
struct MemoryView {
  Dims sizes;
  Dims strides;
  int64_t offset = 0;
};

MemoryView read_memory_view(const Node& node, size_t at) {
  MemoryView view = {
      dims_arg(node, at), dims_arg(node, at + 1), int_arg(node, at + 2, 0)};
  WEFT_CHECK(
      view.sizes.size() == view.strides.size(),
      "there are ",
      view.sizes.size(),
      " sizes and ",
      view.strides.size(),
      " strides");
  return view;
}

// The dims with steps of at least `block` elements, the outermost first.
std::vector<size_t> outer_dims(
    const Dims& sizes, const Dims& strides, int64_t block) {
  std::vector<size_t> out;
  for (const size_t dim : memory_order(strides)) {
    if (sizes[dim] > 1 && strides[dim] >= block) {
      out.push_back(dim);
    }
  }
  return out;
}

Dims pick(const Dims& from, const std::vector<size_t>& dims) {
  Dims out;
  for (const size_t dim : dims) {
    out.push_back(from[dim]);
  }
  return out;
}

// How many blocks the dims step over; 0 where they leave some out or come to
// one twice.
int64_t blocks_of(
    const Dims& sizes,
    const Dims& strides,
    const std::vector<size_t>& outer,
    int64_t block) {
  int64_t count = 1;
  for (size_t i = outer.size(); i-- > 0;) {
    const auto whole = checked_product({count, sizes[outer[i]]});
    if (!whole || checked_product({count, block}) != strides[outer[i]]) {
      return 0;
    }
    count = *whole;
  }
  return count;
}

// Whether the inner dims stay inside of the block that they begin in.
bool stays_inside(const MemoryView& view, int64_t block) {
  int64_t last = view.offset;
  for (size_t dim = 0; dim < view.sizes.size(); ++dim) {
    if (view.strides[dim] < block) {
      const auto far =
          checked_product({view.sizes[dim] - 1, view.strides[dim]});
      if (!far || __builtin_add_overflow(last, *far, &last)) {
        return false;
      }
    }
  }
  return last < block;
}

// Elements of the smallest blocks that the view and its operand share; 0: there
// are none.
int64_t block_of(const TensorType& operand, const MemoryView& view) {
  const bool is_empty =
      element_count(operand) == 0 ||
      std::any_of(view.sizes.begin(), view.sizes.end(), [](int64_t size) {
        return size == 0;
      });
  if (is_empty || !is_dense(operand) || view.offset < 0) {
    return 0;
  }
  const Dims strides = strides_of(operand);
  Dims blocks = {1};
  for (const size_t dim : outer_dims(operand.sizes, strides, 1)) {
    blocks.push_back(strides[dim]);
  }
  std::sort(blocks.begin(), blocks.end());
  for (const int64_t block : blocks) {
    const int64_t count = blocks_of(
        view.sizes,
        view.strides,
        outer_dims(view.sizes, view.strides, block),
        block);
    if (count > 0 &&
        checked_product({count, block}) == element_count(operand) &&
        stays_inside(view, block)) {
      return block;
    }
  }
  return 0;
}

// The factors of all dims: those of the outer ones as they line up, and one for
// each inner dim, which must be whole.
std::vector<DimFactors> place_factors(
    Rule& rule,
    const Dims& sizes,
    const std::vector<size_t>& outer,
    const std::vector<DimFactors>& of_outer) {
  std::vector<DimFactors> out(sizes.size());
  for (size_t i = 0; i < outer.size(); ++i) {
    out[outer[i]] = of_outer[i];
  }
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (out[dim].empty() && sizes[dim] > 1) {
      const auto factor = static_cast<int>(rule.factors.size());
      rule.factors.push_back(
          {.name = cat("w", factor),
           .size = sizes[dim],
           .kind = FactorKind::Whole});
      out[dim] = {factor};
    }
  }
  return out;
}

// One operand, and the view of it as the result.
Rule strided_rule(const TensorType& operand, const MemoryView& view) {
  const int64_t block = block_of(operand, view);
  const std::vector<size_t> from =
      block == 0 ? std::vector<size_t>()
                 : outer_dims(operand.sizes, strides_of(operand), block);
  const std::vector<size_t> to =
      block == 0 ? std::vector<size_t>()
                 : outer_dims(view.sizes, view.strides, block);
  Rule rule = reshape_rule(pick(operand.sizes, from), pick(view.sizes, to));
  rule.operands = {
      place_factors(rule, operand.sizes, from, rule.operands.front())};
  rule.results = {place_factors(rule, view.sizes, to, rule.results.front())};
  return rule;
}

Rule as_strided_rule(const Function& function, const Node& node) {
  return strided_rule(
      operand_type(function, node, 0), read_memory_view(node, 1));
}

// (whole, part, sizes, strides, offset) -> whole
Rule as_strided_scatter_rule(const Function& function, const Node& node) {
  Rule rule =
      strided_rule(operand_type(function, node, 0), read_memory_view(node, 2));
  rule.operands.push_back(std::move(rule.results.front()));
  rule.results = {rule.operands.front()};
  return rule;
}

// Fewer blocks: the inner dims stay as they are.
LocalizeFunction localize_strided(size_t at) {
  return [at](
             const Function& function,
             Node& node,
             const std::vector<Piece>& pieces) {
    const TensorType& operand = operand_type(function, node, 0);
    MemoryView view = read_memory_view(node, at);
    if (at == 1) {
      // The sizes are local by now.
      view.sizes = result_type(function, node).sizes;
    }
    const int64_t block = block_of(operand, view);
    const std::vector<size_t> outer =
        outer_dims(view.sizes, view.strides, block);
    const Rule rule = strided_rule(operand, view);
    const Dims sizes =
        local_sizes(rule, {.in_result = true, .tensor = 0}, view.sizes, pieces);
    int64_t step = block;
    for (size_t i = outer.size(); i-- > 0;) {
      view.strides[outer[i]] = step;
      step *= sizes[outer[i]];
    }
    set_arg(node, at, to_arg(sizes));
    set_arg(node, at + 1, to_arg(view.strides));
  };
}

std::vector<TensorType> as_strided_types(
    const Function& function, const Node& node) {
  MemoryView view = read_memory_view(node, 1);
  return {make_type(
      operand_type(function, node, 0).dtype,
      std::move(view.sizes),
      std::move(view.strides))};
}

std::vector<TensorType> as_strided_scatter_types(
    const Function& function, const Node& node) {
  return {operand_type(function, node, 0)};
}

constexpr std::string_view kStridedView = "aten.as_strided";
constexpr std::string_view kStridedWrite = "aten.as_strided_scatter";

}  // namespace

bool reads_memory(const Node& node) {
  return node.op == kStridedView || node.op == kStridedWrite;
}

void add_strided_ops(OpTable& ops) {
  ops.push_back({
      .name = kStridedView,
      .rule_of = as_strided_rule,
      .kind = OpKind::View,
      .linear = Linear::All,
      .types = as_strided_types,
      .sizes_arg = 1,
      .localize = localize_strided(1),
      .examples =
          {"(f32[8, 4], [4, 4], [8, 1], 4)",
           "(f32[8, 12], [8, 4, 4], [12, 2, 1], 1)",
           "(f32[4, 8, 4]{4, 16, 1}, [8, 16], [16, 1])",
           "(f32[8, 4, 4]{4, 32, 1}, [4, 4, 8], [32, 1, 4])",
           "(f32[12, 4, 4], [4, 12, 4], [1, 16, 4])"},
  });
  ops.push_back({
      .name = kStridedWrite,
      .rule_of = as_strided_scatter_rule,
      .linear = Linear::All,
      .types = as_strided_scatter_types,
      .localize = localize_strided(2),
      .examples =
          {"(f32[8, 4], f32[4, 4], [4, 4], [8, 1], 4)",
           "(f32[8, 12], f32[8, 4], [8, 4], [12, 2], 1)",
           "(f32[8, 4, 4]{4, 32, 1}, f32[4, 4, 8], [4, 4, 8], [32, 1, 4])"},
  });
}

}  // namespace weft
