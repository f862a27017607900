// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/output_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace weft {
namespace {

namespace fs = std::filesystem;

bool is_inside(const std::string& path, const std::string& folder) {
  const fs::path inner = fs::weakly_canonical(path);
  const fs::path outer = fs::weakly_canonical(folder);
  const auto [left, right] =
      std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return left == outer.end() && fs::is_directory(outer);
}

std::string record_path(const std::string& folder) {
  return cat(folder, "/run.json");
}

// Of those that were published: what a save leaves that was killed is none.
std::optional<std::string> last_published(const std::string& folder) {
  for (const CheckpointName& name : list_checkpoints(folder)) {
    if (name.suffix.empty()) {
      return name.path;
    }
  }
  return std::nullopt;
}

void refuse_used(const std::string& folder) {
  const std::optional<std::string> there = last_published(folder);
  WEFT_CHECK_USER(
      !there,
      folder,
      " holds the checkpoint ",
      there.value_or(""),
      "; go on with --resume, or choose another --output");
  const std::string model = cat(folder, "/model.safetensors");
  WEFT_CHECK_USER(
      !fs::exists(model),
      folder,
      " holds a model, ",
      model,
      ", which this run would write over; choose another --output");
}

}  // namespace

void make_run_folder(
    const std::string& folder, const std::vector<std::string>& data) {
  for (const std::string& each : data) {
    WEFT_CHECK_USER(
        !is_inside(folder, each),
        "the output ",
        folder,
        " lies in the data ",
        each,
        ", which would grow with every checkpoint; choose another --output");
  }
  std::error_code error;
  fs::create_directories(folder, error);
  WEFT_CHECK_USER(
      !error && fs::is_directory(folder),
      "cannot make the folder ",
      folder,
      ": ",
      error.message(),
      "; choose another --output");
}

RunStart find_start(const std::string& folder, bool resume) {
  RunStart start;
  if (!resume) {
    refuse_used(folder);
    return start;
  }
  const LastCheckpoint last = find_last(folder);
  std::vector<std::string> faults;
  for (const SkippedCheckpoint& skipped : last.skipped) {
    start.notes.push_back(cat("left out ", skipped.path, ": ", skipped.reason));
    faults.push_back(cat(skipped.path, ": ", skipped.reason));
  }
  WEFT_CHECK_USER(
      last.path || !last_published(folder),
      folder,
      " holds checkpoints and none of them is whole, so there is nothing to go "
      "on from: ",
      join(faults, "; "),
      ". Put back a whole one, or begin anew in another --output");
  start.checkpoint = last.path;
  if (!last.path) {
    start.notes.push_back(cat("no checkpoint in ", folder, ": starting anew"));
  }
  return start;
}

std::optional<RunRecord> read_run_record(const std::string& folder) {
  const std::string path = record_path(folder);
  if (!fs::exists(path)) {
    return std::nullopt;
  }
  return parse_run_record(read_file(path), path);
}

void write_run_record(const std::string& folder, const RunRecord& record) {
  const std::string path = record_path(folder);
  // One run works here at a time, so that what one leaves that is killed now is
  // written over by the next.
  const std::string aside = cat(path, ".partial");
  OutputFile file(aside);
  file.write(print(record));
  file.sync_and_close();
  WEFT_CHECK_USER(
      std::rename(aside.c_str(), path.c_str()) == 0,
      "cannot write ",
      path,
      ": ",
      std::strerror(errno));
  sync_folder(folder);
}

}  // namespace weft
