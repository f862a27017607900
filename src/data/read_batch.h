// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/dataset.h"
#include "data/match_fields.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// Fills one row-major tensor [samples.size(), ...] for every match, of its
// dtype and sizes. A rank gives its own rows of a batch alone. Throws UserError
// as Dataset::read and convert do, naming sample and field.
void read_batch(
    const Dataset& dataset,
    const std::vector<FieldMatch>& matches,
    std::span<const int64_t> samples,
    const std::vector<std::span<std::byte>>& destinations);

}  // namespace weft
