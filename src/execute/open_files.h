// SPDX-License-Identifier: Apache-2.0
// How many files and connections a process may have open (RLIMIT_NOFILE).
#pragma once

#include <cstdint>

namespace weft {

// What a process of a run of so many ranks may come to need: libraries, data,
// checkpoints, and connections to the others.
int64_t open_files_of_run(int64_t ranks);

// Raises this process's limit to `count` where the system lets it. Throws
// UserError, which says how to raise it, where that is not enough: later it
// would show as threads and connections that fail without a word.
void need_open_files(int64_t count);

}  // namespace weft
