// SPDX-License-Identifier: Apache-2.0
#include "search/sample.h"

#include "base/error.h"
#include "lower/lower.h"
#include "lower/staged_step.h"
#include "ops/kernel.h"
#include "ops/op_def.h"
#include "profile/call_seconds.h"
#include "profile/signatures.h"
#include "program/live_bytes.h"
#include "program/transfer.h"
#include "simulate/reuse.h"
#include "simulate/simulate.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

bool is_over_data(const Start& start) {
  return std::find(start.axes.begin(), start.axes.end(), "data") !=
         start.axes.end();
}

class ShapeFinder {
 public:
  ShapeFinder(const Block& block, const StepUnits& units)
      : block_(block),
        units_(units),
        of_input_(block.function.values.size(), -1) {
    const std::vector<Input>& inputs = block_.function.inputs;
    WEFT_CHECK(inputs.size() == units.of_input.size(), "inputs are lost");
    for (size_t i = 0; i < inputs.size(); ++i) {
      of_input_[index(inputs[i].value)] = units.of_input[i];
    }
  }

  SampleShape run() {
    out_.storage = storages(block_);
    find_places();
    find_lives();
    find_what_waits();
    find_changes();
    return std::move(out_);
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
      out_.units.push_back(unit);
      out_.phases.push_back(phase);
    }
  }

  int32_t unit_of(const Node& node, int32_t before) const {
    if (node.phase == Phase::Optimizer) {
      for (const ValueId read : operands(node)) {
        const int32_t unit = of_input_[index(out_.storage[index(read)])];
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

  void find_lives() {
    out_.lives.resize(block_.function.values.size());
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      const Instruction& instruction = block_.instructions[i];
      for (const ValueId value : makes(block_, instruction)) {
        StorageLife& life = life_of(value);
        // A view makes nothing.
        if (out_.storage[index(value)] == value) {
          life = {
              .made = i, .freed = block_.instructions.size(), .is_made = true};
        }
      }
      for (const ValueId value : reads(block_, instruction)) {
        StorageLife& life = life_of(value);
        if (out_.phases[i] == Phase::Forward) {
          life.last_unit = std::max(life.last_unit, out_.units[i]);
        }
        if (out_.phases[i] == Phase::Optimizer && life.is_made &&
            out_.phases[life.made] != Phase::Optimizer) {
          life.is_gradient = true;
        }
      }
      if (const auto* start = std::get_if<Start>(&instruction);
          start != nullptr && is_over_data(*start) &&
          start->kind != TransferKind::AllGather) {
        for (const ValueId value : start->results) {
          life_of(value).is_summed = true;
        }
      }
      if (const auto* free = std::get_if<Free>(&instruction)) {
        for (const ValueId value : free->values) {
          life_of(value).freed = i;
        }
      }
    }
    for (StorageLife& life : out_.lives) {
      life.is_kept = life.is_made && !life.is_gradient &&
                     out_.phases[life.made] == Phase::Forward &&
                     life.freed < block_.instructions.size() &&
                     out_.phases[life.freed] != Phase::Forward;
    }
  }

  // As a schedule with units for weights splits backward (staged_items.h):
  // what nobody needs but the updates, and no further product, can wait.
  std::vector<bool> can_wait() const {
    const Function& function = block_.function;
    const std::vector<NodeCosts> costs =
        node_costs(function, signatures(function));
    std::vector<bool> out(block_.instructions.size(), false);
    std::vector<bool> is_needed(function.values.size(), false);
    for (size_t i = block_.instructions.size(); i-- > 0;) {
      if (out_.phases[i] != Phase::Backward &&
          out_.phases[i] != Phase::Recompute) {
        continue;
      }
      const Instruction& instruction = block_.instructions[i];
      const std::vector<ValueId> made = makes(block_, instruction);
      out[i] = std::none_of(made.begin(), made.end(), [&](ValueId value) {
        return is_needed[index(value)];
      });
      const std::vector<ValueId> read = reads(block_, instruction);
      const auto* call = std::get_if<Call>(&instruction);
      int64_t largest = 1;
      for (const ValueId value : read) {
        largest = std::max(largest, element_count(function[value].type));
      }
      const bool is_product =
          call != nullptr &&
          costs[index(call->node)].flops > kHeavyOperations * largest;
      for (const ValueId value : read) {
        is_needed[index(value)] =
            is_needed[index(value)] || !out[i] || is_product;
      }
    }
    return out;
  }

  void find_what_waits() {
    const std::vector<bool> waits = can_wait();
    const Function& function = block_.function;
    out_.weight_units.assign(function.values.size(), -1);
    // By value, the one that it is a view of, or itself; and where that is
    // made.
    std::vector<ValueId> seen(function.values.size(), ValueId::None);
    std::vector<size_t> made(function.values.size(), 0);
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      const Instruction& instruction = block_.instructions[i];
      const auto* call = std::get_if<Call>(&instruction);
      const std::vector<ValueId> read = reads(block_, instruction);
      const bool is_seen = call != nullptr && !read.empty() &&
                           is_view(function.nodes[index(call->node)]);
      for (const ValueId value : makes(block_, instruction)) {
        seen[index(value)] = is_seen ? seen[index(read.front())] : value;
        made[index(value)] = i;
      }
      for (const ValueId value : read) {
        const ValueId root = seen[index(value)];
        if (call != nullptr && waits[i] && root != ValueId::None &&
            !waits[made[index(root)]] && !life_of(root).is_gradient &&
            out_.weight_units[index(root)] < 0) {
          out_.weight_units[index(root)] = out_.units[i];
        }
      }
    }
  }

  StorageLife& life_of(ValueId value) {
    return out_.lives[index(out_.storage[index(value)])];
  }

  void find_changes() {
    const std::vector<Tier> tier = tiers(block_);
    const auto add = [&](size_t at, ValueId storage, bool is_made) {
      if (tier[index(storage)] == Tier::Device) {
        out_.changes.push_back({at, storage, is_made});
      }
    };
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      for (const ValueId made : makes(block_, block_.instructions[i])) {
        if (out_.storage[index(made)] == made) {
          add(i, made, true);
        }
      }
      if (const auto* free = std::get_if<Free>(&block_.instructions[i])) {
        for (const ValueId value : free->values) {
          add(i, out_.storage[index(value)], false);
        }
      }
    }
  }

  const Block& block_;
  const StepUnits& units_;
  // By value that is an input, the unit that reads it first.
  std::vector<int32_t> of_input_;
  SampleShape out_;
};

class Sampling {
 public:
  Sampling(
      const Block& block,
      const SampleShape& shape,
      const StepUnits& units,
      const SampleKey& key,
      const Cluster& cluster)
      : block_(block),
        shape_(shape),
        units_(units),
        key_(key),
        cluster_(cluster),
        costs_(units.units.size()) {}

  std::vector<UnitCost> run() {
    play();
    measure_memory();
    measure_inputs();
    return std::move(costs_);
  }

 private:
  UnitCost& cost_at(size_t instruction) {
    return costs_[static_cast<size_t>(shape_.units[instruction])];
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

  const Link& link_among(const std::vector<int64_t>& ranks) {
    const auto [at, is_new] = links_.try_emplace(ranks);
    if (is_new) {
      at->second = link_between(cluster_, ranks);
    }
    return at->second;
  }

  // What an exchange takes, and what of that the device loses.
  struct Taken {
    double wire_seconds = 0;
    double device_seconds = 0;
  };

  Taken seconds_of(const Start& start) {
    if (!is_collective(start.kind)) {
      // To a neighbour.
      const Link& link = link_among({0, key_.tensor});
      const double seconds =
          transfer_seconds(start.kind, 2, transfer_bytes(block_, start), link);
      return {seconds, link.device_share * seconds};
    }
    const std::vector<int64_t> ranks = group(start);
    if (ranks.size() == 1) {
      return {};
    }
    const auto count = static_cast<int64_t>(ranks.size());
    const Link& link = link_among(ranks);
    const double seconds = transfer_seconds(
        start.kind,
        count,
        collective_bytes(
            start.kind,
            count,
            bytes_of(start.operands),
            bytes_of(start.results)),
        link);
    return {seconds, link.device_share * seconds};
  }

  int64_t bytes_of(const std::vector<ValueId>& values) const {
    int64_t bytes = 0;
    for (const ValueId value : values) {
      bytes += dense_bytes(block_.function[value].type);
    }
    return bytes;
  }

  // Whether it makes a gradient from the rows of all micro-batches.
  bool is_once(const Instruction& instruction) const {
    if (key_.batch_parts == 1 || !std::holds_alternative<Call>(instruction)) {
      return false;
    }
    const ValueId made = makes(block_, instruction).front();
    const StorageLife& life = shape_.lives[index(shape_.storage[index(made)])];
    return life.is_gradient && !life.is_summed;
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
    HostClock host;
    const Device& device = cluster_.device;
    std::vector<double> ends(function.values.size(), 0);
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      const double before = now;
      UnitCost& cost = cost_at(i);
      if (const auto* call = std::get_if<Call>(&block_.instructions[i])) {
        const Node& node = function.nodes[index(call->node)];
        now = std::max(now, host.issue(device)) +
              call_seconds(
                  nodes[index(call->node)],
                  function[node.results.front()].type.dtype,
                  device,
                  uses[i]);
        host.ends_at(device, now);
      } else if (
          const auto* start = std::get_if<Start>(&block_.instructions[i])) {
        const Taken taken = seconds_of(*start);
        now = std::max(now, host.issue(device));
        host.ends_at(device, now);
        cost.transfer_seconds += taken.wire_seconds;
        if (taken.wire_seconds > 0) {
          wire_free = std::max(wire_free, now) + taken.wire_seconds;
        }
        for (const ValueId result : start->results) {
          ends[index(result)] = taken.wire_seconds > 0 ? wire_free : now;
        }
        now += taken.device_seconds;
        if (start->kind == TransferKind::AllGather && is_over_data(*start) &&
            shape_.phases[i] != Phase::Forward) {
          cost.given_bytes += bytes_of(start->operands);
        }
      } else if (
          const auto* wait = std::get_if<Wait>(&block_.instructions[i])) {
        now = std::max(now, ends[index(wait->value)]);
      }
      switch (shape_.phases[i]) {
        case Phase::Recompute:
          cost.again_seconds += now - before;
          cost.backward_seconds += now - before;
          break;
        case Phase::Backward:
          (is_once(block_.instructions[i]) ? cost.update_seconds
                                           : cost.backward_seconds) +=
              now - before;
          break;
        case Phase::Optimizer:
          cost.update_seconds += now - before;
          break;
        default:
          cost.forward_seconds += now - before;
      }
    }
  }

  void measure_memory() {
    const size_t count = block_.instructions.size();
    // What is accounted for elsewhere, and what lives besides inputs.
    std::vector<int64_t> accounted(count + 1, 0);
    std::vector<int64_t> live(count + 1, 0);
    for (size_t i = 0; i < shape_.lives.size(); ++i) {
      const StorageLife& life = shape_.lives[i];
      if (!life.is_made) {
        continue;
      }
      const int64_t bytes =
          aligned(storage_bytes(block_, static_cast<ValueId>(i)));
      UnitCost& cost = cost_at(life.made);
      if (life.is_gradient) {
        cost.gradient_bytes += bytes;
        cost.summed_bytes += life.is_summed ? bytes : 0;
      } else if (life.is_kept) {
        cost.kept_bytes += bytes;
      }
      if (life.is_gradient || life.is_kept) {
        accounted[life.made] += bytes;
        accounted[life.freed] -= bytes;
      }
      if (shape_.phases[life.made] == Phase::Forward) {
        for (int32_t unit = shape_.units[life.made]; unit < life.last_unit;
             ++unit) {
          costs_[static_cast<size_t>(unit)].output_bytes += bytes;
        }
      }
    }
    for (size_t i = 0; i < shape_.weight_units.size(); ++i) {
      if (shape_.weight_units[i] >= 0) {
        costs_[static_cast<size_t>(shape_.weight_units[i])].waiting_bytes +=
            aligned(storage_bytes(block_.function.values[i].type));
      }
    }
    for (const StorageChange& change : shape_.changes) {
      const int64_t bytes = storage_bytes(block_, change.storage);
      live[change.instruction] += change.is_made ? bytes : -bytes;
    }
    int64_t known = 0;
    int64_t now = 0;
    for (size_t i = 0; i < count; ++i) {
      known += accounted[i];
      now += live[i];
      UnitCost& cost = cost_at(i);
      cost.temporary_bytes = std::max(cost.temporary_bytes, now - known);
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

  const Block& block_;
  const SampleShape& shape_;
  const StepUnits& units_;
  const SampleKey& key_;
  const Cluster& cluster_;
  std::vector<UnitCost> costs_;
  // By the ranks that meet.
  std::map<std::vector<int64_t>, Link> links_;
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
  words.seats = key.seats;
  return words;
}

Program lower_sample(
    const Graph& graph,
    const StepUnits& units,
    const SampleKey& key,
    const Device& device) {
  Plan plan = expand(words_of(key), graph, device);
  set_recompute(plan, step_of(graph), units, key.recompute);
  return lower_first_rank(graph, plan);
}

SampleShape sample_shape(const Program& program, const StepUnits& units) {
  return ShapeFinder(program.blocks.front(), units).run();
}

std::vector<UnitCost> play_sample(
    const Program& program,
    const SampleShape& shape,
    const StepUnits& units,
    const SampleKey& key,
    const Cluster& cluster) {
  return Sampling(program.blocks.front(), shape, units, key, cluster).run();
}

std::vector<UnitCost> sample_costs(
    const Graph& graph,
    const StepUnits& units,
    const SampleKey& key,
    const Cluster& cluster) {
  const Program program = lower_sample(graph, units, key, cluster.device);
  return play_sample(
      program, sample_shape(program, units), units, key, cluster);
}

}  // namespace weft
