// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/dataset.h"

#include <memory>
#include <string>
#include <vector>

namespace weft {

// `.npy` and `.safetensors` files as one dataset: every array is a field, dim 0
// are the samples. Throws UserError when arrays disagree on their number, when
// two have one name, and when one has no dims.
std::unique_ptr<Dataset> open_arrays(const std::vector<std::string>& files);

}  // namespace weft
