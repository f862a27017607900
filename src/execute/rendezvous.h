// SPDX-License-Identifier: Apache-2.0
// Where ranks find each other. Without LibTorch, for those that only start
// them.
#pragma once

#include "execute/heartbeat.h"
#include "execute/launch.h"

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
  // Another process, weft's or torchrun's, keeps the store there; else rank 0
  // does.
  bool has_agent = false;
  // Where the process that started the ranks keeps the store (StoreAddress);
  // empty: someone else started them.
  std::string launcher_socket = {};
  // Before every key in the store, so that a restart never reads what an
  // earlier start wrote.
  std::string prefix = "weft";
  // Where the process that started the ranks tells that one of them has ended,
  // for those that still wait to meet it; empty: nobody tells.
  std::string ended_key = {};
  // How long a rank may be silent or stand still before waiting for it is an
  // error.
  int64_t stall_seconds = kStallSeconds;
  // How long to wait for a rank that moves on; and for all ranks to come.
  int64_t timeout_seconds = kTimeoutSeconds;
  // How messages call the ranks, such as "stage 2 (rank 5)"; empty: "rank 5".
  std::vector<std::string> rank_names = {};
};

std::string rank_name(const Rendezvous& rendezvous, int64_t rank);

// From the variables that torchrun and weft itself set: RANK, WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT, and WEFT_STALL_SECONDS and WEFT_TIMEOUT_SECONDS if
// they are there; nullopt without RANK. Throws UserError when one is missing or
// makes no sense.
std::optional<Rendezvous> rendezvous_from_environment();

// Where the ranks meet, for messages: "10.0.0.1:29500", or "the launcher".
std::string meeting_place(const Rendezvous& rendezvous);

// Whether a name or address of a host is a loopback: all ranks are here then.
bool is_this_machine(const std::string& host);

// By WEFT_STALL_SECONDS, for who only starts ranks.
int64_t stall_seconds_from_environment();

// Where start_ranks, whose ranks have this text as kStartVariable, tells that
// one has ended.
std::string ended_key(const std::string& start);

// What to say when the store does not answer any more.
std::string store_does_not_answer(const Rendezvous& rendezvous);

}  // namespace weft
