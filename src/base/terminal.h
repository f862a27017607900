// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weft {

// What an open file can show.
struct Terminal {
  // Lines can be written over.
  bool is_terminal = false;
  // NO_COLOR or TERM=dumb asks for letters only.
  bool is_plain = false;
  // In characters; 100 when it is no terminal.
  int width = 100;
};

Terminal terminal_of(int fd);

}  // namespace weft
