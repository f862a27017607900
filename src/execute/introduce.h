// SPDX-License-Identifier: Apache-2.0
// Ranks tell each other which processes they are.
#pragma once

#include "execute/process.h"
#include "execute/rendezvous.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace weft {

// Looks for a key for at most `limit`, which the store's own wait does not let
// one give up.
bool comes(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::string& key,
    std::chrono::milliseconds limit);

// Tells who this process is, and returns the processes by rank, once all have
// come. `root` is the store without this world's prefix; `is_store_here`: it
// ends with this process. Throws UserError that names a rank, the same on every
// rank, at once when one has ended before it came or while others were waited
// for, and after timeout_seconds when one has not come.
std::vector<ProcessId> introduce(
    const c10::intrusive_ptr<c10d::Store>& store,
    const c10::intrusive_ptr<c10d::Store>& root,
    const Rendezvous& rendezvous,
    bool is_store_here);

}  // namespace weft
