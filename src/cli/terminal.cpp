// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include "base/terminal.h"

#include <iostream>
#include <unistd.h>

namespace weft {

TextStyle stdout_style(bool ascii) {
  const Terminal terminal = terminal_of(STDOUT_FILENO);
  TextStyle style;
  style.ascii = ascii || terminal.is_plain;
  style.colour = terminal.is_terminal && !terminal.is_plain;
  style.width = terminal.width;
  return style;
}

ProgressLine::ProgressLine(const std::string& text)
    : is_shown_(isatty(STDERR_FILENO) != 0) {
  say(text);
}

ProgressLine::~ProgressLine() {
  if (is_shown_) {
    std::cerr << "\r\033[K" << std::flush;
  }
}

void ProgressLine::say(const std::string& text) {
  if (is_shown_) {
    std::cerr << "\r\033[K" << text << std::flush;
  }
}

}  // namespace weft
