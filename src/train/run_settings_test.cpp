// SPDX-License-Identifier: Apache-2.0
#include "train/run_settings.h"

#include "checkpoint/test_folder.h"
#include "train/run_folder.h"
#include "train/run_lock.h"

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {
namespace {

const RunRecord kRecord = {
    {{"clip-norm", "0.5"}, {"data", R"(["a","b"])"}, {"seed", "7"}},
    {{4, {"clip-norm", "0.0", "0.5"}}}};

TEST(RunSettings, PrintAndParse) {
  EXPECT_EQ(parse_run_record(print(kRecord), "run.json"), kRecord);
  EXPECT_TRUE(contains(
      user_error([] { parse_run_record("{", "run.json"); }),
      "run.json is broken: "));
  EXPECT_TRUE(contains(
      user_error([] { parse_run_record("{\"a\": 1}", "run.json"); }),
      "run.json does not describe a run of weft train"));
  std::string later = print(kRecord);
  later.replace(later.find("\"version\": 1"), 12, "\"version\": 9");
  EXPECT_TRUE(contains(
      user_error([&] { parse_run_record(later, "run.json"); }),
      "run.json has version 9, and this weft reads version 1"));
  std::string half = print(kRecord);
  half.replace(half.find("\"after_step\": 4"), 15, "\"after_step\": 4.5");
  EXPECT_TRUE(contains(
      user_error([&] { parse_run_record(half, "run.json"); }),
      "run.json is broken: expected a whole number, found 4.5"));
  EXPECT_TRUE(contains(
      user_error([&] { parse_run_record(std::string(9999, '['), "run.json"); }),
      "run.json is broken: line 1, column 101: values are nested deeper"));
}

TEST(RunSettings, WhatDiffersIsExplainedOrRefused) {
  RunValues now = kRecord.values;
  EXPECT_TRUE(changes_between(run_settings(), kRecord.values, now).empty());
  now["clip-norm"] = "1.5";
  now["data"] = R"(["c"])";
  // Of an earlier version, which did not know it.
  now["bad-loss"] = "\"skip\"";
  std::vector<RunChange> changes =
      changes_between(run_settings(), kRecord.values, now);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(
      explain(run_settings(), changes[0]),
      "--data was a b, is c: the samples are the same");
  EXPECT_EQ(
      explain(run_settings(), changes[1]),
      "--clip-norm was 0.5, is 1.5: it counts from the next step on");
  refuse_changes(run_settings(), changes, "run/step-4", "Do this");
  now["seed"] = "8";
  changes = changes_between(run_settings(), kRecord.values, now);
  EXPECT_EQ(
      user_error([&] {
        refuse_changes(run_settings(), changes, "run/step-4", "Do this");
      }),
      "run/step-4 cannot go on so: --seed was 7, is 8: the order of the "
      "samples "
      "follows from it. Do this");
}

TEST(RunSettings, EachHasOneRule) {
  for (const auto* table : {&run_settings(), &script_settings()}) {
    std::set<std::string_view> names;
    for (const RunSetting& each : *table) {
      EXPECT_TRUE(names.insert(each.name).second) << each.name;
      EXPECT_FALSE(each.why.empty()) << each.name;
    }
  }
}

TEST(RunFolder, KeepsItsRecord) {
  const TestFolder folder;
  EXPECT_EQ(read_run_record(folder.path()), std::nullopt);
  write_run_record(folder.path(), kRecord);
  EXPECT_EQ(read_run_record(folder.path()), kRecord);
  EXPECT_EQ(
      std::distance(
          std::filesystem::directory_iterator(folder.path()),
          std::filesystem::directory_iterator()),
      1);
}

// In another process, which exits with 0 when the folder was free.
bool is_free(const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      const RunLock lock(folder);
      _exit(0);
    } catch (const UserError&) {
      _exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(RunLock, OneAtATime) {
  const TestFolder folder;
  {
    const RunLock lock(folder.path());
    EXPECT_EQ(lock.left_behind(), "");
    EXPECT_FALSE(is_free(folder.path()));
    EXPECT_TRUE(contains(
        user_error([&] { const RunLock second(folder.path()); }),
        cat("another run is at work in ",
            folder.path(),
            ": process ",
            getpid(),
            " on ")));
  }
  EXPECT_TRUE(is_free(folder.path()));
  // The child left without giving it back.
  const RunLock lock(folder.path());
  EXPECT_TRUE(contains(lock.left_behind(), "process "));
}

TEST(RunLock, WritesOverNothingElse) {
  const TestFolder folder;
  const TestFolder other;
  const std::string precious = other / "precious";
  const std::string lock = folder / "run.lock";
  write_file(precious, "bytes");
  std::filesystem::create_symlink(precious, lock);
  EXPECT_TRUE(contains(
      user_error([&] { const RunLock taken(folder.path()); }), "it is a link"));
  std::filesystem::remove(lock);
  std::filesystem::create_hard_link(precious, lock);
  EXPECT_TRUE(contains(
      user_error([&] { const RunLock taken(folder.path()); }),
      "it is no file of its own"));
  EXPECT_EQ(read_file(precious), "bytes");
}

TEST(RunFolder, LinksInPlaceOfItsRecordAreNotFollowed) {
  const TestFolder folder;
  const TestFolder other;
  const std::string precious = other / "precious";
  write_file(precious, "bytes");
  const std::string record = folder / "run.json";
  const std::string aside = cat(record, ".partial");
  std::filesystem::create_symlink(precious, aside);
  EXPECT_TRUE(contains(
      user_error([&] { write_run_record(folder.path(), {}); }),
      "it is a link"));
  std::filesystem::remove(aside);
  std::filesystem::create_symlink(precious, record);
  write_run_record(folder.path(), {});
  EXPECT_FALSE(std::filesystem::is_symlink(record));
  EXPECT_EQ(read_file(precious), "bytes");
}

TEST(RunLock, ProgramsThatAreStartedHoldItToo) {
  const TestFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::optional<RunLock> lock(folder.path());
  lock->share();
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/cat", "cat", fifo.c_str(), nullptr);
    _exit(127);
  }
  // Opens when the program reads it, which is after its start.
  const int writer = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
  lock.reset();
  EXPECT_FALSE(is_free(folder.path()));
  close(writer);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_free(folder.path()));
}

}  // namespace
}  // namespace weft
