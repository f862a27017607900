// SPDX-License-Identifier: Apache-2.0
#include "train/progress.h"

#include <gtest/gtest.h>
#include <sstream>

namespace weft {
namespace {

using namespace std::chrono_literals;

ProgressState some_state() {
  ProgressState state;
  state.step = 400;
  state.steps = 1000;
  state.loss = 3.21449;
  state.step_seconds = 0.25;
  state.items_per_second = 19200;
  state.item = "tokens";
  state.flops_utilisation = 0.4123;
  state.memory_bytes = 3 << 29;
  return state;
}

int columns(const std::string& text) {
  int count = 0;
  for (const char c : text) {
    count += (static_cast<unsigned char>(c) & 0xc0U) != 0x80U ? 1 : 0;
  }
  return count;
}

TEST(Progress, SaysEverythingWhenThereIsRoom) {
  EXPECT_EQ(
      progress_line(some_state(), 200, true),
      "step 400/1000 [############------------------]  loss 3.2145  "
      "0.25 s/step  19.2 K tokens/s  MFU 41.2 %  1.50 GiB  2:30 left");
}

TEST(Progress, FitsEveryWidth) {
  for (int width = 26; width < 160; ++width) {
    for (const bool is_plain : {false, true}) {
      const std::string line = progress_line(some_state(), width, is_plain);
      EXPECT_LE(columns(line), width) << line;
      EXPECT_NE(line.find("loss 3.2145"), std::string::npos) << line;
    }
  }
  EXPECT_EQ(
      progress_line(some_state(), 38, true),
      "step 400/1000  loss 3.2145  2:30 left");
}

TEST(Progress, LeavesOutWhatIsNotKnown) {
  ProgressState state;
  state.step = 7;
  state.loss = 1;
  state.step_seconds = 2;
  EXPECT_EQ(progress_line(state, 100, true), "step 7  loss 1.0000  2 s/step");
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(126.4), "2:06");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(86400 + 5), "1 day 00:00:05");
  EXPECT_EQ(duration_text(3 * 86400.0 + 4 * 3600 + 306), "3 days 04:05:06");
}

TEST(Progress, AFileGetsALineEveryFewSecondsAndTheLast) {
  std::ostringstream out;
  Progress progress(out, {}, false);
  const Progress::Clock::time_point begin;
  ProgressState state = some_state();
  state.steps = 13;
  for (int64_t step = 1; step <= 13; ++step) {
    state.step = step;
    progress.update(state, begin + step * 1s);
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_NE(text.find("step 1/13"), std::string::npos);
  EXPECT_NE(text.find("step 6/13"), std::string::npos);
  EXPECT_NE(text.find("step 11/13"), std::string::npos);
  EXPECT_NE(text.find("step 13/13"), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, ATerminalLineIsWrittenOver) {
  std::ostringstream out;
  {
    Terminal terminal;
    terminal.is_terminal = true;
    terminal.width = 60;
    Progress progress(out, terminal, false);
    const Progress::Clock::time_point begin;
    ProgressState state = some_state();
    progress.update(state, begin);
    progress.update(state, begin + 10ms);
    state.step = 401;
    progress.update(state, begin + 1s);
    progress.say("saved");
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 3) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("\r\033[Ksaved\nstep 401/1000"), std::string::npos);
}

TEST(Progress, QuietSaysNothing) {
  std::ostringstream out;
  {
    Terminal terminal;
    terminal.is_terminal = true;
    Progress progress(out, terminal, true);
    progress.update(some_state());
  }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace weft
