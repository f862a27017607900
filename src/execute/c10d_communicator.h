// SPDX-License-Identifier: Apache-2.0
// A Communicator over any backend of c10d. Who makes the backend is a file of
// its own: gloo.h, nccl.h.
#pragma once

#include "execute/communicator.h"
#include "execute/watch.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

struct C10dBackend {
  c10::intrusive_ptr<c10d::Backend> backend;
  // Whether it has a reduce_scatter that moves no more than it must. Where it
  // has none, pieces are exchanged and added up here, in the order of ranks.
  bool scatters_sums = false;
  // Whether the end of a send can be heard of. Where it cannot, a thread waits
  // for it.
  bool tells_of_sends = false;
};

// `backend` joins `ranks`, of which this is `rank`. `watch` must outlive it.
std::unique_ptr<Communicator> make_c10d_communicator(
    C10dBackend backend,
    const std::vector<int64_t>& ranks,
    int64_t rank,
    Watch& watch);

}  // namespace weft
