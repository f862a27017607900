// SPDX-License-Identifier: Apache-2.0
// Windows over split dims: what a rank needs of an operand beyond its own
// piece, and makes of a result beyond it. Which elements those are follows from
// the Window of the factor (ops/rule.h); who has them, from the layout. Emitted
// by emit_halo.h.
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"
#include "lower/assignment.h"
#include "ops/rule.h"
#include "ops/split.h"

#include <cstdint>
#include <vector>

namespace weft {

// A part of a tensor, one range a dim. Dims that no window splits count from
// the rank's own piece of them, which is that of all it talks to.
using Box = std::vector<Piece>;

bool is_empty(const Box& box);
// Their sizes.
Dims sizes_of(const Box& box);
Box intersection(const Box& a, const Box& b);

// Whether the node's windows are split: its `~` dims are in pieces.
bool splits_windows(const Rule& rule, const Assignment& assignment);

// One tensor of a node, whose windows are split.
class Halo {
 public:
  // `type` is the whole tensor's. Keeps references.
  Halo(
      const Mesh& mesh,
      const Rule& rule,
      const Assignment& assignment,
      TensorPlace place,
      const TensorType& type);

  // None of its `~` dims is split: there is nothing to exchange.
  bool is_whole() const { return axes_.empty(); }
  // The ranks that share its `~` dims with `rank`, in order, itself too.
  std::vector<int64_t> group(int64_t rank) const;
  // What the rank holds.
  Box own(int64_t rank) const;
  // What the steps of the pieces touch, padding too.
  Box reach(const Pieces& pieces, int64_t rank) const;
  // The same of all the rank's steps.
  Box reach(int64_t rank) const;
  // All that there is.
  Box whole(int64_t rank) const;
  // A window's padding.
  double fill() const;

  // Bytes that go between `rank` and others for what it touches beyond its own.
  double bytes(int64_t rank) const;

 private:
  // The split factor of a `~` dim, or -1.
  int split_factor(size_t dim) const;
  Piece own(size_t dim, int64_t rank) const;

  const Mesh& mesh_;
  const Rule& rule_;
  const Assignment& assignment_;
  const TensorPlace place_;
  const TensorType& type_;
  Layout layout_;
  // That split its `~` dims.
  Axes axes_;
};

// Bytes of borders that one rank takes for the node, at most.
double halo_bytes(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    TensorPlace place,
    const TensorType& type);

}  // namespace weft
