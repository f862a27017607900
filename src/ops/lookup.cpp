// SPDX-License-Identifier: Apache-2.0
#include "ops/lookup.h"

#include "base/error.h"
#include "ops/arithmetic.h"
#include "ops/call.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {
namespace {

// No row has it.
constexpr int64_t kIgnored = -1;

// The dim that the factor makes up alone; nullopt when it is in none.
std::optional<size_t> dim_of_factor(
    const std::vector<DimFactors>& dims, int factor) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (std::find(dims[d].begin(), dims[d].end(), factor) != dims[d].end()) {
      WEFT_CHECK(dims[d].size() == 1, "a looked-up factor shares its dim");
      return d;
    }
  }
  return std::nullopt;
}

class Lookup {
 public:
  Lookup(
      NodeBuilder& builder,
      const OpDef& def,
      Node local,
      const Rule& rule,
      const Pieces& pieces)
      : builder_(builder),
        def_(def),
        local_(std::move(local)),
        rule_(rule),
        factor_(split_lookup(rule, pieces)),
        piece_(pieces.at(static_cast<size_t>(factor_))) {
    WEFT_CHECK(def.lookup_operand >= 0, "nothing looks up rows of ", def.name);
  }

  std::vector<ValueId> run(const std::vector<TensorType>& types) {
    const bool written = std::any_of(
        rule_.results.begin(), rule_.results.end(), [&](const auto& dims) {
          return dim_of_factor(dims, factor_).has_value();
        });
    if (def_.ignore_arg >= 0) {
      replace_index(kIgnored);
      set_arg(local_, static_cast<size_t>(def_.ignore_arg), {kIgnored});
      return builder_.call(local_, types);
    }
    return written ? write(types) : read(types);
  }

 private:
  // Counts within the piece, with `fill` for what lies outside.
  void replace_index(int64_t fill) {
    const std::vector<ValueId> all = operands(local_);
    const ValueId index = all.at(static_cast<size_t>(def_.lookup_operand));
    ValueId row = index;
    // An index in a list may count from the end.
    if (std::holds_alternative<Arg::List>(local_.args.at(1).data)) {
      row = builder_.call("aten.remainder.Scalar", {{row}, {piece_.whole}});
    }
    const ValueId shifted =
        builder_.call("aten.sub.Scalar", {{row}, {piece_.start}});
    const ValueId before =
        builder_.call("aten.lt.Scalar", {{shifted}, {int64_t{0}}});
    const ValueId behind =
        builder_.call("aten.ge.Scalar", {{shifted}, {piece_.size}});
    outside_ = builder_.call("aten.logical_or", {{before}, {behind}});
    if (def_.ignore_arg >= 0) {
      const int64_t ignored =
          int_arg(local_, static_cast<size_t>(def_.ignore_arg), kIgnored);
      const ValueId is_ignored =
          builder_.call("aten.eq.Scalar", {{index}, {ignored}});
      outside_ = builder_.call("aten.logical_or", {{outside_}, {is_ignored}});
    }
    const ValueId safe = builder_.call(
        "aten.masked_fill.Scalar", {{shifted}, {outside_}, {fill}});
    std::vector<ValueId> stand_in(builder_.function().values.size());
    for (const ValueId id : all) {
      stand_in[weft::index(id)] = id;
    }
    stand_in[weft::index(index)] = safe;
    replace_operands(local_, stand_in);
  }

  std::vector<ValueId> read(const std::vector<TensorType>& types) {
    replace_index(0);
    std::vector<ValueId> results = builder_.call(local_, types);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_summed(rule_, factor_, static_cast<int>(i))) {
        continue;
      }
      const ValueId mask = along(rule_.results[i]);
      results[i] = in_type(
          builder_,
          builder_.call(
              "aten.masked_fill.Scalar", {{results[i]}, {mask}, {int64_t{0}}}),
          types[i]);
    }
    return results;
  }

  // What lies outside, along those dims of a tensor that are the index's.
  ValueId along(const std::vector<DimFactors>& dims) {
    const auto& own = rule_.operands[static_cast<size_t>(def_.lookup_operand)];
    const Dims sizes = builder_.type(outside_).sizes;
    Dims aligned;
    size_t next = 0;
    for (const DimFactors& dim : dims) {
      const bool is_own = next < own.size() && own[next] == dim;
      aligned.push_back(is_own ? sizes[next++] : 1);
    }
    WEFT_CHECK(
        next == own.size(), "a result of ", def_.name, " lacks its index");
    return view(builder_, outside_, aligned);
  }

  std::vector<ValueId> write(const std::vector<TensorType>& types) {
    add_rows();
    replace_index(piece_.size);
    std::vector<TensorType> larger = types;
    for (size_t i = 0; i < larger.size(); ++i) {
      if (const auto dim = dim_of_factor(rule_.results[i], factor_)) {
        Dims sizes = types[i].sizes;
        ++sizes[*dim];
        larger[i] = with_sizes(types[i], std::move(sizes));
      }
    }
    std::vector<ValueId> results = builder_.call(local_, larger);
    for (size_t i = 0; i < results.size(); ++i) {
      if (const auto dim = dim_of_factor(rule_.results[i], factor_)) {
        Node cut;
        cut.op = "aten.slice.Tensor";
        cut.args = {
            {results[i]},
            {static_cast<int64_t>(*dim)},
            {int64_t{0}},
            {piece_.size}};
        const TensorType type =
            make_type(types[i].dtype, types[i].sizes, strides_of(larger[i]));
        results[i] =
            in_type(builder_, builder_.call(cut, {type}).front(), types[i]);
      }
    }
    return results;
  }

  // One more row for every operand that has rows.
  void add_rows() {
    const std::vector<ValueId> all = operands(local_);
    std::vector<ValueId> stand_in(builder_.function().values.size());
    for (size_t i = 0; i < all.size(); ++i) {
      stand_in[weft::index(all[i])] = all[i];
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const auto dim = dim_of_factor(rule_.operands[i], factor_);
      if (!dim) {
        continue;
      }
      const ValueId rows = row_major(builder_, all[i]);
      TensorType type = builder_.type(rows);
      // From the last dim on: none before, one behind.
      Dims pad(2 * (type.sizes.size() - *dim), 0);
      pad.back() = 1;
      ++type.sizes[*dim];
      Node padded;
      padded.op = "aten.constant_pad_nd";
      padded.args = {{rows}, to_arg(pad)};
      stand_in[weft::index(all[i])] = builder_.call(padded, {type}).front();
    }
    replace_operands(local_, stand_in);
  }

  NodeBuilder& builder_;
  const OpDef& def_;
  Node local_;
  const Rule& rule_;
  int factor_;
  Piece piece_;
  ValueId outside_ = ValueId::None;
};

}  // namespace

int split_lookup(const Rule& rule, const Pieces& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (rule.factors[i].kind == FactorKind::Lookup &&
        pieces[i].size != pieces[i].whole) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<ValueId> append_lookup(
    NodeBuilder& builder,
    const OpDef& def,
    Node local,
    const std::vector<TensorType>& types,
    const Rule& rule,
    const Pieces& pieces) {
  return Lookup(builder, def, std::move(local), rule, pieces).run(types);
}

}  // namespace weft
