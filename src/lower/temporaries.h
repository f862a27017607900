// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/kernel_memory.h"

#include <cstdint>

namespace weft {

// The bytes of a room in which all temporaries of a kernel find their places.
// Right behind the room, which is aligned then, lies the result `next` of
// `next_bytes`: until the kernel makes it, they may reach into its place. 0
// bytes: no result lies there.
int64_t room_bytes(const KernelMemory& memory, size_t next, int64_t next_bytes);

}  // namespace weft
