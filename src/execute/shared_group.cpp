// SPDX-License-Identifier: Apache-2.0
#include "execute/shared_group.h"

#include "base/error.h"
#include "execute/shared_sum.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace weft {

// Cache lines of their own: what one rank writes does not slow what another
// reads.
struct SharedGroup::Slot {
  alignas(64) Doorbell bell;
  alignas(64) std::atomic<uint64_t> phase;
  alignas(64) SharedAddress operand;
};

namespace {

using Clock = std::chrono::steady_clock;

// One rank's buffer. With its two buffers and a neighbour's it should fit into
// the caches.
constexpr size_t kStagingBytes = 512 * 1024;
// Up to this size everyone adds up everything.
constexpr size_t kSmallBytes = 32 * 1024;
// A neighbour that runs on another core is often this close behind; more would
// take the time of the computation that shares our core.
constexpr int kSpins = 100;
constexpr auto kLook = std::chrono::milliseconds(200);

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

size_t SharedGroup::memory_bytes(size_t ranks) {
  return ranks * (sizeof(Slot) + 2 * kStagingBytes);
}

SharedGroup::SharedGroup(
    std::byte* memory,
    std::vector<Member> members,
    size_t here,
    const SharedArenas& arenas,
    std::function<bool(int64_t)> is_gone)
    : memory_(memory),
      members_(std::move(members)),
      here_(here),
      arenas_(arenas),
      is_gone_(std::move(is_gone)),
      slots_(reinterpret_cast<Slot*>(memory_), members_.size()) {}

bool SharedGroup::all_are_at(uint64_t phase) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.phase.load(std::memory_order_acquire) >= phase;
  });
}

void SharedGroup::meet() {
  ++phase_;
  Slot& mine = slots_[here_];
  mine.phase.store(phase_, std::memory_order_release);
  for (size_t member = 0; member < members_.size(); ++member) {
    if (member != here_) {
      slots_[member].bell.ring();
    }
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (all_are_at(phase_)) {
      return;
    }
    pause_core();
  }
  Clock::time_point looked = Clock::now();
  while (true) {
    const uint32_t rings = mine.bell.count();
    if (all_are_at(phase_)) {
      return;
    }
    if (is_abandoned_) {
      throw Abandoned("abandoned");
    }
    if (Clock::now() - looked >= kLook) {
      looked = Clock::now();
      for (const int64_t rank : missing()) {
        // It may have come and left since.
        if (is_gone_(rank) && !all_are_at(phase_)) {
          throw Abandoned(cat("rank ", rank, " is gone"));
        }
      }
    }
    mine.bell.sleep(rings, kLook);
  }
}

void SharedGroup::abandon() {
  is_abandoned_ = true;
  slots_[here_].bell.ring();
}

std::vector<int64_t> SharedGroup::missing() const {
  const uint64_t phase = slots_[here_].phase.load();
  std::vector<int64_t> ranks;
  for (size_t member = 0; member < members_.size(); ++member) {
    if (slots_[member].phase.load() < phase) {
      ranks.push_back(members_[member].rank);
    }
  }
  return ranks;
}

// A buffer is written again two turns later. By then all have been at the
// meeting of the turn in between, to which they come after having read it.
size_t SharedGroup::turn() { return buffer_ ^= 1; }

std::byte* SharedGroup::staging(size_t buffer, size_t member) const {
  return memory_ + members_.size() * sizeof(Slot) +
         (buffer * members_.size() + member) * kStagingBytes;
}

SharedGroup::Range SharedGroup::slice(
    size_t member, size_t count, size_t item_bytes) const {
  const size_t line_items = std::max<size_t>(1, 64 / item_bytes);
  const size_t lines = (count + line_items - 1) / line_items;
  const auto bound = [&](size_t i) {
    return std::min(count, lines * i / members_.size() * line_items);
  };
  return {bound(member), bound(member + 1)};
}

std::vector<std::byte*> SharedGroup::exchange(const void* data, size_t bytes) {
  slots_[here_].operand = arenas_.address(data, bytes);
  meet();
  std::vector<std::byte*> tensors;
  for (const Slot& slot : slots_) {
    if (slot.operand.arena == 0) {
      return {};
    }
  }
  for (size_t member = 0; member < members_.size(); ++member) {
    tensors.push_back(
        member == here_
            ? static_cast<std::byte*>(const_cast<void*>(data))
            : foreign_.find(members_[member].pid, slots_[member].operand));
  }
  return tensors;
}

void SharedGroup::all_reduce(void* data, int64_t count, c10::ScalarType type) {
  auto* const bytes = static_cast<std::byte*>(data);
  const auto items = static_cast<size_t>(count);
  const size_t item_bytes = c10::elementSize(type);
  if (items * item_bytes <= kSmallBytes) {
    const size_t buffer = turn();
    std::memcpy(staging(buffer, here_), bytes, items * item_bytes);
    meet();
    std::vector<std::byte*> terms;
    for (size_t member = 0; member < members_.size(); ++member) {
      terms.push_back(staging(buffer, member));
    }
    add_up(terms, bytes, items, type);
    count_taken((members_.size() - 1) * items * item_bytes);
    return;
  }
  const std::vector<std::byte*> tensors = exchange(data, items * item_bytes);
  if (!tensors.empty()) {
    all_reduce_in_place(tensors, items, type);
    return;
  }
  const size_t chunk_items = kStagingBytes / item_bytes;
  for (size_t begin = 0; begin < items; begin += chunk_items) {
    all_reduce_chunk(
        bytes + begin * item_bytes, std::min(chunk_items, items - begin), type);
  }
}

void SharedGroup::all_reduce_in_place(
    const std::vector<std::byte*>& tensors,
    size_t count,
    c10::ScalarType type) {
  const size_t item_bytes = c10::elementSize(type);
  const Range mine = slice(here_, count, item_bytes);
  std::vector<std::byte*> terms;
  for (std::byte* tensor : tensors) {
    terms.push_back(tensor + mine.begin * item_bytes);
  }
  add_up(terms, terms[here_], mine.end - mine.begin, type);
  count_taken(
      ((members_.size() - 1) * (mine.end - mine.begin) + count -
       (mine.end - mine.begin)) *
      item_bytes);
  meet();
  for (size_t step = 1; step < members_.size(); ++step) {
    const size_t member = (here_ + step) % members_.size();
    const Range theirs = slice(member, count, item_bytes);
    std::memcpy(
        tensors[here_] + theirs.begin * item_bytes,
        tensors[member] + theirs.begin * item_bytes,
        (theirs.end - theirs.begin) * item_bytes);
  }
  meet();
}

void SharedGroup::all_reduce_chunk(
    std::byte* data, size_t count, c10::ScalarType type) {
  const size_t item_bytes = c10::elementSize(type);
  const size_t buffer = turn();
  const auto copy_slice =
      [&](size_t member, std::byte* to, const std::byte* from) {
        const Range range = slice(member, count, item_bytes);
        std::memcpy(
            to + range.begin * item_bytes,
            from + range.begin * item_bytes,
            (range.end - range.begin) * item_bytes);
      };
  for (size_t member = 0; member < members_.size(); ++member) {
    if (member != here_) {
      copy_slice(member, staging(buffer, here_), data);
    }
  }
  meet();
  const Range mine = slice(here_, count, item_bytes);
  std::vector<std::byte*> terms;
  for (size_t member = 0; member < members_.size(); ++member) {
    terms.push_back(
        (member == here_ ? data : staging(buffer, member)) +
        mine.begin * item_bytes);
  }
  add_up(terms, terms[here_], mine.end - mine.begin, type);
  // A slice of every other member, and all but its own of what they add up.
  count_taken(
      ((members_.size() - 1) * (mine.end - mine.begin) + count -
       (mine.end - mine.begin)) *
      item_bytes);
  copy_slice(here_, staging(buffer, here_), data);
  meet();
  for (size_t member = 0; member < members_.size(); ++member) {
    if (member != here_) {
      copy_slice(member, data, staging(buffer, member));
    }
  }
}

void SharedGroup::broadcast(void* data, size_t bytes, size_t root) {
  auto* const mine = static_cast<std::byte*>(data);
  if (here_ != root) {
    count_taken(bytes);
  }
  if (bytes > kSmallBytes) {
    const std::vector<std::byte*> tensors = exchange(data, bytes);
    if (!tensors.empty()) {
      if (here_ != root) {
        std::memcpy(mine, tensors[root], bytes);
      }
      meet();
      return;
    }
  }
  for (size_t begin = 0; begin < bytes; begin += kStagingBytes) {
    const size_t chunk = std::min(kStagingBytes, bytes - begin);
    std::byte* const buffer = staging(turn(), root);
    if (here_ == root) {
      std::memcpy(buffer, mine + begin, chunk);
    }
    meet();
    if (here_ != root) {
      std::memcpy(mine + begin, buffer, chunk);
    }
  }
}

void SharedGroup::all_gather(
    void* whole, const void* piece, size_t piece_bytes) {
  auto* const all = static_cast<std::byte*>(whole);
  const auto* const mine = static_cast<const std::byte*>(piece);
  count_taken((members_.size() - 1) * piece_bytes);
  // The piece may be its own place in the whole.
  std::memmove(all + here_ * piece_bytes, mine, piece_bytes);
  const auto copy_from = [&](const auto& source) {
    for (size_t step = 1; step < members_.size(); ++step) {
      source((here_ + step) % members_.size());
    }
  };
  if (piece_bytes > kSmallBytes) {
    const std::vector<std::byte*> pieces = exchange(piece, piece_bytes);
    if (!pieces.empty()) {
      copy_from([&](size_t member) {
        std::memcpy(all + member * piece_bytes, pieces[member], piece_bytes);
      });
      meet();
      return;
    }
  }
  for (size_t begin = 0; begin < piece_bytes; begin += kStagingBytes) {
    const size_t chunk = std::min(kStagingBytes, piece_bytes - begin);
    const size_t buffer = turn();
    std::memcpy(
        staging(buffer, here_), all + here_ * piece_bytes + begin, chunk);
    meet();
    copy_from([&](size_t member) {
      std::memcpy(
          all + member * piece_bytes + begin, staging(buffer, member), chunk);
    });
  }
}

void SharedGroup::for_each_piece(
    const void* whole, size_t piece_bytes, const Take& take) {
  const size_t ranks = members_.size();
  count_taken((ranks - 1) * piece_bytes);
  if (ranks * piece_bytes > kSmallBytes) {
    std::vector<std::byte*> from = exchange(whole, ranks * piece_bytes);
    if (!from.empty()) {
      for (std::byte*& piece : from) {
        piece += here_ * piece_bytes;
      }
      take(0, piece_bytes, from);
      meet();
      return;
    }
  }
  const auto* const mine = static_cast<const std::byte*>(whole);
  // Whole cache lines, so that every chunk is aligned for any type.
  const size_t most = kStagingBytes / ranks / 64 * 64;
  for (size_t begin = 0; begin < piece_bytes; begin += most) {
    const size_t chunk = std::min(most, piece_bytes - begin);
    const size_t buffer = turn();
    for (size_t member = 0; member < ranks; ++member) {
      std::memcpy(
          staging(buffer, here_) + member * most,
          mine + member * piece_bytes + begin,
          chunk);
    }
    meet();
    std::vector<std::byte*> from;
    for (size_t member = 0; member < ranks; ++member) {
      from.push_back(staging(buffer, member) + here_ * most);
    }
    take(begin, chunk, from);
  }
}

void SharedGroup::reduce_scatter(
    void* piece, const void* whole, int64_t piece_count, c10::ScalarType type) {
  const size_t item_bytes = c10::elementSize(type);
  for_each_piece(
      whole,
      static_cast<size_t>(piece_count) * item_bytes,
      [&](size_t begin, size_t bytes, const std::vector<std::byte*>& from) {
        add_up(
            from,
            static_cast<std::byte*>(piece) + begin,
            bytes / item_bytes,
            type);
      });
}

void SharedGroup::all_to_all(void* to, const void* from, size_t piece_bytes) {
  for_each_piece(
      from,
      piece_bytes,
      [&](size_t begin, size_t bytes, const std::vector<std::byte*>& pieces) {
        // Each begins with another one, so that they do not all read one.
        for (size_t step = 0; step < members_.size(); ++step) {
          const size_t member = (here_ + step) % members_.size();
          std::memcpy(
              static_cast<std::byte*>(to) + member * piece_bytes + begin,
              pieces[member],
              bytes);
        }
      });
}

void SharedGroup::barrier() { meet(); }

}  // namespace weft
