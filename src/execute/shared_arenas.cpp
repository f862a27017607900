// SPDX-License-Identifier: Apache-2.0
#include "execute/shared_arenas.h"

#include "base/error.h"

namespace weft {

void SharedArenas::add(void* base, size_t bytes, int fd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  arenas_.push_back({next_++, static_cast<const std::byte*>(base), bytes, fd});
}

void SharedArenas::remove(void* base) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t removed = std::erase_if(
      arenas_, [&](const Arena& arena) { return arena.base == base; });
  WEFT_CHECK(removed == 1, "memory that was not shared");
}

SharedAddress SharedArenas::address(const void* data, size_t bytes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto* begin = static_cast<const std::byte*>(data);
  SharedAddress address;
  address.oldest_arena = arenas_.empty() ? next_ : arenas_.front().number;
  for (const Arena& arena : arenas_) {
    if (begin >= arena.base && begin + bytes <= arena.base + arena.bytes) {
      address.arena = arena.number;
      address.arena_bytes = arena.bytes;
      address.offset_bytes = static_cast<uint64_t>(begin - arena.base);
      address.fd = arena.fd;
    }
  }
  return address;
}

std::byte* ForeignArenas::find(int64_t pid, const SharedAddress& address) {
  std::erase_if(mapped_, [&](const auto& entry) {
    return entry.first.first == pid &&
           entry.first.second < address.oldest_arena;
  });
  const auto [entry, is_new] = mapped_.try_emplace({pid, address.arena});
  if (is_new) {
    entry->second = SharedSegment::open(pid, address.fd, address.arena_bytes);
  }
  return entry->second.data() + address.offset_bytes;
}

}  // namespace weft
