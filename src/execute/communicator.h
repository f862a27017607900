// SPDX-License-Identifier: Apache-2.0
// How ranks talk to each other. The executor knows these interfaces only.
// Behind them stand shared memory (shared_communicator.cpp) for ranks of one
// machine, and the backends of c10d (c10d_communicator.cpp): Gloo, and NCCL.
#pragma once

#include "execute/rendezvous.h"
#include "program/program.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft {

// A transfer under way.
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
  // Puts the piece of every rank into the whole, one after the other in the
  // order of the ranks; the whole has as many elements as all pieces. One
  // tensor, or several that travel together, each with its piece.
  virtual std::unique_ptr<Pending> all_gather(
      at::TensorList wholes, at::TensorList pieces) = 0;
  // Cuts the sum over the group of the whole into as many equal stretches as
  // there are ranks, and puts the stretch of this one into the piece. The same
  // bits in every run: added up in the order of the ranks, 16 bit floats in 32
  // bits (not so by NCCL). One tensor, or several of one type together.
  virtual std::unique_ptr<Pending> reduce_scatter(
      at::TensorList pieces, at::TensorList wholes) = 0;
  // Cuts both into as many equal stretches as there are ranks: stretch j of
  // `from` goes to rank j, and stretch i of `to` comes from rank i.
  virtual std::unique_ptr<Pending> all_to_all(
      const at::Tensor& to, const at::Tensor& from) = 0;
  // In a group of two, to the other rank and from it. What one sends the other
  // receives in the same order; the two directions and the collectives of the
  // group do not wait for one another. A send is done when it was received.
  virtual std::unique_ptr<Pending> send(const at::Tensor& tensor) = 0;
  virtual std::unique_ptr<Pending> receive(const at::Tensor& tensor) = 0;
  // Done when all ranks have asked for it.
  virtual std::unique_ptr<Pending> barrier() = 0;

  // The bytes that this rank has taken from the others so far in transfers of
  // this kind that are done. With shared memory counted where they are read:
  // of a small all_reduce every rank reads all, so that it is more than
  // wire_bytes on more than two ranks. Elsewhere what wire_bytes says.
  virtual int64_t taken_bytes(TransferKind kind) const = 0;
};

// All ranks of a run. Communicators must not outlive it.
class World {
 public:
  virtual ~World() = default;
  // Among `ranks`, which are in order and hold this one, for tensors of
  // `device`. All of them must ask. By shared memory when it holds such tensors
  // and they are on one machine, unless WEFT_COMMUNICATION=gloo; there, large
  // tensors are read in the memory of their rank when the system lets them, and
  // WEFT_COMMUNICATION is not "segment". Throws UserError when nothing serves
  // the device.
  virtual std::unique_ptr<Communicator> group(
      const std::vector<int64_t>& ranks,
      c10::DeviceType device = c10::DeviceType::CPU) = 0;
  // On rank 0 the texts of all ranks, in order; on the others nothing. All
  // ranks must call it. For small things.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  // The text of rank 0, on every rank. All ranks must call it.
  virtual std::string tell_all(const std::string& text) = 0;
  // Tells the others what this rank does: `doing` is asked about once a second
  // by another thread. An empty function ends it.
  virtual void watch(std::function<std::string()> doing) = 0;
  // How messages call the ranks from now on, as Rendezvous::rank_names. All
  // ranks should call it.
  virtual void name_ranks(std::vector<std::string> names) = 0;
  virtual std::string rank_name(int64_t rank) const = 0;
};

// Returns when all ranks are there. Throws UserError when they do not come
// within the rendezvous's timeout.
std::unique_ptr<World> connect(const Rendezvous& rendezvous);

}  // namespace weft
