// SPDX-License-Identifier: Apache-2.0
#include "ops/split.h"

#include "base/error.h"
#include "ops/call.h"
#include "ops/lookup.h"
#include "ops/node_builder.h"
#include "ops/plane_index.h"

#include <algorithm>
#include <utility>

namespace weft {

Pieces whole_pieces(const Rule& rule) {
  Pieces pieces;
  for (const Factor& factor : rule.factors) {
    pieces.push_back({0, factor.size, factor.size});
  }
  return pieces;
}

Pieces split_pieces(const Rule& rule, int factor, int64_t ways, int64_t part) {
  Pieces pieces = whole_pieces(rule);
  Piece& piece = pieces[static_cast<size_t>(factor)];
  WEFT_CHECK(piece.whole % ways == 0, "pieces of unequal sizes");
  piece.size = piece.whole / ways;
  piece.start = part * piece.size;
  return pieces;
}

bool is_split(const Pieces& pieces) {
  return std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return piece.size != piece.whole;
  });
}

Piece touched(const Window& window, const Piece& steps, int64_t whole) {
  int64_t first = steps.start * window.stride - window.before;
  int64_t last = (steps.start + steps.size - 1) * window.stride + window.after;
  if (window.inside) {
    first = std::max<int64_t>(first, 0);
    last = std::min(last, whole - 1);
  }
  return {first, last - first + 1, whole};
}

bool needs_frame(const OpDef& def, const Rule& rule, const Pieces& pieces) {
  return def.framed != nullptr &&
         std::any_of(
             rule.halos.begin(), rule.halos.end(), [&](const HaloDim& halo) {
               const Piece& steps = pieces[static_cast<size_t>(halo.factor)];
               return steps.size != steps.whole;
             });
}

const std::vector<DimFactors>& dims_of(const Rule& rule, TensorPlace place) {
  const auto& tensors = place.in_result ? rule.results : rule.operands;
  return tensors[static_cast<size_t>(place.tensor)];
}

const HaloDim* find_halo(const Rule& rule, TensorPlace place, size_t dim) {
  for (const HaloDim& halo : rule.halos) {
    if (halo.in_result == place.in_result && halo.tensor == place.tensor &&
        halo.dim == static_cast<int>(dim)) {
      return &halo;
    }
  }
  return nullptr;
}

Dims local_sizes(
    const Rule& rule,
    TensorPlace place,
    const Dims& whole,
    const Pieces& pieces) {
  const std::vector<DimFactors>& dims = dims_of(rule, place);
  WEFT_CHECK(dims.size() == whole.size(), "a rule of another tensor");
  Dims sizes = whole;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (const HaloDim* halo = find_halo(rule, place, d)) {
      auto factor = static_cast<size_t>(halo->factor);
      if (pieces[factor].size != pieces[factor].whole) {
        sizes[d] =
            touched(rule.factors[factor].window, pieces[factor], whole[d]).size;
      }
      continue;
    }
    for (int factor : dims[d]) {
      const Piece& piece = pieces[static_cast<size_t>(factor)];
      if (piece.size != piece.whole) {
        sizes[d] = sizes[d] / piece.whole * piece.size;
      }
    }
  }
  return sizes;
}

TensorType with_sizes(const TensorType& type, Dims sizes) {
  Dims strides = strides_of(type);
  const std::vector<size_t> order = memory_order(strides);
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    size_t dim = order[i];
    if (strides[dim] == 0 && type.sizes[dim] != 1) {
      continue;
    }
    strides[dim] = next;
    next *= std::max<int64_t>(sizes[dim], 1);
  }
  return make_type(type.dtype, std::move(sizes), std::move(strides));
}

Node localize(
    const OpDef& def,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Pieces& pieces) {
  Node local = node;
  if (!is_split(pieces)) {
    return local;
  }
  if (def.sizes_arg >= 0) {
    Dims sizes = local_sizes(
        rule,
        {.in_result = true, .tensor = 0},
        result_type(function, node).sizes,
        pieces);
    set_arg(local, static_cast<size_t>(def.sizes_arg), to_arg(sizes));
  }
  if (def.localize != nullptr) {
    def.localize(function, local, pieces);
  }
  return local;
}

namespace {

// Calls `visit(ValueId&)` for every operand, in the order of
// weft::for_each_operand.
template <typename Visit>
void change_operands(Arg& arg, Visit&& visit) {
  if (auto* id = std::get_if<ValueId>(&arg.data)) {
    visit(*id);
  } else if (auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (Arg& item : *list) {
      change_operands(item, visit);
    }
  }
}

}  // namespace

LocalCall local_call(
    const OpDef& def,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Pieces& pieces) {
  LocalCall call;
  Node local = localize(def, function, node, rule, pieces);
  std::vector<ValueId> whole = operands(node);
  // A value that is read twice may be split in two ways: every operand becomes
  // an input of its own.
  size_t next = 0;
  auto localize_operand = [&](ValueId& id) {
    while (next < whole.size() && whole[next] != id) {
      ++next;
    }
    WEFT_CHECK(next < whole.size(), "localize added an operand to ", node.op);
    call.kept.push_back(next);
    const TensorType& type = function[id].type;
    Dims sizes = local_sizes(
        rule,
        {.in_result = false, .tensor = static_cast<int>(next)},
        type.sizes,
        pieces);
    TensorType local_type =
        sizes == type.sizes ? type : with_sizes(type, std::move(sizes));
    id = add_value(call.function, cat("operand", next), std::move(local_type));
    ++next;
  };
  for (Arg& arg : local.args) {
    change_operands(arg, localize_operand);
  }
  for (Option& option : local.options) {
    change_operands(option.value, localize_operand);
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const TensorType& type = function[node.results[i]].type;
    Dims sizes = local_sizes(
        rule,
        {.in_result = true, .tensor = static_cast<int>(i)},
        type.sizes,
        pieces);
    types.push_back(with_sizes(type, std::move(sizes)));
  }
  NodeBuilder builder(call.function);
  builder.begin("local", node.phase);
  const std::string op = local.op;
  if (split_lookup(rule, pieces) >= 0) {
    call.results =
        append_lookup(builder, def, std::move(local), types, rule, pieces);
  } else if (cuts_plane(def, rule, pieces)) {
    call.results = append_plane_call(
        builder,
        def,
        std::move(local),
        types,
        rule,
        pieces,
        plane_sizes(function, node, rule));
  } else if (needs_frame(def, rule, pieces)) {
    call.results = def.framed(builder, std::move(local), rule, pieces);
  } else {
    call.results = builder.call(std::move(local), types);
  }
  while (call.node().op != op) {
    ++call.at;
  }
  return call;
}

}  // namespace weft
