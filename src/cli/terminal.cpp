// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace weft {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

}  // namespace

TextStyle stdout_style(bool ascii) {
  TextStyle style;
  const bool is_plain = is_set("NO_COLOR") || is_dumb();
  style.ascii = ascii || is_plain;
  if (isatty(STDOUT_FILENO) == 0) {
    return style;
  }
  style.colour = !is_plain;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = size.ws_col;
  }
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
