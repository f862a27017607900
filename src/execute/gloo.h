// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/communicator.h"
#include "execute/watch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

// A group of ranks that talk by c10d's Gloo, over TCP. `store` holds no keys of
// others. Throws UserError when a rank is gone before all have come. `watch`
// must outlive it.
std::unique_ptr<Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::Store> store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch);

}  // namespace weft
