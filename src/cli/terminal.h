// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile/text_table.h"

#include <string>

namespace weft {

// How to write to standard output: colours and the width of the window when it
// is a terminal (NO_COLOR and TERM=dumb are heeded), 100 columns otherwise.
// Blocks are drawn unless `ascii` or NO_COLOR asks for letters.
TextStyle stdout_style(bool ascii);

// A line on standard error about work that takes long, gone when this is. Says
// nothing when standard error is not a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& text);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void say(const std::string& text);

 private:
  bool is_shown_;
};

}  // namespace weft
