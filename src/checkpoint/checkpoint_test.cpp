// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/test_folder.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 12;
constexpr int64_t kColumns = 5;

std::vector<float> values_at(int64_t step, int64_t first_row, int64_t rows) {
  std::vector<float> values(static_cast<size_t>(rows * kColumns));
  std::iota(
      values.begin(),
      values.end(),
      static_cast<float>(step * 1000 + first_row * kColumns));
  return values;
}

// The weight split by rows over the ranks, a count that all of them hold.
std::string save(const std::string& folder, int64_t step, int64_t ranks) {
  std::vector<std::string> parts;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t first = kRows * rank / ranks;
    const int64_t rows = kRows * (rank + 1) / ranks - first;
    const auto weight = bytes_of(values_at(step, first, rows));
    const auto count = bytes_of<int64_t>({step});
    parts.push_back(write_shard(
        folder,
        step,
        rank,
        {{"weight",
          parse_type("f32[12, 5]"),
          {{first, 0}, {rows, kColumns}},
          weight},
         {"count", parse_type("i64[]"), {}, count}}));
  }
  return publish(
      folder,
      step,
      parts,
      {.fingerprint = "model-1", .state = R"({"position":96})", .keep = 2});
}

void expect_whole(const std::string& path, int64_t step) {
  Checkpoint checkpoint(path);
  EXPECT_EQ(checkpoint.step(), step);
  EXPECT_EQ(
      values_of<float>(read_whole(checkpoint, "weight")),
      values_at(step, 0, kRows));
  EXPECT_EQ(
      values_of<int64_t>(read_whole(checkpoint, "count")),
      std::vector<int64_t>{step});
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void flip_byte(const std::string& path, int64_t from_end) {
  std::string text = read_file(path);
  char& byte = text.at(text.size() - static_cast<size_t>(from_end));
  byte = static_cast<char>(byte ^ 1);
  write_file(path, text);
}

TEST(Checkpoint, LoadsOnAnyNumberOfRanks) {
  const TestFolder folder;
  Checkpoint checkpoint(save(folder.path(), 7, 5));
  EXPECT_EQ(checkpoint.state(), R"({"position":96})");
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"count", "weight"}));
  EXPECT_EQ(print(checkpoint.type("weight")), "f32[12, 5]");
  for (int64_t ranks = 1; ranks <= 12; ++ranks) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t first = kRows * rank / ranks;
      const int64_t rows = kRows * (rank + 1) / ranks - first;
      std::vector<std::byte> got(static_cast<size_t>(rows * kColumns) * 4);
      checkpoint.read("weight", {{first, 0}, {rows, kColumns}}, got);
      ASSERT_EQ(values_of<float>(got), values_at(7, first, rows));
    }
  }
  std::vector<std::byte> column(48);
  checkpoint.read("weight", {{0, 3}, {12, 1}}, column);
  EXPECT_EQ(values_of<float>(column)[11], 7000 + 11 * 5 + 3);
}

TEST(Checkpoint, SavedAgainWithOtherPieces) {
  const TestFolder folder;
  for (const int64_t ranks : {4, 1, 3}) {
    expect_whole(save(folder.path(), 7, ranks), 7);
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"step-7"});
    EXPECT_EQ(
        names_in(folder / "step-7").size(), static_cast<size_t>(ranks) + 1);
  }
}

TEST(Checkpoint, KeepsTheNewest) {
  const TestFolder folder;
  for (const int64_t step : {5, 9, 10, 100}) {
    save(folder.path(), step, 2);
  }
  EXPECT_EQ(
      names_in(folder.path()),
      (std::vector<std::string>{"step-10", "step-100"}));
  const LastCheckpoint last = find_last(folder.path());
  EXPECT_EQ(last.path, folder / "step-100");
  EXPECT_EQ(last.step, 100);
}

TEST(Checkpoint, PiecesMustMakeUpTheTensor) {
  const TestFolder folder;
  const auto bytes = bytes_of<uint8_t>({1, 2});
  const auto part = [&](int64_t rank, int64_t start) {
    return write_shard(
        folder.path(),
        1,
        rank,
        {{"a", parse_type("u8[4]"), {{start}, {2}}, bytes}});
  };
  EXPECT_THROW(publish(folder.path(), 1, {part(0, 0)}, {}), InternalError);
  EXPECT_THROW(
      publish(folder.path(), 1, {part(0, 0), part(1, 1)}, {}), InternalError);
  publish(folder.path(), 1, {part(0, 0), part(1, 2), part(2, 0)}, {});
  Checkpoint checkpoint(folder / "step-1");
  EXPECT_EQ(
      values_of<uint8_t>(read_whole(checkpoint, "a")),
      (std::vector<uint8_t>{1, 2, 1, 2}));
}

TEST(Checkpoint, FlippedByteIsFound) {
  const TestFolder folder;
  const std::string path = save(folder.path(), 7, 2);
  // The last eight bytes of a shard are the count, before it is the weight.
  flip_byte(path + "/rank-1.safetensors", 9);
  Checkpoint checkpoint(path);
  std::vector<std::byte> got(20);
  checkpoint.read("weight", {{0, 0}, {1, 5}}, got);
  EXPECT_EQ(
      user_error([&] { checkpoint.read("weight", {{11, 0}, {1, 5}}, got); }),
      path +
          "/rank-1.safetensors was altered: the checksum of [6:12, 0:5] of "
          "tensor \"weight\" differs. Remove " +
          path + " to go on from the checkpoint before it");
  EXPECT_NE(user_error([&] { checkpoint.verify(); }), "no error");
}

TEST(Checkpoint, LastWholeOneByChecksums) {
  const TestFolder folder;
  save(folder.path(), 7, 2);
  save(folder.path(), 8, 2);
  flip_byte(folder / "step-8/rank-0.safetensors", 30);
  EXPECT_EQ(find_last(folder.path()).step, 8);
  const LastCheckpoint last = find_last(folder.path(), Verify::Checksums);
  EXPECT_EQ(last.step, 7);
  ASSERT_EQ(last.skipped.size(), 1U);
  EXPECT_TRUE(contains(last.skipped[0].reason, "was altered"));
}

// What is written can be read: the index is one more level around it.
TEST(Checkpoint, AStateTooDeepIsNotWritten) {
  CheckpointIndex index;
  index.state = std::string(98, '[') + std::string(98, ']');
  EXPECT_EQ(parse_checkpoint_index(print(index), "text"), index);
  index.state = std::string(99, '[') + std::string(99, ']');
  EXPECT_EQ(parse_checkpoint_index(print(index), "text"), index);
  index.state = std::string(100, '[') + std::string(100, ']');
  EXPECT_EQ(
      user_error([&] { print(index); }),
      "the state of a checkpoint cannot be written: line 1, column 101: values "
      "are nested deeper than 100");
}

TEST(Checkpoint, SaysWhatIsBroken) {
  const TestFolder folder;
  const std::string path = save(folder.path(), 7, 2);
  const auto error = [&] { return user_error([&] { Checkpoint c(path); }); };
  const std::string index = path + "/index.json";
  const std::string text = read_file(index);

  EXPECT_EQ(
      user_error([&] { Checkpoint(path).type("bias"); }),
      path + " has no tensor \"bias\"");
  EXPECT_TRUE(contains(
      user_error([&] { Checkpoint(path).expect_fingerprint("model-2"); }),
      path +
          " is a checkpoint of another model: its fingerprint is model-1, this "
          "model's is model-2"));
  Checkpoint(path).expect_fingerprint("model-1");

  std::string changed = text;
  changed.replace(changed.find("\"position\": 96"), 14, "\"position\": 97");
  write_file(index, changed);
  EXPECT_TRUE(contains(error(), "it was changed after it was written"));
  changed = text;
  changed.replace(changed.find("\"version\": 1"), 12, "\"version\": 9");
  write_file(index, changed);
  EXPECT_TRUE(contains(
      error(), "the checkpoint has version 9 and this weft reads version 1"));
  write_file(index, std::string(100000, '['));
  EXPECT_EQ(
      error(),
      index +
          " is broken: line 1, column 101: values are nested deeper than "
          "100. Use an earlier checkpoint");
  write_file(index, text.substr(0, text.size() / 2));
  EXPECT_TRUE(contains(error(), index + " is broken: "));
  write_file(index, "{}");
  EXPECT_EQ(error(), index + ": it is not the index of a checkpoint");
  fs::remove(index);
  EXPECT_EQ(error(), path + " is not a whole checkpoint: it has no index.json");
  write_file(index, text);

  const std::string shard = path + "/rank-1.safetensors";
  const std::string bytes = read_file(shard);
  write_file(shard, bytes.substr(0, bytes.size() - 1));
  EXPECT_TRUE(contains(error(), shard + " is cut short or altered: it has "));
  fs::remove(shard);
  EXPECT_TRUE(contains(error(), shard + " is missing from its checkpoint"));
  const LastCheckpoint last = find_last(folder.path());
  EXPECT_EQ(last.path, std::nullopt);
  ASSERT_EQ(last.skipped.size(), 1U);
  EXPECT_EQ(last.skipped[0].path, path);
  EXPECT_TRUE(contains(last.skipped[0].reason, "is missing"));
}

// Any byte of the index, changed, is either seen or without effect (a space).
TEST(Checkpoint, EveryFlippedByteOfTheIndexIsFound) {
  const TestFolder folder;
  const std::string path = save(folder.path(), 7, 2);
  const std::string index = path + "/index.json";
  const std::string text = read_file(index);
  const CheckpointIndex right = parse_checkpoint_index(text, "text");
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    try {
      ASSERT_EQ(parse_checkpoint_index(changed, "text"), right) << i;
    } catch (const UserError& error) {
      ASSERT_NE(std::string_view(error.what()), "");
    }
  }
}

TEST(Checkpoint, KilledSavesLeaveTheLastWholeOne) {
  const TestFolder folder;
  std::mt19937 random(1);
  save(folder.path(), 1, 2);
  int64_t whole = 1;
  int killed = 0;
  for (int64_t step = 2; step < 40; ++step) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Ends this process at some moment of the save, or after it.
      const auto after = static_cast<useconds_t>(random() % 2000);
      std::thread([after] {
        usleep(after);
        _exit(9);
      }).detach();
      save(folder.path(), step, 2);
      _exit(0);
    }
    random();
    int status = 0;
    waitpid(child, &status, 0);
    killed += WEXITSTATUS(status) == 9 ? 1 : 0;
    const LastCheckpoint last = find_last(folder.path(), Verify::Checksums);
    ASSERT_TRUE(last.path.has_value());
    ASSERT_TRUE(last.step == whole || last.step == step) << last.step;
    for (const SkippedCheckpoint& skipped : last.skipped) {
      ASSERT_TRUE(
          contains(skipped.reason, "its save did not finish") ||
          contains(skipped.reason, "it was being deleted"))
          << skipped.reason;
    }
    whole = last.step;
    expect_whole(last.path.value_or(""), whole);
  }
  EXPECT_GT(killed, 0);
  save(folder.path(), 40, 2);
  EXPECT_EQ(find_last(folder.path()).step, 40);
  for (const std::string& name : names_in(folder.path())) {
    EXPECT_FALSE(contains(name, ".")) << name;
  }
}

// Runs in a child, for its limits and mounts to be its own.
void in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// 0 when a save that cannot fit fails as promised.
int save_too_much(const std::string& folder, const std::string& reason) {
  const std::vector<std::byte> bytes(size_t{4} << 20);
  const std::string message = user_error([&] {
    write_shard(
        folder,
        2,
        0,
        {{"a", parse_type("u8[4194304]"), {{0}, {4194304}}, bytes}});
  });
  const LastCheckpoint last = find_last(folder, Verify::Checksums);
  const bool good =
      contains(message, "cannot save the checkpoint of step 2 in " + folder) &&
      contains(message, reason) && contains(message, "It needs 4,194,304") &&
      last.step == 1 && last.skipped.empty() &&
      names_in(folder) == std::vector<std::string>{"step-1"};
  if (!good) {
    fprintf(stderr, "%s\n", message.c_str());
  }
  return good ? 0 : 1;
}

TEST(Checkpoint, LimitOfFileSize) {
  const TestFolder folder;
  in_child([&] {
    save(folder.path(), 1, 2);
    const rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    return save_too_much(folder.path(), "File too large");
  });
}

TEST(Checkpoint, FullDisk) {
  const TestFolder folder;
  if (mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "no permission to mount a small disk";
  }
  save(folder.path(), 1, 2);
  EXPECT_EQ(save_too_much(folder.path(), "No space left on device"), 0);
  umount2(folder.path().c_str(), MNT_DETACH);
}

TEST(Checkpoint, FolderThatCannotBeMade) {
  const TestFolder folder;
  write_file(folder / "file", "");
  EXPECT_TRUE(contains(
      user_error([&] { save(folder / "file", 1, 1); }),
      "cannot save the checkpoint of step 1 in " + (folder / "file")));
}

// A link at the name of a save would let whoever made it choose what is written
// over and removed.
TEST(Checkpoint, ALinkInPlaceOfASaveIsNotFollowed) {
  const TestFolder folder;
  const TestFolder other;
  write_file(other / "precious", "bytes");
  write_file(other / "rank-0.safetensors", "more bytes");
  const std::string partial = partial_path(folder.path(), 1);
  fs::create_directory_symlink(other.path(), partial);
  EXPECT_TRUE(
      contains(user_error([&] { save(folder.path(), 1, 2); }), "it is a link"));
  fs::remove(partial);
  fs::create_directory_symlink(other.path(), partial);
  EXPECT_TRUE(contains(
      user_error([&] { publish(folder.path(), 1, {}, {}); }), "it is a link"));
  EXPECT_EQ(read_file(other / "precious"), "bytes");
  EXPECT_EQ(read_file(other / "rank-0.safetensors"), "more bytes");
  EXPECT_FALSE(fs::exists(checkpoint_path(folder.path(), 1)));
  // The link itself is gone, as what is left of any save that failed.
  save(folder.path(), 1, 2);
  expect_whole(checkpoint_path(folder.path(), 1), 1);
}

TEST(Checkpoint, LinksInsideASaveAreNotFollowed) {
  const TestFolder folder;
  const TestFolder other;
  for (const char* name : {"rank-0.safetensors", "index.json"}) {
    const std::string precious = other / name;
    write_file(precious, "bytes");
    const std::string partial = partial_path(folder.path(), 1);
    fs::create_directories(partial);
    fs::create_symlink(precious, partial + "/" + name);
    try {
      save(folder.path(), 1, 1);
    } catch (const UserError&) {
      // An index or a shard of our own in place of the link is as good.
    }
    EXPECT_EQ(read_file(precious), "bytes") << name;
    // Nor is a second name of a file cut to nothing.
    fs::remove_all(partial);
    fs::create_directories(partial);
    fs::create_hard_link(precious, partial + "/" + name);
    save(folder.path(), 1, 1);
    EXPECT_EQ(read_file(precious), "bytes") << name;
    expect_whole(checkpoint_path(folder.path(), 1), 1);
  }
}

TEST(Checkpoint, CleaningUpRemovesLinksAndNotWhereTheyLead) {
  const TestFolder folder;
  const TestFolder other;
  write_file(other / "precious", "bytes");
  for (const char* name : {"/step-1.partial", "/step-1.deleted", "/step-1"}) {
    fs::create_directory_symlink(other.path(), folder.path() + name);
  }
  for (const int64_t step : {2, 3, 4}) {
    save(folder.path(), step, 1);
  }
  EXPECT_EQ(
      names_in(folder.path()), (std::vector<std::string>{"step-3", "step-4"}));
  EXPECT_EQ(read_file(other / "precious"), "bytes");
}

TEST(Checkpoint, PublishWithoutAShard) {
  const TestFolder folder;
  const auto bytes = bytes_of<uint8_t>({1, 2});
  const std::string part = write_shard(
      folder.path(), 1, 0, {{"a", parse_type("u8[2]"), {{0}, {2}}, bytes}});
  fs::remove(folder / "step-1.partial/rank-0.safetensors");
  EXPECT_TRUE(contains(
      user_error([&] { publish(folder.path(), 1, {part}, {}); }),
      "rank-0.safetensors is not there. All ranks must write to one folder"));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(AsyncSaver, SavesAndReportsErrors) {
  const TestFolder folder;
  AsyncSaver saver;
  const auto start = [&](const std::string& into, int64_t step) {
    saver.start(
        into,
        step,
        0,
        {{"a", parse_type("u8[2]"), {{0}, {2}}, bytes_of<uint8_t>({1, 2})}},
        [into, step](const std::string& part) {
          publish(into, step, {part}, {});
        });
  };
  start(folder.path(), 1);
  start(folder.path(), 2);
  saver.wait();
  EXPECT_FALSE(saver.busy());
  EXPECT_EQ(find_last(folder.path()).step, 2);

  write_file(folder / "file", "");
  start(folder / "file", 3);
  EXPECT_TRUE(contains(
      user_error([&] { start(folder.path(), 4); }),
      "cannot save the checkpoint of step 3"));
  saver.wait();
  EXPECT_EQ(find_last(folder.path()).step, 2);
  start(folder.path(), 4);
  saver.wait();
  EXPECT_EQ(find_last(folder.path()).step, 4);
}

}  // namespace
}  // namespace weft
