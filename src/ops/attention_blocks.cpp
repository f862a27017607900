// SPDX-License-Identifier: Apache-2.0
// Attention by blocks of keys (OpDef::blocks). The kernel is called for each
// block as if there were no other keys; outputs are joined by their logsumexp,
// and backward, which is given that of all keys, adds up.
//
// Of a causal mask a block needs but one thing: how many of its first queries
// see none of its keys. Behind them the mask is the kernel's own, whether the
// queries and keys are neighbours or lie n apart.
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/call.h"
#include "ops/kernel.h"

#include <limits>
#include <span>
#include <utility>

namespace weft {
namespace {

constexpr int64_t kHeadDim = 1;
constexpr int64_t kQueryDim = 2;
// The logsumexp of no keys.
constexpr double kNoKeys = -std::numeric_limits<double>::infinity();

// Where a kernel has its arguments.
struct ArgumentPlaces {
  size_t dropout = 0;
  size_t causal = 0;
  // Operands with one row a query.
  std::span<const size_t> rows;
};

constexpr size_t kQueryRows[] = {0};
constexpr ArgumentPlaces kForwardPlaces = {
    .dropout = 3, .causal = 4, .rows = kQueryRows};
constexpr size_t kGradientRows[] = {0, 1, 4, 5};
constexpr ArgumentPlaces kBackwardPlaces = {
    .dropout = 6, .causal = 7, .rows = kGradientRows};

int64_t last_of(const Stripe& stripe) {
  return stripe.start + (stripe.size - 1) * stripe.step;
}

// How many queries come before the first one that sees the first key; negative
// when already the first sees more than that.
int64_t blind_queries(const Stripe& queries, const Stripe& keys) {
  const int64_t apart = keys.start - queries.start;
  return apart > 0 ? (apart + queries.step - 1) / queries.step
                   : apart / queries.step;
}

std::optional<Sight> sight_of(
    const ArgumentPlaces& places,
    const Node& node,
    const Stripe& queries,
    const Stripe& keys) {
  if (number_arg(node, places.dropout, 0) != 0) {
    return std::nullopt;
  }
  if (!bool_arg(node, places.causal, false)) {
    return Sight::All;
  }
  if (attention_mask(node) != ValueId::None) {
    return std::nullopt;
  }
  if (last_of(keys) <= queries.start) {
    return Sight::All;
  }
  if (keys.start > last_of(queries)) {
    return Sight::None;
  }
  const bool is_shifted =
      queries.step == keys.step && blind_queries(queries, keys) >= 0;
  return is_shifted ? std::optional(Sight::Some) : std::nullopt;
}

// With `rows` times `fill` before what it has along the dim; row-major.
ValueId with_first(
    NodeBuilder& builder, ValueId a, int64_t dim, int64_t rows, double fill) {
  const TensorType type = builder.type(a);
  Dims sizes = type.sizes;
  sizes[static_cast<size_t>(dim)] = rows;
  Node full;
  full.op = "aten.full";
  full.args = {to_arg(sizes), {fill}};
  full.options = {{"dtype", {type.dtype}}};
  const ValueId first =
      builder.call(std::move(full), {make_type(type.dtype, sizes)}).front();
  return builder.call("aten.cat", {{Arg::List{{first}, {a}}}, {dim}});
}

// With `rows` queries before its own, which have `fill`.
ValueId with_blind(NodeBuilder& builder, ValueId a, int64_t rows, double fill) {
  if (rows == 0) {
    return a;
  }
  if (is_row_major(builder.type(a))) {
    return with_first(builder, a, kQueryDim, rows, fill);
  }
  // The kernel has heads inside of queries.
  const ValueId turned =
      row_major(builder, transpose(builder, a, kHeadDim, kQueryDim));
  return transpose(
      builder,
      with_first(builder, turned, kHeadDim, rows, fill),
      kHeadDim,
      kQueryDim);
}

struct Called {
  std::vector<ValueId> results;
  // Queries left out before them.
  int64_t blind = 0;
};

Called call_kernel(
    NodeBuilder& builder,
    const ArgumentPlaces& places,
    Node node,
    const Stripe& queries,
    const Stripe& keys) {
  Called out;
  const bool is_causal = sight_of(places, node, queries, keys) == Sight::Some;
  out.blind = is_causal ? blind_queries(queries, keys) : 0;
  for (const size_t row : places.rows) {
    if (out.blind > 0) {
      set_arg(
          node,
          row,
          {builder.call(
              "aten.slice.Tensor",
              {{value_arg(node, row)},
               {kQueryDim},
               {out.blind},
               {queries.size}})});
    }
  }
  if (is_causal != bool_arg(node, places.causal, false)) {
    set_arg(node, places.causal, {is_causal});
  }
  const std::vector<TensorType> types = types_of(builder.function(), node);
  out.results = builder.call(std::move(node), types);
  return out;
}

// For queries that the mask keeps from all keys of the block the kernel says 0.
ValueId without_hidden(NodeBuilder& builder, ValueId logsumexp, ValueId mask) {
  if (mask == ValueId::None) {
    return logsumexp;
  }
  const auto keys = static_cast<int64_t>(builder.type(mask).sizes.size()) - 1;
  const ValueId highest = builder.call("aten.amax", {{mask}, to_arg({keys})});
  const ValueId hidden = builder.call("aten.eq.Scalar", {{highest}, {kNoKeys}});
  return builder.call(
      "aten.masked_fill.Scalar", {{logsumexp}, {hidden}, {kNoKeys}});
}

std::vector<ValueId> attention_block(
    NodeBuilder& builder,
    const Node& node,
    const Stripe& queries,
    const Stripe& keys) {
  const Called called =
      call_kernel(builder, kForwardPlaces, node, queries, keys);
  const ValueId logsumexp =
      without_hidden(builder, called.results[1], attention_mask(node));
  return {
      with_blind(builder, widened(builder, called.results[0]), called.blind, 0),
      with_blind(builder, logsumexp, called.blind, kNoKeys)};
}

// The share of b is sigmoid(log of its weight - log of that of a).
std::vector<ValueId> join_outputs(
    NodeBuilder& builder,
    const Node& node,
    const std::vector<ValueId>& a,
    const std::vector<ValueId>& b) {
  ValueId share = apply(builder, "aten.sigmoid", sub(builder, b[1], a[1]));
  if (attention_mask(node) != ValueId::None) {
    // Also where neither has any.
    const ValueId none = builder.call("aten.eq.Scalar", {{b[1]}, {kNoKeys}});
    share = builder.call("aten.masked_fill.Scalar", {{share}, {none}, {0.0}});
  }
  share = builder.call("aten.unsqueeze", {{share}, {int64_t{3}}});
  const ValueId output =
      add(builder, a[0], mul(builder, sub(builder, b[0], a[0]), share));
  return {output, builder.call("aten.logaddexp", {{a[1]}, {b[1]}})};
}

std::vector<ValueId> finish_outputs(
    NodeBuilder& builder,
    const Node& node,
    const std::vector<ValueId>& joined) {
  const DType dtype = builder.type(value_arg(node, 0)).dtype;
  const ValueId logsumexp = attention_mask(node) == ValueId::None
                                ? joined[1]
                                : replaced(builder, joined[1], kNoKeys, 0);
  return {in_dtype(builder, joined[0], dtype), logsumexp};
}

std::vector<ValueId> gradient_block(
    NodeBuilder& builder,
    const Node& node,
    const Stripe& queries,
    const Stripe& keys) {
  const Called called =
      call_kernel(builder, kBackwardPlaces, node, queries, keys);
  return {
      with_blind(builder, widened(builder, called.results[0]), called.blind, 0),
      widened(builder, called.results[1]),
      widened(builder, called.results[2])};
}

std::vector<ValueId> finish_gradients(
    NodeBuilder& builder,
    const Node& node,
    const std::vector<ValueId>& joined) {
  std::vector<ValueId> results;
  for (size_t i = 0; i < joined.size(); ++i) {
    const DType dtype = builder.type(value_arg(node, 1 + i)).dtype;
    results.push_back(in_dtype(builder, joined[i], dtype));
  }
  return results;
}

auto sight_with(const ArgumentPlaces& places) {
  return
      [&places](const Node& node, const Stripe& queries, const Stripe& keys) {
        return sight_of(places, node, queries, keys);
      };
}

}  // namespace

Blocks attention_blocks() {
  return {
      .stays = "s",
      .passes = "t",
      .sight = sight_with(kForwardPlaces),
      .block = attention_block,
      .join = join_outputs,
      .finish = finish_outputs};
}

Blocks attention_backward_blocks() {
  return {
      .stays = "s",
      .passes = "t",
      .sight = sight_with(kBackwardPlaces),
      .block = gradient_block,
      .finish = finish_gradients};
}

}  // namespace weft
