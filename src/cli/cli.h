// SPDX-License-Identifier: Apache-2.0
// The `weft` program, for main.cpp and for tests.
#pragma once

namespace weft {

// Exit status of a mistake by the user: arguments, files, models.
constexpr int kUserErrorStatus = 2;
// Exit status of a mistake of ours.
constexpr int kInternalErrorStatus = 70;

// Reads the command line, does what it says and returns the exit status. The
// one place where errors become messages: "weft: error: ..." on stderr.
int run_command_line(int argc, const char* const* argv);

}  // namespace weft
