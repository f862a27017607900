// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weft {

// Of a mesh, of its axes and of the devices of a cluster: more than there are
// anywhere, and so few that three such numbers multiply within 64 bits. What is
// read from a text is held to it where it is read, with the place in messages.
inline constexpr int64_t kMostMeshRanks = 1'000'000;

}  // namespace weft
