// SPDX-License-Identifier: Apache-2.0
// The block of a rank while points of time become parts of it (fold_time.cpp).
#pragma once

#include "lower/emitter.h"
#include "lower/pass.h"
#include "program/program.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Axes of time as bits, in their order; those with a single point never count.
using TimeAxes = uint32_t;

struct FoldedBlock {
  // Keeps a reference to the lowering.
  FoldedBlock(const Lowering& of, int64_t rank);
  FoldedBlock(const FoldedBlock&) = delete;
  FoldedBlock& operator=(const FoldedBlock&) = delete;

  TimeAxes bits(const Axes& names_of_axes) const;
  bool is_of_time(const std::string& axis) const;
  // The first point with the same coordinates on these axes.
  size_t first_alike(size_t part, TimeAxes on) const;

  Origin origin_of(NodeId node, size_t part, TimeAxes on) const;
  // All instructions that have no origin yet have this one.
  void mark(Origin origin);

  ValueId add(
      const std::string& name,
      TensorType type,
      Layout layout,
      size_t part,
      TimeAxes on);
  // What one of the emitter's calls made.
  ValueId made(ValueId value, size_t part, TimeAxes on);

  const Lowering& lowering;
  const Mesh& time;
  const Mesh space;
  Block block;
  std::vector<Origin> origins;
  // By value of the block, the axes of time that it depends on.
  std::vector<TimeAxes> axes;
  NameTable names;
  Emitter emitter;
};

}  // namespace weft
