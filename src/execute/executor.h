// SPDX-License-Identifier: Apache-2.0
// Program -> Timeline, for real: one rank's instructions, in order. Every
// tensor of the block has its place from the start, so a step only calls
// kernels.
#pragma once

#include "execute/arena.h"
#include "execute/bound_call.h"
#include "execute/communicator.h"
#include "program/live_bytes.h"
#include "program/program.h"
#include "program/timeline.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft {

class FlightRecord;
struct StepClock;

class Executor {
 public:
  // Looks up every operator, joins every group of ranks and makes every tensor
  // once. `program`, `arena` and `world` must outlive it; a program of one rank
  // needs no world. Throws UserError for an operator that does not exist and a
  // program that does not fit the arena.
  Executor(
      const Program& program,
      int64_t rank,
      World* world,
      Arena& arena,
      uint64_t seed);
  ~Executor();

  const Block& block() const { return block_; }

  // Where the block's inputs lie, in its order; fill them before a step. Those
  // that are resident keep their values, and the arena has them under
  // resident_name; the batch is read anew.
  const std::vector<at::Tensor>& inputs() const { return inputs_; }
  // Where its outputs lie: to be read before the next step of any program.
  const std::vector<at::Tensor>& outputs() const { return outputs_; }

  // Runs the block once. Random numbers follow from the seed, `step`, and the
  // node's rng. Throws UserError naming rank and instruction when an operator
  // or a transfer fails.
  void run(int64_t step);
  // The same, and this rank's events.
  Timeline run_timed(int64_t step);

  // The bytes that this rank has taken from others so far, by kind of transfer:
  // after one step, what wire_bytes says of the program (see
  // Communicator::taken_bytes).
  int64_t taken_bytes(TransferKind kind) const;

  // Every instruction is marked there from now on; `record` must outlive it.
  void mark_in(FlightRecord& record);

  // What the rank is doing now, from any thread: "step 3, instruction 7 (%a =
  // aten.mm)".
  std::string doing() const;

  // The most memory that its steps really used, to compare with
  // peak_bytes(block): what is resident, and the highest that a kernel was
  // given of the arena.
  int64_t used_bytes() const;
  // What kernels took beyond the scratch memory that was planned for them.
  int64_t overflow_bytes() const { return meter_.overflow_bytes; }
  // Which call took most of it, as words; empty when none did.
  std::string overflow() const;

 private:
  friend class ExecutorBuilder;
  // One instruction, ready to run; `clock` is null when nobody asks for times.
  using Action = std::function<void(int64_t step, StepClock* clock)>;

  void run_actions(int64_t step, StepClock* clock);
  [[noreturn]] void fail(size_t instruction, const std::string& why) const;
  // What the kernel's own message leaves out, or "".
  std::string explained(size_t instruction) const;
  std::string named(size_t instruction, const std::string& why) const;
  // What a step may change before its last guard is put aside, and back where
  // one fails.
  void put_aside();
  void put_back(size_t instruction);

  const Program& program_;
  const Block& block_;
  const int64_t rank_;
  const World* const world_;
  MemoryMeter meter_;
  // Where a kernel puts the numbers that it computes with, a few bytes each on
  // the host whatever the device, when the arena is full: four at once.
  alignas(
      kAlignmentBytes) std::array<std::byte, 4 * kAlignmentBytes> numbers_ = {};
  // Where in the arena what no kernel of PyTorch writes ends: the batch, what
  // transfers bring, and what kernels of ours make.
  int64_t filled_end_bytes_ = 0;
  // By value.
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> outputs_;
  // By their ranks.
  std::map<std::vector<int64_t>, std::unique_ptr<Communicator>> groups_;
  // What lies on the host.
  std::vector<at::Tensor> host_;
  torch::jit::Stack stack_;
  // One an instruction; empty for those that only plan memory.
  std::vector<Action> actions_;
  size_t overflow_at_ = 0;
  struct PutAside {
    at::Tensor tensor;
    at::Tensor before;
  };
  std::vector<PutAside> put_aside_;
  // The instructions that wait, each with the one that started the transfer.
  struct WaitFor {
    size_t wait = 0;
    size_t start = 0;
  };
  std::vector<WaitFor> waits_;
  FlightRecord* record_ = nullptr;
  // Of the first instruction, in the record.
  uint32_t first_name_ = 0;
  std::atomic<int64_t> step_ = -1;
  std::atomic<int64_t> instruction_ = 0;
};

// "parameter/blocks.0.weight": the name under which the arena has an input.
std::string resident_name(const Input& input);

}  // namespace weft
