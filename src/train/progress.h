// SPDX-License-Identifier: Apache-2.0
// How far a run is, for a person: one line that is written over on a terminal,
// a line every few seconds in a file, nothing when it shall be quiet.
#pragma once

#include "base/terminal.h"

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace weft {

struct ProgressState {
  // Steps that are done, of `steps`; 0: nobody knows how many there will be.
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;
  double step_seconds = 0;
  double items_per_second = 0;
  // What the items are: "tokens" or "samples".
  std::string item = "samples";
  // Of the machine's peak, between 0 and 1; negative: not known.
  double flops_utilisation = -1;
  int64_t memory_bytes = 0;
};

// At most `width` columns if step and loss fit: the bar becomes shorter, then
// what matters least goes. Bars are drawn with '#' when `is_plain`.
//   step 410/1000 [########------------]  loss 3.2145  0.213 s/step
//   19.2 K tokens/s  MFU 41.2 %  1.20 GiB  2:06 left
std::string progress_line(const ProgressState& state, int width, bool is_plain);

// "2:06", "1:02:03", "3 days 04:05:06".
std::string duration_text(double seconds);

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // To `out`, which must outlive it.
  Progress(std::ostream& out, const Terminal& terminal, bool is_quiet);
  // Ends the line on a terminal.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // After every step. The last step of the run is always shown. What remains is
  // told by a mean of the latest step times.
  void update(const ProgressState& state, Clock::time_point now = Clock::now());

  // A message on a line of its own, above the progress.
  void say(const std::string& message);

 private:
  std::ostream& out_;
  const Terminal terminal_;
  const bool is_quiet_;
  bool has_shown_ = false;
  std::string line_;
  double mean_step_seconds_ = 0;
  Clock::time_point shown_;
};

}  // namespace weft
