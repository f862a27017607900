// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a run on this machine. Without LibTorch in its interface.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft {

// Set for ranks that start_ranks started, to a text no other start has.
inline constexpr const char* kStartVariable = "WEFT_START";

// Of the store that start_ranks keeps for that start: no port, and nobody but
// processes of this user, in this network namespace, gets there.
std::string launcher_socket(const std::string& start);

struct StartOptions {
  // Each rank on a core of its own, in turn among those this process may use.
  bool pin = false;
  // How long the other ranks have to say what they miss and to leave, after one
  // failed.
  int64_t grace_seconds = 30;
  // What messages call the ranks; empty: "rank 5".
  std::vector<std::string> rank_names = {};
  // Who asks for so many ranks, and whether more than a core takes are meant
  // (rank_room.h).
  std::string asked_by = "the run";
  bool oversubscribe = false;
  // Of a rank that the system killed for want of memory: what was planned for
  // it and what it held, in words.
  std::function<std::string(int64_t rank)> memory_of = nullptr;
};

// Runs this program again with `arguments` as `ranks` processes that find each
// other at a store which this process keeps, and returns the exit status of the
// first that failed (128 + the signal's number when it was killed), or 0: of
// several that fail at once, of one that was killed. Says on standard error how
// that one ended. The first SIGINT or SIGTERM is passed on to the ranks, the
// second kills them; they also die with this process. One that comes before all
// ranks are started ends those that are; the status is then 128 + its number. A
// rank that is stopped is named within twice the heartbeat (heartbeat.h), and
// ended when the others have waited for it in vain. Must be called from the
// main thread. Throws UserError, with no rank left, where there is no room for
// so many (rank_room.h) or one cannot be started.
int start_ranks(
    int64_t ranks,
    const std::vector<std::string>& arguments,
    const StartOptions& options = {});

}  // namespace weft
