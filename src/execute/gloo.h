// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/c10d_communicator.h"
#include "execute/watch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <vector>

namespace weft {

// c10d's Gloo among `ranks`, over TCP, for tensors of the CPU. `store` holds no
// keys of others. Throws UserError when a rank is gone before all have come.
C10dBackend make_gloo_backend(
    c10::intrusive_ptr<c10d::Store> store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch);

}  // namespace weft
