// SPDX-License-Identifier: Apache-2.0
#include "execute/store_keeper.h"

#include "base/text.h"

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

namespace weft {
namespace {

// torchrun and start_ranks number the ranks of a machine; else each speaks.
bool is_first_here() {
  const char* rank = std::getenv("LOCAL_RANK");
  return rank == nullptr || std::string_view(rank) == "0";
}

}  // namespace

StoreKeeper::StoreKeeper(Rendezvous rendezvous)
    : rendezvous_(std::move(rendezvous)), speaks_(is_first_here()) {}

void StoreKeeper::waited(std::chrono::milliseconds time) {
  if (time < kHeartbeat) {
    has_warned_ = false;
  } else if (speaks_ && !has_warned_.exchange(true)) {
    std::cerr << cat("weft: warning: ",
                     store_does_not_answer(rendezvous_),
                     ". It is waited for for at most ",
                     rendezvous_.stall_seconds,
                     " s\n")
              << std::flush;
  }
}

}  // namespace weft
