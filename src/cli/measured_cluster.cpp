// SPDX-License-Identifier: Apache-2.0
#include "cli/measured_cluster.h"

#include "base/error.h"
#include "base/text.h"
#include "base/trusted_file.h"
#include "cli/temporary_folder.h"
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

std::optional<std::filesystem::path> folder_of(const char* variable) {
  const char* const folder = std::getenv(variable);
  if (folder == nullptr || *folder == '\0') {
    return std::nullopt;
  }
  return folder;
}

std::optional<std::filesystem::path> cache_folder() {
  if (auto cache = folder_of("XDG_CACHE_HOME")) {
    return cache;
  }
  if (const auto home = folder_of("HOME")) {
    return *home / ".cache";
  }
  return folder_of("XDG_RUNTIME_DIR");
}

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data()
                                                          : "machine";
}

void measure_into(
    const std::string& path,
    int64_t ranks,
    int threads,
    bool is_quiet,
    bool oversubscribe) {
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

Cluster read_measured(const std::string& path, int64_t ranks) {
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

}  // namespace

std::optional<std::string> measured_cluster_path(int64_t ranks, int threads) {
  const auto cache = cache_folder();
  if (!cache) {
    return std::nullopt;
  }
  return (*cache / "weft" / host_name() /
          cat(ranks, "_ranks_", threads, "_threads.cluster"))
      .string();
}

void make_cache_folder(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  const bool was_there = fs::exists(folder, error);
  fs::create_directories(folder, error);
  if (!error && !was_there) {
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  WEFT_CHECK_USER(
      !error,
      "cannot make the folder of ",
      path,
      ", which keeps what is measured of this machine: ",
      error.message(),
      "; set XDG_CACHE_HOME, or say how ranks share a step with --parallel");
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
  const std::optional<std::string> kept = measured_cluster_path(ranks, threads);
  std::string why = "neither HOME nor XDG_CACHE_HOME is set";
  if (kept) {
    make_cache_folder(*kept);
    why = distrust(std::filesystem::path(*kept).parent_path().string());
    why = why.empty() ? distrust(*kept) : why;
  }
  if (why.empty()) {
    if (!std::filesystem::exists(*kept)) {
      measure_into(*kept, ranks, threads, is_quiet, oversubscribe);
    }
    return read_measured(*kept, ranks);
  }
  if (!is_quiet) {
    std::cerr << cat(
        "weft: what is measured of this machine is not kept: ", why, "\n");
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("this.cluster");
  measure_into(path, ranks, threads, is_quiet, oversubscribe);
  return read_measured(path, ranks);
}

}  // namespace weft
