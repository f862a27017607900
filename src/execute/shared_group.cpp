// SPDX-License-Identifier: Apache-2.0
#include "execute/shared_group.h"

#include "base/error.h"
#include "execute/peer_memory.h"
#include "execute/shared_sum.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

namespace weft {

// Cache lines of their own: what one rank writes does not slow what another
// reads.
struct SharedGroup::Slot {
  alignas(64) Doorbell bell;
  alignas(64) std::atomic<uint64_t> phase;
  // Something to try reading, and whether all others could be read.
  alignas(64) uint64_t address;
  uint32_t can_read;
};

namespace {

using Clock = std::chrono::steady_clock;

// One rank's buffer. With its two buffers and a neighbour's it should fit into
// the caches.
constexpr size_t kStagingBytes = 512 * 1024;
// Of others' memory, so much is read before it is added up, in the caches.
constexpr size_t kBounceBytes = 128 * 1024;
// Up to this size everyone adds up everything.
constexpr size_t kSmallBytes = 32 * 1024;
// A neighbour that runs on another core is often this close behind; more would
// take the time of the computation that shares our core.
constexpr int kSpins = 100;
constexpr auto kPeerLook = std::chrono::milliseconds(200);

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
    bool may_read,
    std::function<bool(int64_t)> is_gone)
    : memory_(memory),
      members_(std::move(members)),
      here_(here),
      may_read_(may_read),
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
    if (Clock::now() - looked >= kPeerLook) {
      looked = Clock::now();
      for (const int64_t rank : missing()) {
        // It may have come and left since.
        if (is_gone_(rank) && !all_are_at(phase_)) {
          throw Abandoned(cat("rank ", rank, " is gone"));
        }
      }
    }
    mine.bell.sleep(rings, kPeerLook);
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

bool SharedGroup::reads_peers() {
  if (!reads_peers_) {
    Slot& mine = slots_[here_];
    // Private memory, as tensors are.
    mine.address = reinterpret_cast<uint64_t>(&phase_);
    meet();
    bool can = may_read_;
    for (size_t member = 0; member < members_.size(); ++member) {
      uint64_t seen = 0;
      can = can && (member == here_ || read_peer_memory(
                                           members_[member].pid,
                                           slots_[member].address,
                                           &seen,
                                           sizeof(seen)));
    }
    mine.can_read = can ? 1 : 0;
    meet();
    reads_peers_ =
        std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
          return slot.can_read == 1;
        });
  }
  return *reads_peers_;
}

std::vector<std::vector<uint64_t>> SharedGroup::exchange(
    const std::vector<const void*>& tensors) {
  if (!reads_peers() || tensors.size() * sizeof(uint64_t) > kStagingBytes) {
    return {};
  }
  const size_t buffer = turn();
  std::memcpy(
      staging(buffer, here_),
      tensors.data(),
      tensors.size() * sizeof(uint64_t));
  meet();
  std::vector<std::vector<uint64_t>> addresses(
      tensors.size(), std::vector<uint64_t>(members_.size()));
  for (size_t member = 0; member < members_.size(); ++member) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::memcpy(
          &addresses[i][member],
          staging(buffer, member) + i * sizeof(uint64_t),
          sizeof(uint64_t));
    }
  }
  return addresses;
}

void SharedGroup::read(
    size_t member, uint64_t address, void* to, size_t bytes) const {
  if (!read_peer_memory(members_[member].pid, address, to, bytes)) {
    throw Abandoned(cat("rank ", members_[member].rank, " is gone"));
  }
}

void SharedGroup::add_up_peers(
    const std::vector<uint64_t>& addresses,
    size_t skip_bytes,
    std::byte* out,
    size_t bytes,
    c10::ScalarType type) {
  bounce_.resize(members_.size() * kBounceBytes);
  for (size_t begin = 0; begin < bytes; begin += kBounceBytes) {
    const size_t chunk = std::min(kBounceBytes, bytes - begin);
    std::vector<std::byte*> terms;
    for (size_t member = 0; member < members_.size(); ++member) {
      const uint64_t from = addresses[member] + skip_bytes + begin;
      if (member == here_) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of our own.
        terms.push_back(reinterpret_cast<std::byte*>(from));
      } else {
        terms.push_back(bounce_.data() + member * kBounceBytes);
        read(member, from, terms.back(), chunk);
      }
    }
    add_up(terms, out + begin, chunk / c10::elementSize(type), type);
  }
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
  const std::vector<std::vector<uint64_t>> addresses = exchange({data});
  if (!addresses.empty()) {
    all_reduce_in_place(bytes, addresses.front(), items, type);
    return;
  }
  const size_t chunk_items = kStagingBytes / item_bytes;
  for (size_t begin = 0; begin < items; begin += chunk_items) {
    all_reduce_chunk(
        bytes + begin * item_bytes, std::min(chunk_items, items - begin), type);
  }
}

void SharedGroup::all_reduce_in_place(
    std::byte* data,
    const std::vector<uint64_t>& addresses,
    size_t count,
    c10::ScalarType type) {
  const size_t item_bytes = c10::elementSize(type);
  const Range mine = slice(here_, count, item_bytes);
  add_up_peers(
      addresses,
      mine.begin * item_bytes,
      data + mine.begin * item_bytes,
      (mine.end - mine.begin) * item_bytes,
      type);
  count_taken(
      ((members_.size() - 1) * (mine.end - mine.begin) + count -
       (mine.end - mine.begin)) *
      item_bytes);
  meet();
  for (size_t step = 1; step < members_.size(); ++step) {
    const size_t member = (here_ + step) % members_.size();
    const Range theirs = slice(member, count, item_bytes);
    read(
        member,
        addresses[member] + theirs.begin * item_bytes,
        data + theirs.begin * item_bytes,
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
    const std::vector<std::vector<uint64_t>> addresses = exchange({data});
    if (!addresses.empty()) {
      if (here_ != root) {
        read(root, addresses.front()[root], mine, bytes);
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

namespace {

size_t total_bytes(const std::vector<SharedGroup::Pieces>& tensors) {
  return std::accumulate(
      tensors.begin(),
      tensors.end(),
      size_t{0},
      [](size_t bytes, const SharedGroup::Pieces& one) {
        return bytes + one.piece_bytes;
      });
}

// The pieces of all tensors, one behind the other, in chunks: visits the parts
// that a chunk is made of, with the place of each in it.
void for_each_part(
    const std::vector<SharedGroup::Pieces>& tensors,
    size_t chunk_begin,
    size_t chunk_end,
    const std::function<
        void(size_t tensor, size_t begin, size_t bytes, size_t place)>& visit) {
  size_t before = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t begin = std::max(chunk_begin, before);
    const size_t end = std::min(chunk_end, before + tensors[i].piece_bytes);
    if (begin < end) {
      visit(i, begin - before, end - begin, begin - chunk_begin);
    }
    before += tensors[i].piece_bytes;
  }
}

}  // namespace

void SharedGroup::all_gather(const std::vector<Pieces>& tensors) {
  const size_t total = total_bytes(tensors);
  count_taken((members_.size() - 1) * total);
  for (const Pieces& one : tensors) {
    // The piece may be its own place in the whole.
    std::memmove(
        one.whole + here_ * one.piece_bytes, one.piece, one.piece_bytes);
  }
  // Each begins with another one, so that they do not all read one.
  const auto for_each_other = [&](const auto& visit) {
    for (size_t step = 1; step < members_.size(); ++step) {
      visit((here_ + step) % members_.size());
    }
  };
  if (total > kSmallBytes) {
    std::vector<const void*> pieces;
    for (const Pieces& one : tensors) {
      pieces.push_back(one.piece);
    }
    const std::vector<std::vector<uint64_t>> addresses = exchange(pieces);
    if (!addresses.empty()) {
      for_each_other([&](size_t member) {
        for (size_t i = 0; i < tensors.size(); ++i) {
          read(
              member,
              addresses[i][member],
              tensors[i].whole + member * tensors[i].piece_bytes,
              tensors[i].piece_bytes);
        }
      });
      meet();
      return;
    }
  }
  for (size_t begin = 0; begin < total; begin += kStagingBytes) {
    const size_t end = std::min(total, begin + kStagingBytes);
    const size_t buffer = turn();
    const auto place = [&](size_t tensor, size_t member, size_t at) {
      return tensors[tensor].whole + member * tensors[tensor].piece_bytes + at;
    };
    for_each_part(
        tensors, begin, end, [&](size_t i, size_t at, size_t bytes, size_t to) {
          std::memcpy(staging(buffer, here_) + to, place(i, here_, at), bytes);
        });
    meet();
    for_each_other([&](size_t member) {
      for_each_part(
          tensors,
          begin,
          end,
          [&](size_t i, size_t at, size_t bytes, size_t from) {
            std::memcpy(
                place(i, member, at), staging(buffer, member) + from, bytes);
          });
    });
  }
}

void SharedGroup::pass_pieces(
    const std::vector<Pieces>& tensors, const Take& take) {
  const size_t ranks = members_.size();
  const size_t total = total_bytes(tensors);
  // Whole cache lines, so that every chunk is aligned for any type.
  const size_t most = kStagingBytes / ranks / 64 * 64;
  for (size_t begin = 0; begin < total; begin += most) {
    const size_t end = std::min(total, begin + most);
    const size_t buffer = turn();
    for_each_part(
        tensors, begin, end, [&](size_t i, size_t at, size_t bytes, size_t to) {
          for (size_t member = 0; member < ranks; ++member) {
            std::memcpy(
                staging(buffer, here_) + member * most + to,
                tensors[i].whole + member * tensors[i].piece_bytes + at,
                bytes);
          }
        });
    meet();
    for_each_part(
        tensors,
        begin,
        end,
        [&](size_t i, size_t at, size_t bytes, size_t place) {
          std::vector<std::byte*> from;
          for (size_t member = 0; member < ranks; ++member) {
            from.push_back(staging(buffer, member) + here_ * most + place);
          }
          take(i, at, bytes, from);
        });
  }
}

void SharedGroup::reduce_scatter(
    const std::vector<Pieces>& tensors, c10::ScalarType type) {
  const size_t total = total_bytes(tensors);
  count_taken((members_.size() - 1) * total);
  if (members_.size() * total > kSmallBytes) {
    std::vector<const void*> wholes;
    for (const Pieces& one : tensors) {
      wholes.push_back(one.whole);
    }
    const std::vector<std::vector<uint64_t>> addresses = exchange(wholes);
    if (!addresses.empty()) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        add_up_peers(
            addresses[i],
            here_ * tensors[i].piece_bytes,
            tensors[i].piece,
            tensors[i].piece_bytes,
            type);
      }
      meet();
      return;
    }
  }
  pass_pieces(
      tensors,
      [&](size_t i,
          size_t begin,
          size_t bytes,
          const std::vector<std::byte*>& from) {
        add_up(
            from,
            tensors[i].piece + begin,
            bytes / c10::elementSize(type),
            type);
      });
}

void SharedGroup::all_to_all(void* to, const void* from, size_t piece_bytes) {
  const size_t ranks = members_.size();
  auto* const into = static_cast<std::byte*>(to);
  const auto* const mine = static_cast<const std::byte*>(from);
  count_taken((ranks - 1) * piece_bytes);
  if (ranks * piece_bytes > kSmallBytes) {
    const std::vector<std::vector<uint64_t>> addresses = exchange({from});
    if (!addresses.empty()) {
      std::memcpy(
          into + here_ * piece_bytes, mine + here_ * piece_bytes, piece_bytes);
      // Each begins with another one, so that they do not all read one.
      for (size_t step = 1; step < ranks; ++step) {
        const size_t member = (here_ + step) % ranks;
        read(
            member,
            addresses.front()[member] + here_ * piece_bytes,
            into + member * piece_bytes,
            piece_bytes);
      }
      meet();
      return;
    }
  }
  pass_pieces(
      {{const_cast<std::byte*>(mine), nullptr, piece_bytes}},
      [&](size_t,
          size_t begin,
          size_t bytes,
          const std::vector<std::byte*>& pieces) {
        for (size_t member = 0; member < ranks; ++member) {
          std::memcpy(
              into + member * piece_bytes + begin, pieces[member], bytes);
        }
      });
}

void SharedGroup::barrier() { meet(); }

}  // namespace weft
