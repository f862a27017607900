// SPDX-License-Identifier: Apache-2.0
// What one call takes on a device, by its costs.
#pragma once

#include "cluster/cluster.h"
#include "profile/profile.h"

#include <cstdint>
#include <vector>

namespace weft {

// Bytes that a call reads or writes, and how many were moved since they were
// used last.
struct Use {
  int64_t bytes = 0;
  int64_t since_bytes = 0;
};

// What the device works at a call: the longer of its flops and its bytes, each
// at the rate that its kind and the size of its parts reach, after what any
// call costs. Nothing where no kernel is called. `uses` are those of its bytes
// that are known: where caches make small sizes fast, each has to be fetched
// first at the rate of as much as was moved in between, and no core computes
// meanwhile.
double call_seconds(
    const NodeCosts& costs,
    DType dtype,
    const Device& device,
    const std::vector<Use>& uses = {});

// Of flops alone. On a device with tiles, in rounds of one tile a unit, with
// the tiles that take least.
double product_seconds(
    const ProductSize& size, DType dtype, const Device& device);

}  // namespace weft
