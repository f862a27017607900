// SPDX-License-Identifier: Apache-2.0
#include "lower/folded_block.h"

#include "base/text.h"
#include "plan/plan.h"

#include <utility>

namespace weft {

FoldedBlock::FoldedBlock(const Lowering& of, int64_t rank)
    : lowering(of),
      time(of.plan.time),
      space(of.space),
      emitter{
          .block = block,
          .mesh = space,
          .rank = rank,
          .phase = Phase::Forward,
          .names = names} {
  block.first_rank = block.last_rank = rank;
  block.function.name = step_of(lowering.graph).name;
}

TimeAxes FoldedBlock::bits(const Axes& names_of_axes) const {
  TimeAxes out = 0;
  for (size_t i = 0; i < time.axes.size(); ++i) {
    const Axis& axis = time.axes[i];
    out |= axis.size > 1 && contains(names_of_axes, axis.name)
               ? TimeAxes{1} << i
               : 0;
  }
  return out;
}

bool FoldedBlock::is_of_time(const std::string& axis) const {
  return find_axis(time, axis) >= 0;
}

size_t FoldedBlock::first_alike(size_t part, TimeAxes on) const {
  const std::vector<int64_t> where =
      coordinates(time, static_cast<int64_t>(part));
  int64_t first = 0;
  for (size_t i = 0; i < where.size(); ++i) {
    const bool counts = (on >> i & 1) != 0;
    first = first * time.axes[i].size + (counts ? where[i] : 0);
  }
  return static_cast<size_t>(first);
}

Origin FoldedBlock::origin_of(NodeId node, size_t part, TimeAxes on) const {
  return {.node = node, .part = on == 0 ? -1 : static_cast<int64_t>(part)};
}

void FoldedBlock::mark(Origin origin) {
  origins.resize(block.instructions.size(), origin);
}

ValueId FoldedBlock::add(
    const std::string& name,
    TensorType type,
    Layout layout,
    size_t part,
    TimeAxes on) {
  const size_t first = first_alike(part, on);
  const std::string unique =
      names.unique("", first == 0 ? name : cat(name, ".part", first));
  axes.push_back(on);
  return add_value(
      block,
      unique,
      std::move(type),
      std::move(layout),
      static_cast<int64_t>(first));
}

ValueId FoldedBlock::made(ValueId value, size_t part, TimeAxes on) {
  axes.resize(block.function.values.size(), on);
  block.parts[index(value)] = static_cast<int64_t>(first_alike(part, on));
  return value;
}

}  // namespace weft
