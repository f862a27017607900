// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  const int status = weft::run_command_line(argc, argv);
  std::cout.flush();
  // LibTorch would take its table of operators apart, a tenth of a second.
  std::quick_exit(status);
}
