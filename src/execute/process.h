// SPDX-License-Identifier: Apache-2.0
// Which process a rank is, and whether it still is.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct ProcessId {
  // Equal for processes that see each other's memory and numbers: boot, host
  // name and pid namespace.
  std::string machine;
  int64_t pid = 0;
  // When it began, in the kernel's ticks: a pid may be given out again.
  int64_t start_ticks = 0;

  bool operator==(const ProcessId&) const = default;
};

ProcessId this_process();
// A process of this machine that runs, or that has not been waited for.
ProcessId process_of(int64_t pid);

std::string print(const ProcessId& process);
// Throws UserError when the text is not one of print's.
ProcessId parse_process_id(const std::string& text);

enum class ProcessState { Runs, Stopped, Gone };

// Of a process of this machine. One that has ended and was not waited for is
// gone, even before the last of its threads has ended, when it can be.
ProcessState process_state(const ProcessId& process);

}  // namespace weft
