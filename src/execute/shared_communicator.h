// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/communicator.h"
#include "execute/shared_segment.h"
#include "execute/watch.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

// Whether a process can read tensors of this device in another's memory.
bool shared_memory_holds(c10::DeviceType device);

// The segment that a group of so many ranks needs.
size_t shared_communicator_bytes(size_t ranks);

// A group of ranks that all have mapped `segment`. The collectives of one group
// run one after the other on a thread of the group, which has the cores of the
// caller; so do the sends of each direction. `may_read`: large tensors in the
// memory of their rank, where all ranks may. `watch` must outlive it. A Pending
// that is dropped before wait() abandons the group.
std::unique_ptr<Communicator> make_shared_communicator(
    SharedSegment segment,
    const std::vector<int64_t>& ranks,
    const std::vector<ProcessId>& processes,
    int64_t rank,
    Watch& watch,
    bool may_read);

}  // namespace weft
