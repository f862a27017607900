// SPDX-License-Identifier: Apache-2.0
// The instructions of a block, dealt out to the positions of a pipeline in the
// order of its schedule.
#pragma once

#include "lower/staged_step.h"
#include "program/program.h"

#include <cstdint>
#include <vector>

namespace weft {

// Instructions that stay together: a call, or a transfer with its wait.
struct StagedItem {
  std::vector<Instruction> instructions;
  std::vector<ValueId> reads;
  std::vector<ValueId> makes;
  Origin origin;
  int64_t stage = 0;
  // Where it belongs in its position's order of units.
  size_t unit = 0;
};

// Of the batch, of scalars and constants, and of what is cut from them:
// wherever they are read.
inline constexpr size_t kEverywhere = SIZE_MAX;

class StagedItems {
 public:
  // All of them must outlive it. `block` has the work of all stages and parts;
  // `origins` has one entry an instruction.
  StagedItems(
      const StagedStep& staged,
      const Block& block,
      const std::vector<Origin>& origins);

  const StagedItem& item(size_t number) const { return items_[number]; }
  // Those of a position, by their number, in its order.
  const std::vector<size_t>& at(size_t position) const {
    return orders_[position];
  }
  // The position that does the item.
  size_t position_of(const StagedItem& item) const;
  // The position that makes the value, or has it as an input.
  size_t home(ValueId value) const { return home_[index(value)]; }
  bool is_read_at(ValueId value, size_t position) const;
  // The loss, and what else the model returns, is returned by all ranks.
  bool is_known_to_all(ValueId value) const;

 private:
  void collect(const std::vector<Origin>& origins);
  void find_stages();
  void adopt(size_t position);
  void find_homes();
  void find_units();
  void hurry();
  void deal();
  bool is_part_of_input(const StagedItem& item) const;
  bool arrives(const StagedItem& item) const;
  bool is_returned(ValueId value) const;
  bool is_backward(const StagedItem& item) const;
  std::vector<bool> can_wait() const;
  size_t last_summand(const StagedItem& item, size_t position) const;
  size_t first_unit_that_reads(size_t item, size_t position) const;

  const StagedStep& staged_;
  const Block& block_;
  std::vector<StagedItem> items_;
  // By value of the block: whether it is an input, the item that makes it,
  // where it lives, and the items that read it.
  std::vector<bool> is_input_;
  std::vector<size_t> made_by_;
  std::vector<size_t> home_;
  std::vector<std::vector<size_t>> readers_;
  // By position.
  std::vector<std::vector<size_t>> orders_;
};

}  // namespace weft
