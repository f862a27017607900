// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"

#include <iostream>
#include <iterator>

namespace weft {

std::string read_input(const std::string& path) {
  if (path != "-") {
    return read_file(path);
  }
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  WEFT_CHECK_USER(!std::cin.bad(), "cannot read the standard input");
  return text;
}

void write_output(const std::string& path, std::string_view content) {
  if (path != "-") {
    write_file(path, content);
    return;
  }
  std::cout << content << std::flush;
  WEFT_CHECK_USER(std::cout.good(), "cannot write to the standard output");
}

}  // namespace weft
