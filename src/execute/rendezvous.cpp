// SPDX-License-Identifier: Apache-2.0
#include "execute/rendezvous.h"

#include "base/error.h"
#include "base/number.h"
#include "execute/process.h"
#include "graph/most_ranks.h"

#include <cstdlib>
#include <unistd.h>

namespace weft {
namespace {

constexpr int64_t kMostPort = 65535;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  WEFT_CHECK_USER(
      text != nullptr,
      "RANK is set, and ",
      name,
      " is not: start ranks with weft --nproc or with torchrun");
  return text;
}

int64_t integer(const char* name, const IntegerRange& range) {
  return expect_integer(
      variable(name), cat("the environment variable ", name), range);
}

void take_seconds(const char* name, int64_t& seconds) {
  // Clocks count in nanoseconds.
  constexpr int64_t kMostSeconds = 100'000'000;
  if (std::getenv(name) != nullptr) {
    seconds = integer(name, {1, kMostSeconds});
  }
}

}  // namespace

std::optional<Rendezvous> rendezvous_from_environment() {
  if (std::getenv("RANK") == nullptr) {
    return std::nullopt;
  }
  Rendezvous rendezvous;
  rendezvous.rank = integer("RANK", {0, kMostMeshRanks});
  rendezvous.size = integer("WORLD_SIZE", {1, kMostMeshRanks});
  rendezvous.host = variable("MASTER_ADDR");
  rendezvous.port = static_cast<int>(integer("MASTER_PORT", {0, kMostPort}));
  take_seconds("WEFT_STALL_SECONDS", rendezvous.stall_seconds);
  take_seconds("WEFT_TIMEOUT_SECONDS", rendezvous.timeout_seconds);
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const char* run = std::getenv("TORCHELASTIC_RUN_ID");
  if (std::getenv(kStartVariable) != nullptr) {
    rendezvous.has_agent = true;
    rendezvous.launcher_socket = launcher_socket(variable(kStartVariable));
    rendezvous.prefix = cat("weft/", variable(kStartVariable));
    rendezvous.ended_key = ended_key(variable(kStartVariable));
  } else if (run != nullptr) {
    const char* restart = std::getenv("TORCHELASTIC_RESTART_COUNT");
    rendezvous.has_agent = agent != nullptr && std::string(agent) == "True";
    rendezvous.prefix =
        cat("weft/", run, ".", restart == nullptr ? "0" : restart);
  }
  WEFT_CHECK_USER(
      rendezvous.rank < rendezvous.size,
      "RANK is ",
      rendezvous.rank,
      ", and WORLD_SIZE ",
      rendezvous.size);
  return rendezvous;
}

std::string rank_name(const Rendezvous& rendezvous, int64_t rank) {
  return rendezvous.rank_names.empty()
             ? cat("rank ", rank)
             : rendezvous.rank_names.at(static_cast<size_t>(rank));
}

std::string meeting_place(const Rendezvous& rendezvous) {
  return rendezvous.launcher_socket.empty()
             ? cat(rendezvous.host, ":", rendezvous.port)
             : "the launcher";
}

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

int64_t stall_seconds_from_environment() {
  Rendezvous rendezvous;
  take_seconds("WEFT_STALL_SECONDS", rendezvous.stall_seconds);
  return rendezvous.stall_seconds;
}

std::string ended_key(const std::string& start) {
  return cat("weft/", start, ".ended");
}

std::string store_does_not_answer(const Rendezvous& rendezvous) {
  const std::string who =
      cat("the store at ", meeting_place(rendezvous), " does not answer: ");
  if (!rendezvous.has_agent) {
    return cat(
        who,
        rank_name(rendezvous, 0),
        ", which keeps it, is gone or stopped, or the link to it is lost");
  }
  // Ranks of our own start are children of the process that keeps it.
  const bool is_ours = !rendezvous.launcher_socket.empty();
  const pid_t parent = ::getppid();
  return is_ours && process_state(process_of(parent)) == ProcessState::Stopped
             ? cat(who,
                   "the process that started the ranks is stopped; kill -CONT ",
                   parent,
                   " lets it go on")
             : cat(who,
                   "the process that started the ranks is gone",
                   is_ours ? "" : ", or the link to it is lost");
}

}  // namespace weft
