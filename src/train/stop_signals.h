// SPDX-License-Identifier: Apache-2.0
// A clean end on SIGTERM and SIGINT: the step under way is finished and saved.
#pragma once

#include <optional>
#include <string>

namespace weft {

// While it lives, the first SIGTERM or SIGINT is only noted, and the second
// ends the process at once with status 130. One at a time may live; before and
// after, signals are handled as they were.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // "SIGTERM" or "SIGINT" once one has come. From any thread.
  std::optional<std::string> caught() const;
};

}  // namespace weft
