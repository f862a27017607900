// SPDX-License-Identifier: Apache-2.0
#include "search/sample.h"

#include "base/error.h"
#include "lower/lower.h"
#include "profile/signatures.h"
#include "program/live_bytes.h"
#include "program/transfer.h"
#include "simulate/reuse.h"
#include "simulate/simulate.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

class Sampling {
 public:
  Sampling(
      const Program& program,
      const StepUnits& units,
      const SampleKey& key,
      const Cluster& cluster)
      : program_(program),
        block_(program.blocks.front()),
        units_(units),
        key_(key),
        cluster_(cluster),
        storage_(storages(block_)),
        costs_(units.units.size()),
        of_input_(block_.function.values.size(), -1) {
    const std::vector<Input>& inputs = block_.function.inputs;
    WEFT_CHECK(inputs.size() == units.of_input.size(), "inputs are lost");
    for (size_t i = 0; i < inputs.size(); ++i) {
      of_input_[index(inputs[i].value)] = units.of_input[i];
    }
  }

  std::vector<UnitCost> run() {
    find_places();
    play();
    measure_storages();
    measure_memory();
    measure_inputs();
    return std::move(costs_);
  }

 private:
  // Unit and phase of every instruction: of a call by its name, of all else by
  // the call before it.
  void find_places() {
    int32_t unit = 0;
    Phase phase = Phase::Forward;
    for (const Instruction& instruction : block_.instructions) {
      if (const auto* call = std::get_if<Call>(&instruction)) {
        const Node& node = block_.function.nodes[index(call->node)];
        if (phase == Phase::Forward && node.phase != Phase::Forward) {
          unit = units_.size() - 1;
        }
        phase = node.phase;
        unit = unit_of(node, unit);
      }
      units_of_.push_back(unit);
      phases_.push_back(phase);
    }
  }

  int32_t unit_of(const Node& node, int32_t before) const {
    if (node.phase == Phase::Optimizer) {
      for (const ValueId read : operands(node)) {
        const int32_t unit = of_input_[index(storage_[index(read)])];
        if (unit >= 0) {
          return unit;
        }
      }
      return before;
    }
    const int32_t unit =
        units_.of_name(block_.function[node.results.front()].name);
    return unit < 0 ? before : unit;
  }

  UnitCost& cost_at(size_t instruction) {
    return costs_[static_cast<size_t>(units_of_[instruction])];
  }

  // Ranks that differ in the axes of an exchange, as they would be numbered.
  std::vector<int64_t> group(const Start& start) const {
    const auto has = [&](const char* axis) {
      return std::find(start.axes.begin(), start.axes.end(), axis) !=
             start.axes.end();
    };
    const int64_t tensor = has("tensor") ? key_.tensor : 1;
    const int64_t context = has("context") ? key_.context : 1;
    const int64_t expert = has("expert") ? key_.expert : 1;
    std::vector<int64_t> ranks;
    for (int64_t e = 0; e < expert; ++e) {
      for (int64_t c = 0; c < context; ++c) {
        for (int64_t t = 0; t < tensor; ++t) {
          ranks.push_back((e * key_.context + c) * key_.tensor + t);
        }
      }
    }
    return ranks;
  }

  // What an exchange takes, and what of that the device loses.
  struct Taken {
    double wire_seconds = 0;
    double device_seconds = 0;
  };

  Taken seconds_of(const Start& start) const {
    if (!is_collective(start.kind)) {
      // To a neighbour.
      const Link link = link_between(cluster_, {0, key_.tensor});
      const double seconds =
          transfer_seconds(start.kind, 2, transfer_bytes(block_, start), link);
      return {seconds, link.device_share * seconds};
    }
    const std::vector<int64_t> ranks = group(start);
    if (ranks.size() == 1) {
      return {};
    }
    const Link link = link_between(cluster_, ranks);
    const double seconds = transfer_seconds(
        start.kind,
        static_cast<int64_t>(ranks.size()),
        wire_bytes(program_.meshes.front(), block_, start),
        link);
    return {seconds, link.device_share * seconds};
  }

  void play() {
    const Function& function = block_.function;
    const std::vector<NodeCosts> nodes =
        node_costs(function, signatures(function));
    const std::vector<std::vector<Use>> uses =
        has_caches(cluster_.device)
            ? uses_of(block_, nodes)
            : std::vector<std::vector<Use>>(block_.instructions.size());
    double now = 0;
    double wire_free = 0;
    std::map<ValueId, double> ends;
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      const double before = now;
      UnitCost& cost = cost_at(i);
      if (const auto* call = std::get_if<Call>(&block_.instructions[i])) {
        const Node& node = function.nodes[index(call->node)];
        now += call_seconds(
            nodes[index(call->node)],
            function[node.results.front()].type.dtype,
            cluster_.device,
            uses[i]);
      } else if (
          const auto* start = std::get_if<Start>(&block_.instructions[i])) {
        const Taken taken = seconds_of(*start);
        cost.transfer_seconds += taken.wire_seconds;
        if (taken.wire_seconds > 0) {
          wire_free = std::max(wire_free, now) + taken.wire_seconds;
        }
        for (const ValueId result : start->results) {
          ends[result] = taken.wire_seconds > 0 ? wire_free : now;
        }
        now += taken.device_seconds;
      } else if (
          const auto* wait = std::get_if<Wait>(&block_.instructions[i])) {
        now = std::max(now, ends[wait->value]);
      }
      switch (phases_[i]) {
        case Phase::Recompute:
          cost.again_seconds += now - before;
          cost.backward_seconds += now - before;
          break;
        case Phase::Backward:
          cost.backward_seconds += now - before;
          break;
        case Phase::Optimizer:
          cost.update_seconds += now - before;
          break;
        default:
          cost.forward_seconds += now - before;
      }
    }
  }

  struct Life {
    size_t made = 0;
    size_t freed = 0;
    // The last unit of forward that reads it.
    int32_t last_unit = -1;
    bool is_made = false;
    bool is_gradient = false;
  };

  void measure_storages() {
    lives_.resize(block_.function.values.size());
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      const Instruction& instruction = block_.instructions[i];
      for (const ValueId value : makes(block_, instruction)) {
        Life& life = lives_[index(storage_[index(value)])];
        if (!life.is_made) {
          life = {
              .made = i, .freed = block_.instructions.size(), .is_made = true};
        }
      }
      const bool is_free = std::holds_alternative<Free>(instruction);
      for (const ValueId value : reads(block_, instruction)) {
        Life& life = lives_[index(storage_[index(value)])];
        if (!is_free && phases_[i] == Phase::Forward) {
          life.last_unit = std::max(life.last_unit, units_of_[i]);
        }
        if (!is_free && phases_[i] == Phase::Optimizer && life.is_made &&
            phases_[life.made] != Phase::Optimizer) {
          life.is_gradient = true;
        }
      }
      if (const auto* free = std::get_if<Free>(&instruction)) {
        for (const ValueId value : free->values) {
          lives_[index(storage_[index(value)])].freed = i;
        }
      }
    }
  }

  bool is_kept(const Life& life) const {
    return life.is_made && phases_[life.made] == Phase::Forward &&
           life.freed < block_.instructions.size() &&
           phases_[life.freed] != Phase::Forward && !life.is_gradient;
  }

  void measure_memory() {
    const size_t count = block_.instructions.size();
    // What is accounted for elsewhere.
    std::vector<int64_t> accounted(count + 1, 0);
    for (size_t i = 0; i < lives_.size(); ++i) {
      const Life& life = lives_[i];
      const auto storage = static_cast<ValueId>(i);
      if (!life.is_made) {
        continue;
      }
      const int64_t bytes = aligned(storage_bytes(block_, storage));
      UnitCost& cost = cost_at(life.made);
      if (life.is_gradient) {
        cost.gradient_bytes += bytes;
      } else if (is_kept(life)) {
        cost.kept_bytes += bytes;
      }
      if (life.is_gradient || is_kept(life)) {
        accounted[life.made] += bytes;
        accounted[life.freed] -= bytes;
      }
      if (phases_[life.made] == Phase::Forward) {
        for (int32_t unit = units_of_[life.made]; unit < life.last_unit;
             ++unit) {
          costs_[static_cast<size_t>(unit)].output_bytes += bytes;
        }
      }
    }
    int64_t inputs = 0;
    for (const Input& input : block_.function.inputs) {
      inputs += aligned(storage_bytes(block_.function[input.value].type));
    }
    const std::vector<int64_t> live = live_bytes(block_);
    int64_t known = 0;
    for (size_t i = 0; i < count; ++i) {
      known += accounted[i];
      UnitCost& cost = cost_at(i);
      cost.temporary_bytes =
          std::max(cost.temporary_bytes, live[i] - known - inputs);
    }
  }

  void measure_inputs() {
    const std::vector<Input>& inputs = block_.function.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      UnitCost& cost =
          costs_[static_cast<size_t>(std::max(units_.of_input[i], 0))];
      const int64_t bytes =
          aligned(storage_bytes(block_.function[inputs[i].value].type));
      if (inputs[i].kind == InputKind::State) {
        cost.state_bytes += bytes;
      } else if (inputs[i].kind != InputKind::Batch) {
        cost.parameter_bytes += bytes;
      } else {
        cost.kept_bytes += bytes;
      }
    }
  }

  const Program& program_;
  const Block& block_;
  const StepUnits& units_;
  const SampleKey& key_;
  const Cluster& cluster_;
  const std::vector<ValueId> storage_;
  std::vector<UnitCost> costs_;
  // By value that is an input, the unit that reads it first.
  std::vector<int32_t> of_input_;
  // By instruction.
  std::vector<int32_t> units_of_;
  std::vector<Phase> phases_;
  // By storage.
  std::vector<Life> lives_;
};

}  // namespace

Parallel words_of(const SampleKey& key) {
  Parallel words;
  words.data = key.batch_parts;
  if (key.tensor > 1) {
    words.tensor = {key.tensor};
  }
  words.sequence = key.sequence;
  words.context = key.context;
  words.expert = key.expert;
  return words;
}

std::vector<UnitCost> sample_costs(
    const Graph& graph,
    const StepUnits& units,
    const SampleKey& key,
    const Cluster& cluster) {
  Plan plan = expand(words_of(key), graph, cluster.device);
  set_recompute(plan, step_of(graph), units, key.recompute);
  const Program program = lower_first_rank(graph, plan);
  return Sampling(program, units, key, cluster).run();
}

}  // namespace weft
