// SPDX-License-Identifier: Apache-2.0
// How ranks talk to each other. The executor knows these interfaces only.
// Behind them stand shared memory (shared_communicator.cpp) for ranks of one
// machine, and Gloo (gloo.cpp).
#pragma once

#include "execute/rendezvous.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft {

// A collective under way.
class Pending {
 public:
  virtual ~Pending() = default;
  // Returns when it is done, with the time at which it was. Throws UserError
  // that names the rank at fault when the others are gone, do not answer or
  // are too slow (watch.h). Called once, from the thread that started it.
  virtual std::chrono::steady_clock::time_point wait() = 0;
};

// One group of ranks. All of them make the same calls in the same order, with
// the same types. Every call returns at once; the work goes on while the caller
// computes. Tensors are dense, are taken in the order of memory, and must
// neither be changed nor freed before wait().
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Puts the sum over the group into `tensor`: the same bits on every rank.
  // With shared memory also the same bits in every run: added up in the order
  // of the ranks, 16 bit floats in 32 bits.
  virtual std::unique_ptr<Pending> all_reduce(const at::Tensor& tensor) = 0;
  // Puts `tensor` of the rank `root` of the run into that of the others.
  virtual std::unique_ptr<Pending> broadcast(
      const at::Tensor& tensor, int64_t root) = 0;
  // Puts the `piece` of every rank into `whole`, one after the other in the
  // order of the ranks. `whole` has as many elements as all pieces.
  virtual std::unique_ptr<Pending> all_gather(
      const at::Tensor& whole, const at::Tensor& piece) = 0;
  // Done when all ranks have asked for it.
  virtual std::unique_ptr<Pending> barrier() = 0;
};

// All ranks of a run. Communicators must not outlive it.
class World {
 public:
  virtual ~World() = default;
  // Among `ranks`, which are in order and hold this one. All of them must ask.
  // By shared memory when they are on one machine, unless
  // WEFT_COMMUNICATION=gloo.
  virtual std::unique_ptr<Communicator> group(
      const std::vector<int64_t>& ranks) = 0;
  // On rank 0 the texts of all ranks, in order; on the others nothing. All
  // ranks must call it. For small things.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  // The text of rank 0, on every rank. All ranks must call it.
  virtual std::string tell_all(const std::string& text) = 0;
  // Tells the others what this rank does: `doing` is asked about once a second
  // by another thread. An empty function ends it.
  virtual void watch(std::function<std::string()> doing) = 0;
  // `base` is a MAP_SHARED mapping of all `bytes` of `fd`, which stays open:
  // ranks of this machine then read large tensors that lie in it without a copy
  // in between, if all ranks of the group have shared theirs. To be ended by
  // stop_sharing(base) before it is unmapped, with no collective under way.
  virtual void share_memory(void* base, size_t bytes, int fd) = 0;
  virtual void stop_sharing(void* base) = 0;
};

// Returns when all ranks are there. Throws UserError when they do not come
// within the rendezvous's timeout.
std::unique_ptr<World> connect(const Rendezvous& rendezvous);

}  // namespace weft
