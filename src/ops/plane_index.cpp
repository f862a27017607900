// SPDX-License-Identifier: Apache-2.0
#include "ops/plane_index.h"

#include "base/error.h"
#include "ops/call.h"

#include <utility>

namespace weft {
namespace {

// A box of the whole plane.
struct Plane {
  Dims starts;
  Dims sizes;
};

// The `~` dims of the first tensor that has some.
std::vector<HaloDim> plane_dims(const Rule& rule) {
  std::vector<HaloDim> out;
  for (const HaloDim& halo : rule.halos) {
    if (halo.in_result == rule.halos.front().in_result &&
        halo.tensor == rule.halos.front().tensor) {
      out.push_back(halo);
    }
  }
  return out;
}

Plane plane_of(const Rule& rule, const Pieces& pieces, const Dims& whole) {
  Plane plane = {Dims(whole.size(), 0), whole};
  const std::vector<HaloDim> dims = plane_dims(rule);
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto factor = static_cast<size_t>(dims[i].factor);
    const Piece& steps = pieces[factor];
    if (steps.size != steps.whole) {
      const Piece range = touched(rule.factors[factor].window, steps, whole[i]);
      plane.starts[i] = range.start;
      plane.sizes[i] = range.size;
    }
  }
  return plane;
}

// An index is (z * H + y) * W + x. In another plane each of its quotients by
// the inner sizes counts for more or less, and all are shifted.
ValueId move_indices(
    NodeBuilder& builder, ValueId indices, const Plane& from, const Plane& to) {
  const size_t count = from.sizes.size();
  int64_t shift = 0;
  for (size_t i = 0; i < count; ++i) {
    shift = shift * to.sizes[i] + from.starts[i] - to.starts[i];
  }
  ValueId moved = indices;
  int64_t inner_from = 1;
  int64_t inner_to = 1;
  for (size_t i = count; i-- > 1;) {
    const int64_t gap = (to.sizes[i] - from.sizes[i]) * inner_to;
    inner_from *= from.sizes[i];
    inner_to *= to.sizes[i];
    if (gap != 0) {
      const ValueId outer =
          builder.call("aten.floor_divide.Scalar", {{indices}, {inner_from}});
      const ValueId more = builder.call("aten.mul.Scalar", {{outer}, {gap}});
      moved = builder.call("aten.add.Tensor", {{moved}, {more}});
    }
  }
  return shift == 0 ? moved
                    : builder.call("aten.add.Scalar", {{moved}, {shift}});
}

}  // namespace

bool cuts_plane(const OpDef& def, const Rule& rule, const Pieces& pieces) {
  if (!def.plane_index) {
    return false;
  }
  for (const HaloDim& halo : rule.halos) {
    const Piece& steps = pieces[static_cast<size_t>(halo.factor)];
    if (steps.size != steps.whole) {
      return true;
    }
  }
  return false;
}

Dims plane_sizes(const Function& function, const Node& node, const Rule& rule) {
  Dims sizes;
  for (const HaloDim& halo : plane_dims(rule)) {
    const auto tensor = static_cast<size_t>(halo.tensor);
    const ValueId value =
        halo.in_result ? node.results.at(tensor) : operands(node).at(tensor);
    sizes.push_back(
        function[value].type.sizes.at(static_cast<size_t>(halo.dim)));
  }
  return sizes;
}

std::vector<ValueId> append_plane_call(
    NodeBuilder& builder,
    const OpDef& def,
    Node local,
    const std::vector<TensorType>& types,
    const Rule& rule,
    const Pieces& pieces,
    const Dims& plane) {
  if (!def.plane_index) {
    return builder.call(std::move(local), types);
  }
  const Plane whole = {Dims(plane.size(), 0), plane};
  const Plane mine = plane_of(rule, pieces, plane);
  const auto tensor = static_cast<size_t>(def.plane_index->tensor);
  if (!def.plane_index->in_result) {
    const std::vector<ValueId> read = operands(local);
    const ValueId moved = move_indices(builder, read.at(tensor), whole, mine);
    std::vector<ValueId> stand_in(builder.function().values.size());
    for (const ValueId id : read) {
      stand_in[index(id)] = id;
    }
    stand_in[index(read[tensor])] = moved;
    replace_operands(local, stand_in);
    return builder.call(std::move(local), types);
  }
  std::vector<ValueId> results = builder.call(std::move(local), types);
  ValueId moved = move_indices(builder, results.at(tensor), mine, whole);
  bool is_inside = true;
  int64_t count = 1;
  for (size_t i = 0; i < plane.size(); ++i) {
    is_inside = is_inside && mine.starts[i] >= 0 &&
                mine.starts[i] + mine.sizes[i] <= plane[i];
    count *= plane[i];
  }
  if (!is_inside) {
    // A window that holds nothing above the padding may point into it.
    moved = builder.call("aten.clamp", {{moved}, {int64_t{0}}, {count - 1}});
  }
  results[tensor] = moved;
  return results;
}

}  // namespace weft
