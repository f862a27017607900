// SPDX-License-Identifier: Apache-2.0
// Attention as products of matrices, so that keys can be split: each rank has
// the scores of its keys, and the ranks join the maximum, the sum and the
// output of every query. Where g queries share one key, heads are [h, g].
//
// Which keys a causal mask hides is computed from the positions of queries and
// keys, aten.arange, which know where a piece starts.
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/call.h"
#include "ops/expand.h"

#include <cmath>
#include <limits>

namespace weft {
namespace {

constexpr int64_t kGroupDim = 2;
// The score of a key that a query does not see.
constexpr double kHidden = -std::numeric_limits<double>::infinity();

ValueId product(NodeBuilder& builder, ValueId a, ValueId b) {
  return builder.call("aten.matmul", {{a}, {b}});
}

// Both passes: how the heads are cut, and the scores.
class Attention {
 public:
  // `first` is the argument of the queries; keys and values follow.
  Attention(NodeBuilder& builder, const Node& node, size_t first, size_t causal)
      : builder_(builder),
        query_sizes_(builder.type(value_arg(node, first)).sizes),
        key_sizes_(builder.type(value_arg(node, first + 1)).sizes),
        grouped_(query_sizes_.at(1) != key_sizes_.at(1)),
        causal_(bool_arg(node, causal, false)),
        mask_(attention_mask(node)),
        scale_(number_option(
            node,
            "scale",
            1 / std::sqrt(static_cast<double>(query_sizes_.at(3))))) {
    query = mul(builder, of_queries(value_arg(node, first)), scale_);
    key = of_keys(value_arg(node, first + 1));
    value = of_keys(value_arg(node, first + 2));
  }

  double scale() const { return scale_; }
  int64_t last_dim() const { return grouped_ ? 4 : 3; }
  const Dims& query_sizes() const { return query_sizes_; }

  // [b, heads, s, ...] with the heads in groups, in the type for sums.
  ValueId of_queries(ValueId a) const { return grouped(widened(builder_, a)); }

  // Back to the heads of the queries.
  ValueId ungrouped(ValueId a) const {
    if (!grouped_) {
      return a;
    }
    Dims sizes = builder_.type(a).sizes;
    sizes.erase(sizes.begin() + kGroupDim);
    sizes[1] = query_sizes_[1];
    return view(builder_, a, sizes);
  }

  // What the queries of a group give to the key that they share.
  ValueId of_group(ValueId a) const {
    if (!grouped_) {
      return a;
    }
    a = sum_over(builder_, a, {kGroupDim});
    Dims sizes = builder_.type(a).sizes;
    sizes.erase(sizes.begin() + kGroupDim);
    return view(builder_, a, sizes);
  }

  ValueId turned(ValueId a) const {
    return transpose(builder_, a, last_dim() - 1, last_dim());
  }

  // [..., s, t], scaled and masked.
  ValueId scores() const {
    ValueId scores = product(builder_, query, turned(key));
    if (mask_ != ValueId::None) {
      scores = add(builder_, scores, aligned_mask());
    }
    if (causal_) {
      scores = builder_.call(
          "aten.masked_fill.Scalar", {{scores}, {later_keys()}, {kHidden}});
    }
    return scores;
  }

  // A query that the mask keeps from all keys has output and logsumexp 0, as
  // the kernel says: what marks it, `mark` in `a`, becomes `instead`.
  ValueId without(ValueId a, double mark, double instead) const {
    return mask_ == ValueId::None ? a : replaced(builder_, a, mark, instead);
  }

  // Times the scale.
  ValueId query = ValueId::None;
  ValueId key = ValueId::None;
  ValueId value = ValueId::None;

 private:
  ValueId grouped(ValueId a) const {
    if (!grouped_) {
      return a;
    }
    Dims sizes = builder_.type(a).sizes;
    const int64_t groups = query_sizes_[1] / key_sizes_[1];
    sizes[1] = key_sizes_[1];
    sizes.insert(sizes.begin() + kGroupDim, groups);
    return view(builder_, a, sizes);
  }

  ValueId of_keys(ValueId a) const {
    a = widened(builder_, a);
    return grouped_ ? builder_.call("aten.unsqueeze", {{a}, {kGroupDim}}) : a;
  }

  // A mask of 2 dims is one for all heads.
  ValueId aligned_mask() const {
    const ValueId mask = widened(builder_, mask_);
    Dims sizes = builder_.type(mask).sizes;
    if (!grouped_ || sizes.size() < 3) {
      return mask;
    }
    const auto heads = sizes.end() - 3;
    const bool each = *heads != 1;
    *heads = each ? key_sizes_[1] : 1;
    sizes.insert(
        heads + 1, each ? query_sizes_[1] / key_sizes_[1] : int64_t{1});
    return view(builder_, mask, sizes);
  }

  // Where the key comes after the query.
  ValueId later_keys() const {
    const ValueId queries = builder_.call(
        "aten.unsqueeze",
        {{builder_.call("aten.arange", {{query_sizes_[2]}})}, {int64_t{1}}});
    const ValueId keys = builder_.call("aten.arange", {{key_sizes_[2]}});
    return builder_.call("aten.lt.Tensor", {{queries}, {keys}});
  }

  NodeBuilder& builder_;
  Dims query_sizes_;
  Dims key_sizes_;
  bool grouped_;
  bool causal_;
  ValueId mask_;
  double scale_;
};

bool can_expand(NodeBuilder& builder, const Node& node, size_t dropout) {
  const ValueId mask = attention_mask(node);
  return number_arg(node, dropout, 0) == 0 &&
         (mask == ValueId::None || is_floating(builder.type(mask).dtype));
}

}  // namespace

// (query, key, value, dropout_p, is_causal) -> (output, logsumexp)
Expanded expand_attention(NodeBuilder& builder, const Node& node) {
  if (!can_expand(builder, node, 3)) {
    return {};
  }
  const Attention attention(builder, node, 0, 4);
  const Dims keys = {attention.last_dim()};
  const ValueId scores = attention.scores();
  const ValueId highest =
      attention.without(max_over(builder, scores, keys), kHidden, 0);
  const ValueId powers =
      apply(builder, "aten.exp", sub(builder, scores, highest));
  const ValueId total =
      attention.without(sum_over(builder, powers, keys), 0, 1);
  const ValueId output =
      div(builder, product(builder, powers, attention.value), total);
  const ValueId logsumexp =
      add(builder, highest, apply(builder, "aten.log", total));
  const Dims& sizes = attention.query_sizes();
  return in_types_of(
      builder,
      node,
      {attention.ungrouped(output),
       view(builder, logsumexp, {sizes[0], sizes[1], sizes[2]})});
}

// (grad, query, key, value, output, logsumexp, dropout_p, is_causal)
//   -> (query's, key's, value's gradient)
Expanded expand_attention_backward(NodeBuilder& builder, const Node& node) {
  if (!can_expand(builder, node, 6)) {
    return {};
  }
  const Attention attention(builder, node, 1, 7);
  const ValueId grad = attention.of_queries(value_arg(node, 0));
  const ValueId output = attention.of_queries(value_arg(node, 4));
  const ValueId logsumexp = attention.of_queries(
      builder.call("aten.unsqueeze", {{value_arg(node, 5)}, {int64_t{3}}}));
  const ValueId weights =
      apply(builder, "aten.exp", sub(builder, attention.scores(), logsumexp));
  const ValueId value_gradient =
      product(builder, attention.turned(weights), grad);
  const ValueId weights_gradient =
      product(builder, grad, attention.turned(attention.value));
  const ValueId along =
      sum_over(builder, mul(builder, grad, output), {attention.last_dim()});
  const ValueId scores_gradient =
      mul(builder, weights, sub(builder, weights_gradient, along));
  const ValueId query_gradient =
      mul(builder,
          product(builder, scores_gradient, attention.key),
          attention.scale());
  const ValueId key_gradient =
      product(builder, attention.turned(scores_gradient), attention.query);
  return in_types_of(
      builder,
      node,
      {attention.ungrouped(query_gradient),
       attention.of_group(key_gradient),
       attention.of_group(value_gradient)});
}

}  // namespace weft
