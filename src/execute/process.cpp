// SPDX-License-Identifier: Apache-2.0
#include "execute/process.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <unistd.h>

namespace weft {
namespace {

struct Stat {
  char state = 'X';
  int64_t start_ticks = 0;
};

// 'X' when there is no such process.
Stat read_stat(int64_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  Stat stat;
  // The name before the last ')' may hold anything.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) {
    return stat;
  }
  std::istringstream fields(line.substr(name_end + 1));
  fields >> stat.state;
  std::string skipped;
  // The state is field 3, the start field 22.
  for (int field = 4; field < 22; ++field) {
    fields >> skipped;
  }
  fields >> stat.start_ticks;
  return stat;
}

std::string this_machine() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::getline(boot, boot_id);
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  std::array<char, 64> space = {};
  if (::readlink("/proc/self/ns/pid", space.data(), space.size() - 1) < 0) {
    space = {};
  }
  return cat(boot_id, "/", host.data(), "/", space.data());
}

}  // namespace

ProcessId this_process() { return process_of(::getpid()); }

ProcessId process_of(int64_t pid) {
  return {this_machine(), pid, read_stat(pid).start_ticks};
}

std::string print(const ProcessId& process) {
  return cat(process.pid, " ", process.start_ticks, " ", process.machine);
}

ProcessId parse_process_id(const std::string& text) {
  std::string_view rest = text;
  const std::optional<int64_t> pid = take_integer(rest);
  const bool has_ticks = rest.starts_with(' ');
  rest.remove_prefix(has_ticks ? 1 : 0);
  const std::optional<int64_t> start_ticks = take_integer(rest);
  WEFT_CHECK_USER(
      pid && has_ticks && start_ticks && rest.starts_with(' '),
      "the store holds ",
      quote(text),
      " where a rank's process should be: is it used by something else?");
  return {std::string(rest.substr(1)), *pid, *start_ticks};
}

ProcessState process_state(const ProcessId& process) {
  const Stat stat = read_stat(process.pid);
  if (stat.state == 'X' || stat.state == 'Z' ||
      stat.start_ticks != process.start_ticks) {
    return ProcessState::Gone;
  }
  return stat.state == 'T' || stat.state == 't' ? ProcessState::Stopped
                                                : ProcessState::Runs;
}

}  // namespace weft
