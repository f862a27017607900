// SPDX-License-Identifier: Apache-2.0
// Turns a block into tensors at their places and actions on them.
#pragma once

#include "execute/executor.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft {

// When instructions ran.
struct StepClock {
  std::chrono::steady_clock::time_point begin;
  std::vector<Event> events;

  double seconds(std::chrono::steady_clock::time_point time) const {
    return std::chrono::duration<double>(time - begin).count();
  }
  double now_seconds() const {
    return seconds(std::chrono::steady_clock::now());
  }
};

class ExecutorBuilder {
 public:
  ExecutorBuilder(
      const Program& program,
      int64_t rank,
      World* world,
      Arena& arena,
      uint64_t seed,
      Executor& executor);

  void build();

 private:
  using Action = Executor::Action;

  void make_inputs();
  Action action(const Call& call);
  Action action(const Start& start);
  Action action(const Wait& wait);
  Action action(const Free& free);
  void check_view(const at::Tensor& of, const at::Tensor& view) const;
  void check_places(const Node& node);
  Action bind(const Node& node, NodeId id);
  // Transfers are in executor_transfers.cpp.
  using Move = std::function<std::unique_ptr<Pending>(Communicator&)>;
  Move move(const Start& start);
  at::Tensor all_reduced(const Start& start);
  Action copy(const Start& start);
  // Gives the results their tensors.
  void place_results(const Start& start);
  // With whom, in order.
  std::vector<int64_t> ranks_of(const Start& start) const;
  // Joins all groups of the block.
  void join_groups();

  // Counts what a kernel of ours writes: it does not ask the allocator.
  void note_filled(const Node& node, const Scratch& scratch);
  void add_rooms(const Scratch& scratch, CallMemory& memory);
  // Finds what instructions before the last guard write of what is resident.
  void find_put_aside();
  // Keeps track of what is in use.
  void follow(const Instruction& instruction);

  // The memory of a storage; nullptr for one without bytes.
  std::byte* memory_of(ValueId storage) const;
  at::Tensor& tensor(ValueId value);
  std::vector<at::Tensor> tensors(const std::vector<ValueId>& values);

  const Program& program_;
  const Block& block_;
  const int64_t rank_;
  World* const world_;
  Arena& arena_;
  const uint64_t seed_;
  Executor& executor_;
  const std::vector<ValueId> storage_;
  std::byte* step_ = nullptr;
  int64_t arena_bytes_ = 0;
  // Storages of the arena that are in use at this instruction: offset and end.
  std::map<int64_t, int64_t> live_;
  // By storage: memory that is not the arena's step region.
  std::vector<std::byte*> elsewhere_;
  // By result of a transfer: what to wait for, with its instruction.
  struct Transfer {
    std::unique_ptr<Pending> pending;
    size_t instruction = 0;
  };
  std::vector<std::shared_ptr<Transfer>> transfers_;
  size_t at_ = 0;
};

}  // namespace weft
