// SPDX-License-Identifier: Apache-2.0
#include "train/progress.h"

#include "base/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

constexpr auto kTerminalEvery = 100ms;
constexpr auto kFileEvery = 5s;
constexpr int kLongestBar = 30;
constexpr int kShortestBar = 5;
// The share of the newest step in the mean.
constexpr double kNewest = 0.1;
constexpr const char* kClearLine = "\r\033[K";

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string bar(double share, int columns, bool is_plain) {
  const int full = static_cast<int>(std::floor(share * columns));
  std::string text;
  for (int i = 0; i < columns; ++i) {
    text += i < full ? (is_plain ? "#" : "█") : (is_plain ? "-" : "░");
  }
  return text;
}

// A part of the line; the one with the greatest number goes first when there is
// no room.
struct Part {
  std::string text;
  int goes = 0;
};

std::vector<Part> parts(const ProgressState& state) {
  std::vector<Part> all;
  all.push_back({number("loss %.4f", state.loss), 0});
  all.push_back({number("%.3g s/step", state.step_seconds), 2});
  if (state.items_per_second > 0) {
    all.push_back(
        {cat(human_count(state.items_per_second), " ", state.item, "/s"), 3});
  }
  if (state.flops_utilisation >= 0) {
    all.push_back({number("MFU %.1f %%", 100 * state.flops_utilisation), 4});
  }
  if (state.memory_bytes > 0) {
    all.push_back({human_bytes(static_cast<double>(state.memory_bytes)), 5});
  }
  if (state.steps > state.step) {
    const double left =
        static_cast<double>(state.steps - state.step) * state.step_seconds;
    all.push_back({cat(duration_text(left), " left"), 1});
  }
  return all;
}

int columns(const std::vector<Part>& all) {
  int sum = 0;
  for (const Part& part : all) {
    sum += 2 + static_cast<int>(part.text.size());
  }
  return sum;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  const int64_t days = whole / 86400;
  const int64_t hours = whole / 3600 % 24;
  const auto minutes = static_cast<int>(whole / 60 % 60);
  const auto rest = static_cast<int>(whole % 60);
  char text[32];
  if (days == 0 && hours == 0) {
    std::snprintf(text, sizeof(text), "%d:%02d", minutes, rest);
    return text;
  }
  std::snprintf(text, sizeof(text), ":%02d:%02d", minutes, rest);
  if (days == 0) {
    return cat(hours, text);
  }
  return cat(
      days, days == 1 ? " day " : " days ", hours / 10, hours % 10, text);
}

std::string progress_line(
    const ProgressState& state, int width, bool is_plain) {
  const std::string count = state.steps > 0
                                ? cat("step ", state.step, "/", state.steps)
                                : cat("step ", state.step);
  std::vector<Part> shown = parts(state);
  const auto room = [&] {
    return width - static_cast<int>(count.size()) - columns(shown);
  };
  while (room() < 0 && shown.size() > 1) {
    shown.erase(std::max_element(
        shown.begin(), shown.end(), [](const Part& a, const Part& b) {
          return a.goes < b.goes;
        }));
  }
  std::string line = count;
  // A space and brackets.
  const int bar_columns = std::min(room() - 3, kLongestBar);
  if (state.steps > 0 && bar_columns >= kShortestBar) {
    const double share = std::clamp(
        static_cast<double>(state.step) / static_cast<double>(state.steps),
        0.0,
        1.0);
    line += cat(" [", bar(share, bar_columns, is_plain), "]");
  }
  for (const Part& part : shown) {
    line += "  " + part.text;
  }
  return line;
}

Progress::Progress(std::ostream& out, const Terminal& terminal, bool is_quiet)
    : out_(out), terminal_(terminal), is_quiet_(is_quiet) {}

Progress::~Progress() {
  if (has_shown_ && terminal_.is_terminal) {
    out_ << "\n" << std::flush;
  }
}

void Progress::update(const ProgressState& state, Clock::time_point now) {
  mean_step_seconds_ =
      mean_step_seconds_ == 0
          ? state.step_seconds
          : (1 - kNewest) * mean_step_seconds_ + kNewest * state.step_seconds;
  const auto every = terminal_.is_terminal
                         ? std::chrono::milliseconds(kTerminalEvery)
                         : std::chrono::milliseconds(kFileEvery);
  const bool is_last = state.steps > 0 && state.step >= state.steps;
  if (is_quiet_ || (has_shown_ && !is_last && now - shown_ < every)) {
    return;
  }
  ProgressState smooth = state;
  smooth.step_seconds = mean_step_seconds_;
  has_shown_ = true;
  shown_ = now;
  if (terminal_.is_terminal) {
    // One column less: some terminals break the line after the last.
    line_ = progress_line(smooth, terminal_.width - 1, terminal_.is_plain);
    out_ << kClearLine << line_ << std::flush;
  } else {
    out_ << progress_line(smooth, 1000, true) << "\n" << std::flush;
  }
}

void Progress::say(const std::string& message) {
  if (has_shown_ && terminal_.is_terminal) {
    out_ << kClearLine << message << "\n" << line_ << std::flush;
  } else {
    out_ << message << "\n" << std::flush;
  }
}

}  // namespace weft
