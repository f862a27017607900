// SPDX-License-Identifier: Apache-2.0
#include "lower/staged_items.h"

#include "lower/pass.h"
#include "ops/crossing.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {
namespace {

constexpr size_t kNobody = SIZE_MAX;

bool contains_value(const std::vector<ValueId>& all, ValueId value) {
  return std::find(all.begin(), all.end(), value) != all.end();
}

}  // namespace

StagedItems::StagedItems(
    const StagedStep& staged,
    const Block& block,
    const std::vector<Origin>& origins)
    : staged_(staged),
      block_(block),
      is_input_(block.function.values.size(), false),
      made_by_(block.function.values.size(), kNobody),
      home_(block.function.values.size(), kEverywhere),
      readers_(block.function.values.size()),
      orders_(staged.order.size()) {
  for (const Input& input : block.function.inputs) {
    is_input_[index(input.value)] = true;
  }
  collect(origins);
  find_stages();
  if (staged.lowering.position) {
    adopt(*staged.lowering.position);
  }
  find_homes();
  find_units();
  hurry();
  deal();
}

void StagedItems::collect(const std::vector<Origin>& origins) {
  for (size_t i = 0; i < block_.instructions.size(); ++i) {
    const Instruction& instruction = block_.instructions[i];
    StagedItem item;
    item.instructions = {instruction};
    item.reads = reads(block_, instruction);
    if (const auto* wait = std::get_if<Wait>(&instruction)) {
      if (contains_value(items_.back().makes, wait->value)) {
        items_.back().instructions.push_back(instruction);
        continue;
      }
      item.reads = {wait->value};
    }
    item.makes = makes(block_, instruction);
    item.origin = origins[i];
    if (rank_count(staged_.lowering.plan.time) == 1) {
      item.origin.part = 0;
    }
    for (const ValueId made : item.makes) {
      made_by_[index(made)] = items_.size();
    }
    for (const ValueId read : item.reads) {
      readers_[index(read)].push_back(items_.size());
    }
    items_.push_back(std::move(item));
  }
}

// Parts of inputs are cut wherever they are read.
bool StagedItems::is_part_of_input(const StagedItem& item) const {
  return item.origin.node == NodeId::None && item.reads.size() == 1 &&
         std::all_of(
             item.reads.begin(),
             item.reads.end(),
             [&](ValueId value) {
               const size_t maker = made_by_[index(value)];
               return maker == kNobody ? is_input_[index(value)]
                                       : is_part_of_input(items_[maker]);
             }) &&
         std::holds_alternative<Call>(item.instructions.front()) &&
         !is_returned(item.makes.front());
}

bool StagedItems::is_returned(ValueId value) const {
  return std::any_of(
      block_.function.outputs.begin(),
      block_.function.outputs.end(),
      [&](const Output& output) { return output.value == value; });
}

void StagedItems::find_stages() {
  for (StagedItem& item : items_) {
    if (item.origin.node != NodeId::None) {
      item.stage = staged_.stages.nodes[index(item.origin.node)];
    } else if (is_part_of_input(item)) {
      item.stage = -1;
    } else {
      for (const ValueId read : item.reads) {
        if (made_by_[index(read)] != kNobody) {
          item.stage = std::max<int64_t>(
              item.stage, items_[made_by_[index(read)]].stage);
        }
      }
    }
  }
}

// In the lowering of one position: what it reads of others and has not come by
// a crossing is made of the batch and the like, for the first of all readers.
// It is done here too.
void StagedItems::adopt(size_t position) {
  for (size_t i = items_.size(); i-- > 0;) {
    const size_t mine = position_of(items_[i]);
    if (mine != position && mine != kEverywhere) {
      continue;
    }
    for (const ValueId read : items_[i].reads) {
      const size_t maker = made_by_[index(read)];
      if (maker != kNobody && position_of(items_[maker]) != position) {
        items_[maker].stage = -1;
      }
    }
  }
}

size_t StagedItems::position_of(const StagedItem& item) const {
  return item.stage < 0 ? kEverywhere
                        : staged_.positions[static_cast<size_t>(item.stage)];
}

void StagedItems::find_homes() {
  for (const StagedItem& item : items_) {
    for (const ValueId made : item.makes) {
      home_[index(made)] = position_of(item);
    }
  }
  for (size_t i = 0; i < block_.function.inputs.size(); ++i) {
    const Input& input = block_.function.inputs[i];
    if (input.kind == InputKind::Parameter || input.kind == InputKind::Buffer ||
        input.kind == InputKind::State) {
      const ValueId whole = staged_.step.inputs[i].value;
      const int64_t stage = staged_.stages.inputs[index(whole)];
      home_[index(input.value)] =
          staged_.positions[stage == kNoStage ? 0 : static_cast<size_t>(stage)];
    }
  }
}

bool StagedItems::is_backward(const StagedItem& item) const {
  const NodeId node = item.origin.node;
  if (node == NodeId::None) {
    return false;
  }
  const Phase phase = staged_.step.nodes[index(node)].phase;
  return phase == Phase::Backward || phase == Phase::Recompute;
}

// Whether the item, of backward, can wait: no other stage and no further
// product of this one needs what it makes.
std::vector<bool> StagedItems::can_wait() const {
  std::vector<bool> out(items_.size(), false);
  for (size_t i = items_.size(); i-- > 0;) {
    const StagedItem& item = items_[i];
    if (!is_backward(item)) {
      continue;
    }
    // What crosses does not.
    out[i] = !crossing_of(staged_.step.nodes[index(item.origin.node)]);
    for (const ValueId made : item.makes) {
      for (const size_t reader : readers_[index(made)]) {
        const StagedItem& other = items_[reader];
        const bool is_same =
            is_backward(other) && other.origin.part == item.origin.part;
        // Adding it to other parts' is no product.
        const bool is_product = other.origin.node != NodeId::None &&
                                other.origin.node != item.origin.node &&
                                staged_.is_heavy[index(other.origin.node)];
        if (other.stage != item.stage ||
            (is_same && (!out[reader] || is_product))) {
          out[i] = false;
        }
      }
    }
  }
  return out;
}

void StagedItems::find_units() {
  const std::vector<bool> waits = has_weight_units(staged_.schedule)
                                      ? can_wait()
                                      : std::vector<bool>(items_.size(), false);
  for (size_t i = 0; i < items_.size(); ++i) {
    StagedItem& item = items_[i];
    const size_t position = position_of(item);
    if (position == kEverywhere) {
      continue;
    }
    const NodeId node = item.origin.node;
    const bool is_update =
        node == NodeId::None ||
        staged_.step.nodes[index(node)].phase == Phase::Optimizer;
    if (is_update || arrives(item)) {
      item.unit = staged_.schedule.order[position].size();
    } else if (item.origin.part >= 0) {
      const UnitKind kind = !is_backward(item) ? UnitKind::Forward
                            : waits[i]         ? UnitKind::Weight
                                               : UnitKind::Backward;
      item.unit = std::max(
          staged_.order[position].at({kind, item.stage, item.origin.part}),
          last_summand(item, position));
    } else {
      // What all parts have in common comes when it can.
      for (const ValueId read : item.reads) {
        const size_t maker = made_by_[index(read)];
        if (maker != kNobody && position_of(items_[maker]) == position) {
          item.unit = std::max(item.unit, items_[maker].unit);
        }
      }
    }
  }
}

// Whether it puts together what comes from another position: when somebody
// reads it.
bool StagedItems::arrives(const StagedItem& item) const {
  if (item.origin.node == NodeId::None) {
    return false;
  }
  const auto crossing =
      crossing_of(staged_.step.nodes[index(item.origin.node)]);
  return crossing && item.stage == crossing->to_stage;
}

// Where a sum over parts can be made: in the unit of the last one.
size_t StagedItems::last_summand(
    const StagedItem& item, size_t position) const {
  size_t last = 0;
  for (const ValueId read : item.reads) {
    const size_t maker = made_by_[index(read)];
    if (maker != kNobody && position_of(items_[maker]) == position &&
        items_[maker].origin.node == item.origin.node) {
      last = std::max(last, items_[maker].unit);
    }
  }
  return last;
}

// What somebody needs in an earlier unit is made there.
void StagedItems::hurry() {
  for (size_t i = items_.size(); i-- > 0;) {
    StagedItem& item = items_[i];
    for (const ValueId made : item.makes) {
      for (const size_t reader : readers_[index(made)]) {
        if (position_of(items_[reader]) == position_of(item)) {
          item.unit = std::min(item.unit, items_[reader].unit);
        }
      }
    }
  }
}

// The items of every position, in the order of its units.
void StagedItems::deal() {
  for (size_t i = items_.size(); i-- > 0;) {
    StagedItem& item = items_[i];
    const size_t position = position_of(item);
    if (position != kEverywhere) {
      orders_[position].push_back(i);
      continue;
    }
    for (size_t p = 0; p < orders_.size(); ++p) {
      if (first_unit_that_reads(i, p) != SIZE_MAX) {
        orders_[p].push_back(i);
      }
    }
  }
  for (size_t p = 0; p < orders_.size(); ++p) {
    std::vector<size_t>& all = orders_[p];
    std::map<size_t, size_t> unit;
    for (const size_t i : all) {
      unit[i] = position_of(items_[i]) == kEverywhere
                    ? first_unit_that_reads(i, p)
                    : items_[i].unit;
    }
    std::sort(all.begin(), all.end(), [&](size_t a, size_t b) {
      return std::pair(unit[a], a) < std::pair(unit[b], b);
    });
  }
}

// The first unit at the position that reads what the item makes; SIZE_MAX
// when none does.
size_t StagedItems::first_unit_that_reads(size_t item, size_t p) const {
  size_t first = SIZE_MAX;
  for (const ValueId made : items_[item].makes) {
    for (const size_t reader : readers_[index(made)]) {
      const size_t position = position_of(items_[reader]);
      const size_t unit = position == kEverywhere
                              ? first_unit_that_reads(reader, p)
                          : position == p ? items_[reader].unit
                                          : SIZE_MAX;
      first = std::min(first, unit);
    }
  }
  return first;
}

bool StagedItems::is_read_at(ValueId value, size_t p) const {
  for (const size_t reader : readers_[index(value)]) {
    const size_t position = position_of(items_[reader]);
    if (position == p || (position == kEverywhere &&
                          first_unit_that_reads(reader, p) != SIZE_MAX)) {
      return true;
    }
  }
  return is_known_to_all(value);
}

// The loss, and what else the model returns, is returned by all ranks.
bool StagedItems::is_known_to_all(ValueId value) const {
  return std::any_of(
      block_.function.outputs.begin(),
      block_.function.outputs.end(),
      [&](const Output& output) {
        return output.value == value && (output.kind == OutputKind::Loss ||
                                         output.kind == OutputKind::Extra);
      });
}

}  // namespace weft
