// SPDX-License-Identifier: Apache-2.0
// How long ranks put up with one another: the one place for these times.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft {

// How often a rank says that it is there.
inline constexpr std::chrono::seconds kBeatEvery{1};
// A rank of which nothing was heard for so long is not well. Within twice this,
// someone has named it: on standard error, while others may still wait for it.
inline constexpr std::chrono::seconds kHeartbeat{3};
// How long a rank may be silent, stopped or in one place before waiting for it
// is an error (WEFT_STALL_SECONDS).
inline constexpr int64_t kStallSeconds = 20;
// How long to wait for a rank that moves on, and for all ranks to come
// (WEFT_TIMEOUT_SECONDS).
inline constexpr int64_t kTimeoutSeconds = 300;

}  // namespace weft
