// SPDX-License-Identifier: Apache-2.0
// Says that the process which keeps the store does not answer, while its
// answer may still come.
#pragma once

#include "execute/rendezvous.h"

#include <atomic>
#include <chrono>

namespace weft {

class StoreKeeper {
 public:
  explicit StoreKeeper(Rendezvous rendezvous);

  // To be told again and again how long a call has had no answer, from any
  // thread. After a heartbeat, the first rank of a machine warns, once a
  // silence.
  void waited(std::chrono::milliseconds time);

 private:
  const Rendezvous rendezvous_;
  const bool speaks_;
  std::atomic<bool> has_warned_ = false;
};

}  // namespace weft
