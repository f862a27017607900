// SPDX-License-Identifier: Apache-2.0
#include "cli/measured_cluster.h"

#include "base/error.h"
#include "base/text.h"
#include "execute/launch.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace weft {
namespace {

// Of every figure: enough to choose between plans.
constexpr int kQuickRounds = 2;
// A process that a signal ended has this and the signal's number as its status.
constexpr int kSignalStatus = 128;

std::filesystem::path cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') {
    return cache;
  }
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home != '\0'
             ? std::filesystem::path(home) / ".cache"
             : std::filesystem::temp_directory_path();
}

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data()
                                                          : "machine";
}

}  // namespace

std::string measured_cluster_path(int64_t ranks, int threads) {
  return (cache_folder() / "weft" / host_name() /
          cat(ranks, "_ranks_", threads, "_threads.cluster"))
      .string();
}

int start_measuring(
    int64_t ranks, const MeasureOptions& options, const std::string& output) {
  return start_ranks(
      ranks,
      {"cluster",
       "measure",
       "-o",
       output,
       "--threads",
       cat(options.threads),
       "--rounds",
       cat(options.rounds),
       "--disk",
       options.folder},
      {.pin = true,
       .asked_by = "--ranks",
       .oversubscribe = options.oversubscribe});
}

Cluster measured_cluster(
    int64_t ranks, int threads, bool is_quiet, bool oversubscribe) {
  const std::string path = measured_cluster_path(ranks, threads);
  if (!std::filesystem::exists(path)) {
    std::error_code error;
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path(), error);
    WEFT_CHECK_USER(
        !error,
        "cannot make the folder of ",
        path,
        ", which keeps what is measured of this machine: ",
        error.message(),
        "; set XDG_CACHE_HOME, or say how ranks share a step with --parallel");
    if (!is_quiet) {
      std::cerr << cat(
          "weft: measuring this machine with ",
          ranks,
          " ranks, once, into ",
          path,
          "\n");
    }
    const int status = start_measuring(
        ranks,
        {.folder = std::filesystem::temp_directory_path().string(),
         .threads = threads,
         .rounds = kQuickRounds,
         .oversubscribe = oversubscribe},
        path);
    if (status > kSignalStatus) {
      throw CLI::RuntimeError(status);
    }
    WEFT_CHECK_USER(
        status == 0,
        "this machine could not be measured, by which a plan is found; say how "
        "ranks share a step, as in --parallel data=",
        ranks);
  }
  const Cluster cluster = load_cluster(path);
  WEFT_CHECK_USER(
      device_count(cluster) == ranks,
      path,
      ": it has ",
      device_count(cluster),
      " devices, and should have ",
      ranks,
      "; remove it, and it is measured again");
  return cluster;
}

}  // namespace weft
