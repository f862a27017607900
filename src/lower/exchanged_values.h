// SPDX-License-Identifier: Apache-2.0
// Which values cost ranks an exchange.
#pragma once

#include "lower/pass.h"

#include <set>
#include <string>

namespace weft {

// The names of those values of forward that no rank can make again in backward
// without one more transfer: sums of what several ranks have, values computed
// from what other ranks hold and backward does not gather anyway. The step is
// laid out for that as it is, without recomputation; `lowering` is unchanged.
std::set<std::string> exchanged_values(const Lowering& lowering);

}  // namespace weft
