// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// Copies memory of another process of this machine: with one copy, and from
// pages of any kind, where memory that is mapped by both could have no large
// ones. False when it may not be read, or the process is gone.
bool read_peer_memory(int64_t pid, uint64_t address, void* to, size_t bytes);

}  // namespace weft
