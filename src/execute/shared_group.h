// SPDX-License-Identifier: Apache-2.0
// Collectives of processes of one machine over memory they share. Blocking;
// shared_communicator.h gives them a thread.
//
// Ranks meet at phases that are counted up; each sleeps at a doorbell of its
// own. Small tensors are copied into the segment and added up by everyone: one
// meeting. Of large ones every rank adds up one slice and reads the others'
// results: where they lie, when ranks may read each other's memory, else chunk
// by chunk through the segment, in two buffers by turns, so that one is read
// while the next is written.
#pragma once

#include "execute/shared_segment.h"

#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

namespace weft {

// A collective that will never be done: someone is gone, or abandon was called.
class Abandoned : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SharedGroup {
 public:
  struct Member {
    int64_t rank = 0;
    int64_t pid = 0;
  };

  // The shared memory that so many ranks need, zeroed.
  static size_t memory_bytes(size_t ranks);

  // `memory` is a multiple of 64 and must outlive it. `members` in order; this
  // process is `members[here]`. `may_read`: large tensors where they lie, if
  // all members say so and can. `is_gone` tells whether the process of a rank
  // has ended.
  SharedGroup(
      std::byte* memory,
      std::vector<Member> members,
      size_t here,
      bool may_read,
      std::function<bool(int64_t)> is_gone);

  // A tensor and the piece of it that one rank has.
  struct Pieces {
    std::byte* whole = nullptr;
    std::byte* piece = nullptr;
    size_t piece_bytes = 0;
  };

  // These are for one thread, throw Abandoned, and are called by all members in
  // the same order with the same sizes.
  void all_reduce(void* data, int64_t count, c10::ScalarType type);
  void broadcast(void* data, size_t bytes, size_t root);
  // Of several tensors at once, for the meetings of one.
  void all_gather(const std::vector<Pieces>& tensors);
  void reduce_scatter(const std::vector<Pieces>& tensors, c10::ScalarType type);
  void all_to_all(void* to, const void* from, size_t piece_bytes);
  void barrier();

  // What this rank has read of the others' memory so far.
  int64_t taken_bytes() const { return taken_bytes_; }

  // These for any thread.
  // Makes the collective under way and all later ones throw.
  void abandon();
  // The ranks that have not come as far as this one.
  std::vector<int64_t> missing() const;

 private:
  struct Slot;
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };

  void meet();
  bool all_are_at(uint64_t phase) const;
  // The next buffer of the two, to be written.
  size_t turn();
  std::byte* staging(size_t buffer, size_t member) const;
  Range slice(size_t member, size_t count, size_t item_bytes) const;

  // Whether members may read each other's memory. The first time they find out.
  bool reads_peers();
  // Of each of the tensors, where all members have theirs; empty when they
  // cannot be read there. Ends with a meeting before they may change.
  std::vector<std::vector<uint64_t>> exchange(
      const std::vector<const void*>& tensors);
  // Throws Abandoned when the member is gone.
  void read(size_t member, uint64_t address, void* to, size_t bytes) const;
  // Adds up what all members have at `addresses`, own included, into `out`.
  void add_up_peers(
      const std::vector<uint64_t>& addresses,
      size_t skip_bytes,
      std::byte* out,
      size_t bytes,
      c10::ScalarType type);

  // Lets every rank read, of the wholes of all, the pieces that are for it,
  // through the segment and chunk by chunk. `take(tensor, begin, bytes, from)`
  // gets these bytes of the piece of every member.
  using Take = std::function<void(
      size_t tensor,
      size_t begin,
      size_t bytes,
      const std::vector<std::byte*>& from)>;
  void pass_pieces(const std::vector<Pieces>& tensors, const Take& take);
  void count_taken(size_t bytes) {
    taken_bytes_ += static_cast<int64_t>(bytes);
  }

  void all_reduce_in_place(
      std::byte* data,
      const std::vector<uint64_t>& addresses,
      size_t count,
      c10::ScalarType type);
  void all_reduce_chunk(std::byte* data, size_t count, c10::ScalarType type);

  std::byte* const memory_;
  const std::vector<Member> members_;
  const size_t here_;
  const bool may_read_;
  const std::function<bool(int64_t)> is_gone_;
  std::optional<bool> reads_peers_;
  // What was read of others and is to be added.
  std::vector<std::byte> bounce_;
  std::span<Slot> slots_;
  uint64_t phase_ = 0;
  size_t buffer_ = 0;
  int64_t taken_bytes_ = 0;
  std::atomic<bool> is_abandoned_ = false;
};

}  // namespace weft
