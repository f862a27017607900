// SPDX-License-Identifier: Apache-2.0
// Which memory of a process its neighbours may read in place.
#pragma once

#include "execute/shared_segment.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace weft {

// Where a tensor lies, for another process; plain data for shared memory.
struct SharedAddress {
  // 0: in no shared arena.
  uint64_t arena = 0;
  // All arenas before this one are shared no more.
  uint64_t oldest_arena = 0;
  uint64_t arena_bytes = 0;
  uint64_t offset_bytes = 0;
  int32_t fd = -1;
};

// The arenas of this process. Safe from all threads.
class SharedArenas {
 public:
  void add(void* base, size_t bytes, int fd);
  void remove(void* base);
  SharedAddress address(const void* data, size_t bytes) const;

 private:
  struct Arena {
    uint64_t number = 0;
    const std::byte* base = nullptr;
    size_t bytes = 0;
    int fd = -1;
  };

  mutable std::mutex mutex_;
  uint64_t next_ = 1;
  std::vector<Arena> arenas_;
};

// The arenas of other processes, mapped when they are first met.
class ForeignArenas {
 public:
  // Where `address` of process `pid` is in this process. Throws UserError when
  // its memory cannot be mapped.
  std::byte* find(int64_t pid, const SharedAddress& address);

 private:
  std::map<std::pair<int64_t, uint64_t>, SharedSegment> mapped_;
};

}  // namespace weft
