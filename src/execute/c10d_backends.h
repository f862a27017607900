// SPDX-License-Identifier: Apache-2.0
// Which backend of c10d serves which device.
#pragma once

#include "execute/c10d_communicator.h"
#include "execute/watch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <vector>

namespace weft {

// Joins `ranks`, which all ask for it. `store` holds no keys of others. Throws
// UserError when this build has none for `device`, or a rank is gone before all
// have come.
C10dBackend make_backend(
    c10::DeviceType device,
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch);

}  // namespace weft
