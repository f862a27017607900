// SPDX-License-Identifier: Apache-2.0
// Program -> Timeline, for real: one rank's instructions, in order.
#pragma once

#include "execute/communicator.h"
#include "execute/optimizer_call.h"
#include "program/program.h"
#include "program/timeline.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace weft {

class Executor {
 public:
  // Looks up every operator and joins every group of ranks once. `program` and
  // `world` must outlive it; a program of one rank needs no world. Throws
  // UserError for an operator that does not exist.
  Executor(const Program& program, int64_t rank, World* world, uint64_t seed);

  struct Step {
    // In the order of the block's outputs.
    std::vector<at::Tensor> outputs;
    // This rank's events.
    Timeline timeline;
  };

  // Runs the block once. `inputs` in the order of the block's inputs, each one
  // this rank's piece; those that the program frees are given back while it
  // runs if the caller keeps no copy. Random numbers follow from the seed,
  // `step`, and the node's rng. Throws UserError naming rank and instruction
  // when an operator or a collective fails.
  Step run(std::vector<at::Tensor> inputs, int64_t step);

  const Block& block() const { return block_; }

 private:
  class Frame;

  void seed_random(const Node& node, int64_t step) const;

  const Program& program_;
  const Block& block_;
  const int64_t rank_;
  const uint64_t seed_;
  // By node of the block.
  std::vector<Kernel> kernels_;
  // By the axes of the collective.
  std::map<std::vector<std::string>, std::unique_ptr<Communicator>> groups_;
  // For every value, those that lie in its storage; empty for other values.
  std::vector<std::vector<ValueId>> in_storage_;
  std::vector<ValueId> storage_;
};

}  // namespace weft
