// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/dataset.h"

#include <string>

namespace weft {

// Tells datasets apart by what they give, wherever it lies: "1249 samples of
// labels i64[32], tokens i64[32], checksum 92ad...". The number and types of
// samples, and a checksum of up to 256 of them, evenly spread, of 16 MiB in all
// at the most (but of 16 samples at least): not all of a large dataset is read.
std::string identity(const Dataset& dataset);

}  // namespace weft
