// SPDX-License-Identifier: Apache-2.0
// A step as a chain of units: its layers, and what lies before, between and
// after them. The search decides for whole units: in which stage of a pipeline
// they are, and what of them is made again in backward.
#pragma once

#include "graph/graph.h"
#include "profile/layer_classes.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

struct StepUnit {
  // Forward nodes from the first to the last, in their order in the step.
  NodeId first = NodeId::None;
  NodeId last = NodeId::None;
  // What a `stage` line says to begin here; "" where no stage can.
  std::string stage_pattern;
  // Units of the same kind are copies of each other.
  int32_t kind = 0;
};

struct StepUnits {
  // They cover forward.
  std::vector<StepUnit> units;
  // By node of the step, the unit it belongs to: forward by its place, backward
  // by its module or else by what it reads, an update by who first reads the
  // parameter.
  std::vector<int32_t> of_node;
  // By input, the unit that reads it first; -1: none does.
  std::vector<int32_t> of_input;
  // By module, where all forward nodes of it are in one unit.
  std::unordered_map<std::string, int32_t> of_module;

  int32_t size() const { return static_cast<int32_t>(units.size()); }
  // Of a value's name, or of its module's parents; -1 when they are in several.
  int32_t of_name(std::string_view value_name) const;
};

StepUnits step_units(const Function& step);

}  // namespace weft
