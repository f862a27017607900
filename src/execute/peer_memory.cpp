// SPDX-License-Identifier: Apache-2.0
#include "execute/peer_memory.h"

#include <sys/uio.h>

namespace weft {

bool read_peer_memory(int64_t pid, uint64_t address, void* to, size_t bytes) {
  auto* into = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const iovec here = {into, bytes};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it points nowhere here.
    const iovec there = {reinterpret_cast<void*>(address), bytes};
    const ssize_t count =
        ::process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
    if (count <= 0) {
      return false;
    }
    into += count;
    address += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace weft
