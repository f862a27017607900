// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weft {

// docs/ops.md: every entry of the op table by family, with its rule for an
// example call.
std::string print_op_page();

}  // namespace weft
