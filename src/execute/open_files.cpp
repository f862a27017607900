// SPDX-License-Identifier: Apache-2.0
#include "execute/open_files.h"

#include "base/error.h"

#include <algorithm>
#include <sys/resource.h>

namespace weft {
namespace {

// Data, checkpoints, metrics, Python's modules: two dozen were seen at most.
constexpr int64_t kOwnFiles = 64;
// Two connections to the store, and with Gloo some to every other rank.
constexpr int64_t kFilesPerRank = 8;

}  // namespace

int64_t open_files_of_run(int64_t ranks) {
  return kOwnFiles + kFilesPerRank * ranks;
}

void need_open_files(int64_t count) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur >= static_cast<rlim_t>(count)) {
    return;
  }
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(count));
  // As root, or within the hard limit.
  if (limit.rlim_cur >= static_cast<rlim_t>(count) &&
      ::setrlimit(RLIMIT_NOFILE, &limit) == 0) {
    return;
  }
  throw UserError(
      cat("this process may open ",
          before,
          " files at a time (RLIMIT_NOFILE, at most ",
          limit.rlim_max,
          "), and the run may need ",
          count,
          ": raise the limit, as by ulimit -n 4096, before it is started"));
}

}  // namespace weft
