// SPDX-License-Identifier: Apache-2.0
// Where ranks find each other. Without LibTorch, for those that only start
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct Rendezvous {
  int64_t rank = 0;
  int64_t size = 1;
  std::string host = "127.0.0.1";
  int port = 0;
  // A listening socket of that port which rank 0 takes over, or -1: it listens
  // by itself.
  int listen_fd = -1;
  // torchrun's agent listens there, and no rank does.
  bool has_agent = false;
  int64_t timeout_seconds = 300;
};

// From the variables that torchrun and weft itself set: RANK, WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT; nullopt without RANK. Throws UserError when one is
// missing or makes no sense.
std::optional<Rendezvous> rendezvous_from_environment();

// Runs this program again with `arguments` as `ranks` processes that find each
// other, and returns the exit status of the first that failed, or 0. When one
// fails the others are ended.
int start_ranks(int64_t ranks, const std::vector<std::string>& arguments);

}  // namespace weft
