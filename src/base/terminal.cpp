// SPDX-License-Identifier: Apache-2.0
#include "base/terminal.h"

#include <cstdlib>
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

Terminal terminal_of(int fd) {
  Terminal terminal;
  terminal.is_plain = is_set("NO_COLOR") || is_dumb();
  terminal.is_terminal = ::isatty(fd) != 0;
  winsize size{};
  if (terminal.is_terminal && ::ioctl(fd, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    terminal.width = size.ws_col;
  }
  return terminal;
}

}  // namespace weft
