// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/c10d_communicator.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <vector>

namespace weft {

// c10d's NCCL among `ranks`, for tensors of CUDA devices. In builds with
// WEFT_NCCL only, which need a CUDA build of torch. Not run so far: it was
// written without such a machine. `store` holds no keys of others.
C10dBackend make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous);

}  // namespace weft
