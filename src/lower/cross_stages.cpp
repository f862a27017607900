// SPDX-License-Identifier: Apache-2.0
// Where stages have meshes of their own, what is made or kept at one position
// of the pipeline and read at another gets a node for the way between them, one
// for each position that reads it; so does what all ranks return. Then every
// position has a lowering of its own, of the whole step on its mesh: what
// others do of it tells how it would lie here, and so how it should arrive
// (cut_crossings.cpp).
#include "base/text.h"
#include "lower/pass.h"
#include "lower/stages.h"
#include "ops/crossing.h"
#include "ops/kernel.h"
#include "ops/op_def.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

bool is_for_all(const Output& output) {
  return output.kind == OutputKind::Loss || output.kind == OutputKind::Extra;
}

class StageCrossings {
 public:
  explicit StageCrossings(Lowering& lowering)
      : lowering_(lowering),
        step_(*find_function(lowering.graph, "step")),
        stages_(stages_of(step_, lowering.plan)),
        home_(step_.values.size(), kNoStage),
        names_(step_) {
    const Schedule schedule = schedule_of(lowering.plan);
    for (int64_t stage = 0; stage < schedule.stages; ++stage) {
      positions_.push_back(static_cast<size_t>(position_of(schedule, stage)));
    }
  }

  void run() {
    find_homes();
    find_ways();
    add_nodes();
    renumber(step_);
    correct_types();
    split();
  }

 private:
  size_t position(int64_t stage) const {
    return positions_[static_cast<size_t>(stage)];
  }

  // The batch, scalars and constants are wherever they are read.
  void find_homes() {
    for (const Input& input : step_.inputs) {
      if (input.kind == InputKind::Parameter ||
          input.kind == InputKind::Buffer || input.kind == InputKind::State) {
        home_[index(input.value)] =
            std::max<int64_t>(stages_.inputs[index(input.value)], 0);
      }
    }
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      for (const ValueId result : step_.nodes[i].results) {
        home_[index(result)] = stages_.nodes[i];
      }
    }
  }

  // To a stage at another position.
  bool crosses(ValueId value, int64_t stage) const {
    const int64_t home = home_[index(value)];
    return home != kNoStage && position(home) != position(stage);
  }

  void find_ways() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const int64_t stage = stages_.nodes[i];
      for (const ValueId read : operands(step_.nodes[i])) {
        if (crosses(read, stage)) {
          ways_[read].try_emplace(position(stage), stage);
        }
      }
    }
    for (const Output& output : step_.outputs) {
      for (size_t stage = 0; stage < positions_.size(); ++stage) {
        const auto to = static_cast<int64_t>(stage);
        if (is_for_all(output) && crosses(output.value, to)) {
          ways_[output.value].try_emplace(position(to), to);
        }
      }
    }
  }

  void add_nodes() {
    // By value, what a node reads in its place.
    std::vector<ValueId> now(step_.values.size());
    for (size_t i = 0; i < now.size(); ++i) {
      now[i] = static_cast<ValueId>(i);
    }
    std::vector<Node> nodes = std::exchange(step_.nodes, {});
    Phase phase = Phase::Forward;
    for (size_t i = 0; i < nodes.size(); ++i) {
      Node& node = nodes[i];
      phase = node.phase;
      const std::vector<ValueId> read = operands(node);
      for (const ValueId value : read) {
        if (crosses(value, stages_.nodes[i])) {
          now[index(value)] = crossed(value, stages_.nodes[i], phase);
        }
      }
      replace_operands(node, now);
      for (const ValueId value : read) {
        now[index(value)] = value;
      }
      // Of the recorded run; lowering frees by itself.
      node.releases.clear();
      const std::vector<ValueId> results = node.results;
      step_.nodes.push_back(std::move(node));
      node_stages_.push_back(stages_.nodes[i]);
      for (const ValueId result : results) {
        cross(result, phase);
      }
    }
    // Inputs that are only returned.
    for (const auto& [value, ways] : ways_) {
      cross(value, phase);
    }
  }

  void cross(ValueId value, Phase phase) {
    const auto found = ways_.find(value);
    if (found == ways_.end()) {
      return;
    }
    for (const auto& [to, stage] : found->second) {
      crossed(value, stage, phase);
    }
  }

  // The value at the stage's position.
  ValueId crossed(ValueId value, int64_t stage, Phase phase) {
    const auto [found, is_new] =
        crossed_.try_emplace({value, position(stage)}, ValueId::None);
    if (is_new) {
      std::string name =
          names_.unique("", cat(step_[value].name, ".at", position(stage)));
      Node node = crossing_node(value, {home_[index(value)], stage}, phase);
      found->second = add_value(step_, name, like(step_[value].type));
      node.results = {found->second};
      step_.nodes.push_back(std::move(node));
      node_stages_.push_back(stage);
      crossed_names_[{step_[value].name, position(stage)}] = std::move(name);
    }
    return found->second;
  }

  // What crosses loses its gaps, and so do its views.
  void correct_types() {
    std::vector<bool> is_other(step_.values.size(), false);
    for (const Node& node : step_.nodes) {
      const std::vector<ValueId> read = operands(node);
      if (crossing_of(node)) {
        is_other[index(node.results.front())] =
            step_[node.results.front()].type != step_[read.front()].type;
        continue;
      }
      if (std::none_of(read.begin(), read.end(), [&](ValueId value) {
            return is_other[index(value)];
          })) {
        continue;
      }
      const std::vector<TensorType> types = types_of(step_, node);
      for (size_t i = 0; i < types.size() && i < node.results.size(); ++i) {
        TensorType& type = step_[node.results[i]].type;
        is_other[index(node.results[i])] = type != types[i];
        type = types[i];
      }
    }
  }

  // Each returns what has crossed to it.
  void split() {
    std::unordered_map<std::string, ValueId> by_name;
    for (size_t i = 0; i < step_.values.size(); ++i) {
      by_name[step_.values[i].name] = static_cast<ValueId>(i);
    }
    const std::vector<Mesh> meshes = position_meshes(lowering_.plan);
    std::vector<Lowering> all;
    std::vector<int64_t> input_stages;
    for (const Input& input : step_.inputs) {
      // Inputs keep their numbers.
      input_stages.push_back(stages_.inputs[index(input.value)]);
    }
    for (size_t p = 0; p < meshes.size(); ++p) {
      Lowering& one = all.emplace_back(lowering_);
      one.position = p;
      one.node_stages = node_stages_;
      one.input_stages = input_stages;
      one.space = meshes[p];
      one.mesh = whole_mesh(meshes[p], lowering_.plan.time);
      Function& step = *find_function(one.graph, "step");
      for (Output& output : step.outputs) {
        const auto found = crossed_names_.find({step[output.value].name, p});
        if (is_for_all(output) && found != crossed_names_.end()) {
          output.value = by_name.at(found->second);
        }
      }
    }
    lowering_.by_position = std::move(all);
  }

  Lowering& lowering_;
  Function& step_;
  const StageMap stages_;
  // By stage.
  std::vector<size_t> positions_;
  // By value: the stage that makes or keeps it.
  std::vector<int64_t> home_;
  // For each value, the positions that read it, and one of their stages that
  // does.
  std::map<ValueId, std::map<size_t, int64_t>> ways_;
  std::map<std::pair<ValueId, size_t>, ValueId> crossed_;
  // Likewise, by name.
  std::map<std::pair<std::string, size_t>, std::string> crossed_names_;
  // By node, with those that were added.
  std::vector<int64_t> node_stages_;
  NameTable names_;
};

}  // namespace

void cross_stages(Lowering& lowering) {
  if (has_unequal_stages(lowering.plan)) {
    StageCrossings(lowering).run();
  }
}

}  // namespace weft
