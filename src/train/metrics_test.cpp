// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.h"

#include "base/error.h"
#include "base/text.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace weft {
namespace {

class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "weft.metrics.XXXXXX")
            .string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }

  std::string folder_;
};

TEST_F(Metrics, OneLineAStep) {
  JsonLines lines(path("a.jsonl"));
  lines.write(0, {{"loss", 3.25}, {"lr", 0.001}});
  EXPECT_EQ(
      read_file(path("a.jsonl")), "{\"step\":0,\"loss\":3.25,\"lr\":0.001}\n");
  lines.write(1, {{"a \"b\"\n", std::nan("")}, {"big", INFINITY}});
  EXPECT_NE(
      read_file(path("a.jsonl"))
          .find("{\"step\":1,\"a \\\"b\\\"\\u000a\":null,\"big\":null}\n"),
      std::string::npos);
}

TEST_F(Metrics, ResumesAfterAStep) {
  {
    JsonLines lines(path("a.jsonl"));
    for (int64_t step = 0; step < 5; ++step) {
      lines.write(step, {{"loss", static_cast<double>(step)}});
    }
  }
  std::ofstream(path("a.jsonl"), std::ios::app) << "{\"step\":5,\"lo";
  {
    JsonLines lines(path("a.jsonl"), 2);
    lines.write(3, {{"loss", 30.5}});
  }
  EXPECT_EQ(
      read_file(path("a.jsonl")),
      "{\"step\":0,\"loss\":0.0}\n{\"step\":1,\"loss\":1.0}\n"
      "{\"step\":2,\"loss\":2.0}\n{\"step\":3,\"loss\":30.5}\n");
}

TEST_F(Metrics, ANewRunBeginsANewFile) {
  std::ofstream(path("a.jsonl")) << "old\n";
  JsonLines(path("a.jsonl")).write(0, {});
  EXPECT_EQ(read_file(path("a.jsonl")), "{\"step\":0}\n");
  JsonLines(path("none.jsonl"), 7).write(8, {});
  EXPECT_EQ(read_file(path("none.jsonl")), "{\"step\":8}\n");
}

TEST_F(Metrics, WillNotCutAnotherFile) {
  std::ofstream(path("notes.txt")) << "{\"step\":1}\nmy notes\n";
  try {
    const JsonLines lines(path("notes.txt"), 3);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(
        std::string(error.what()).find("notes.txt:2:"), std::string::npos);
  }
  EXPECT_EQ(read_file(path("notes.txt")), "{\"step\":1}\nmy notes\n");
  EXPECT_THROW(JsonLines(path("no/such/folder")), UserError);
}

// Framing and checksum of a known record: the file's first is that of every
// event file but for its time.
TEST_F(Metrics, FollowNoLink) {
  write_file(path("precious"), "bytes");
  std::filesystem::create_symlink(path("precious"), path("a.jsonl"));
  for (const std::optional<int64_t> after : {std::optional<int64_t>(), {2}}) {
    EXPECT_THROW(JsonLines(path("a.jsonl"), after), UserError);
  }
  EXPECT_EQ(read_file(path("precious")), "bytes");
  std::filesystem::create_directory(path("other"));
  std::filesystem::create_symlink(path("other"), path("tensorboard"));
  EXPECT_THROW(EventFile(path("tensorboard"), std::nullopt), UserError);
  EXPECT_TRUE(std::filesystem::is_empty(path("other")));
}

TEST_F(Metrics, RecordsAreFramed) {
  const EventFile file(path("events"));
  const std::string bytes = read_file(file.path());
  ASSERT_GE(bytes.size(), 16U);
  // 9 bytes of time, 2 of step, 15 of version.
  EXPECT_EQ(to_hex(bytes.substr(0, 8)), "1a00000000000000");
  EXPECT_EQ(bytes.size(), 8 + 4 + 0x1a + 4);
  // The masked CRC-32C of the eight bytes above, computed by TensorBoard.
  EXPECT_EQ(to_hex(bytes.substr(8, 4)), "129bd82d");
  EXPECT_NE(bytes.find("brain.Event:2"), std::string::npos);
}

// The Python of the folder that this was built in, or nothing.
std::string python() {
  for (auto folder = std::filesystem::read_symlink("/proc/self/exe");
       folder != folder.root_path();
       folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / ".venv/bin/python")) {
      return (folder / ".venv/bin/python").string();
    }
  }
  return "";
}

TEST_F(Metrics, TensorBoardReadsThem) {
  const std::string interpreter = python();
  if (interpreter.empty() ||
      std::system(
          cat(interpreter, " -c 'import tensorboard' 2>/dev/null").c_str()) !=
          0) {
    GTEST_SKIP() << "there is no tensorboard";
  }
  {
    EventFile file(path("events"));
    for (int64_t step = 0; step < 5; ++step) {
      file.write(step, {{"loss", 0.5 * static_cast<double>(step)}, {"lr", 1}});
    }
  }
  // TensorBoard tells files of one folder apart by their names' order.
  EventFile(path("events"), 2).write(3, {{"loss", 30.5}});
  std::ofstream(path("read.py"))
      << "import sys\n"
         "from tensorboard.backend.event_processing.event_accumulator import "
         "EventAccumulator\n"
         "events = EventAccumulator(sys.argv[1])\n"
         "events.Reload()\n"
         "for tag in sorted(events.Tags()['scalars']):\n"
         "  print(tag, *[(e.step, e.value) for e in events.Scalars(tag)])\n";
  ASSERT_EQ(
      std::system(cat(interpreter,
                      " ",
                      path("read.py"),
                      " ",
                      path("events"),
                      " > ",
                      path("read.txt"),
                      " 2> ",
                      path("errors.txt"))
                      .c_str()),
      0)
      << read_file(path("errors.txt"));
  EXPECT_EQ(
      read_file(path("read.txt")),
      "loss (0, 0.0) (1, 0.5) (2, 1.0) (3, 30.5)\n"
      "lr (0, 1.0) (1, 1.0) (2, 1.0)\n");
}

}  // namespace
}  // namespace weft
