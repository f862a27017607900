// SPDX-License-Identifier: Apache-2.0
// Collectives of processes of one machine over memory they share. Blocking;
// shared_communicator.h gives them a thread.
//
// Ranks meet at phases that are counted up; each sleeps at a doorbell of its
// own. Small tensors are copied into the segment and added up by everyone: one
// meeting. Of large ones every rank adds up one slice and reads the others'
// results: in place when all lie in shared arenas, else chunk by chunk through
// the segment, in two buffers by turns, so that one is read while the next is
// written.
#pragma once

#include "execute/shared_arenas.h"
#include "execute/shared_segment.h"

#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
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

  // `memory` is a multiple of 64. `members` in order; this process is
  // `members[here]`. `is_gone` tells whether the process of a rank has ended.
  // `memory` and `arenas` must outlive it.
  SharedGroup(
      std::byte* memory,
      std::vector<Member> members,
      size_t here,
      const SharedArenas& arenas,
      std::function<bool(int64_t)> is_gone);

  // These are for one thread, throw Abandoned, and are called by all members in
  // the same order with the same sizes.
  void all_reduce(void* data, int64_t count, c10::ScalarType type);
  void broadcast(void* data, size_t bytes, size_t root);
  void all_gather(void* whole, const void* piece, size_t piece_bytes);
  void reduce_scatter(
      void* piece,
      const void* whole,
      int64_t piece_count,
      c10::ScalarType type);
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
  // Where the tensors of all members are in this process; empty when one of
  // them is in no shared arena. Ends with a meeting before they may change.
  std::vector<std::byte*> exchange(const void* data, size_t bytes);
  Range slice(size_t member, size_t count, size_t item_bytes) const;

  // Lets every rank read, of `whole` of all, the pieces that are for it: piece
  // by piece in the arenas, else chunk by chunk. `take(begin, bytes, from)`
  // gets these bytes of the piece of every member.
  using Take = std::function<void(
      size_t begin, size_t bytes, const std::vector<std::byte*>& from)>;
  void for_each_piece(const void* whole, size_t piece_bytes, const Take& take);
  void count_taken(size_t bytes) {
    taken_bytes_ += static_cast<int64_t>(bytes);
  }

  void all_reduce_in_place(
      const std::vector<std::byte*>& tensors,
      size_t count,
      c10::ScalarType type);
  void all_reduce_chunk(std::byte* data, size_t count, c10::ScalarType type);

  std::byte* const memory_;
  const std::vector<Member> members_;
  const size_t here_;
  const SharedArenas& arenas_;
  const std::function<bool(int64_t)> is_gone_;
  ForeignArenas foreign_;
  std::span<Slot> slots_;
  uint64_t phase_ = 0;
  size_t buffer_ = 0;
  int64_t taken_bytes_ = 0;
  std::atomic<bool> is_abandoned_ = false;
};

}  // namespace weft
