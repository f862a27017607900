// SPDX-License-Identifier: Apache-2.0
// How ranks talk to each other. The executor knows these two interfaces only;
// gloo.cpp is what stands behind them on CPUs.
#pragma once

#include "execute/rendezvous.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

// A collective under way.
class Pending {
 public:
  virtual ~Pending() = default;
  // Returns when it is done, with the time at which it was. c10::Error passes
  // through.
  virtual std::chrono::steady_clock::time_point wait() = 0;
};

// One group of ranks. All of them make the same calls in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Puts the sum over the group into `tensor`, which must be dense and stay
  // alive until wait().
  virtual std::unique_ptr<Pending> all_reduce(const at::Tensor& tensor) = 0;
};

// All ranks of a run.
class World {
 public:
  virtual ~World() = default;
  // Among `ranks`, which are in order and hold this one. All of them must ask.
  virtual std::unique_ptr<Communicator> group(
      const std::vector<int64_t>& ranks) = 0;
  // On rank 0 the texts of all ranks, in order; on the others nothing. All
  // ranks must call it. For small things at the end of a run.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
};

// Returns when all ranks are there. Throws UserError when they do not come
// within the rendezvous's timeout.
std::unique_ptr<World> connect_gloo(const Rendezvous& rendezvous);

}  // namespace weft
