// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/dtype.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

// Whether elements may be converted without losing what they are: integers and
// bools to integers and to floating numbers, floating to floating. Never
// floating to integer, anything to bool, complex or 8-bit floating to another.
bool converts(DType from, DType to);

// Converts all elements; rounds to nearest even. Throws UserError when an
// integer does not fit the one it should become.
void convert(
    DType from_dtype,
    std::span<const std::byte> from,
    DType to_dtype,
    std::span<std::byte> to);

// One in the dtype, over and over.
void fill_ones(DType dtype, std::span<std::byte> to);

}  // namespace weft
