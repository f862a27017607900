// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/communicator.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace weft {

// How long calls take while all ranks make them. Every figure is that of the
// fastest of several rounds, for whatever else runs on the machine makes them
// slower only, and the median of all ranks. A round goes on until it is long
// enough for the clock, and all ranks begin it together.
class LapTimer {
 public:
  // Finds the other ranks.
  LapTimer(const Rendezvous& rendezvous, int rounds);

  // Of one call. On rank 0; the others get 0. All ranks must ask for the same.
  double seconds(const std::function<void()>& call);
  // Of one call whose time cannot be taken twice: the median of all ranks.
  double seconds_once(const std::function<void()>& call);

  const Rendezvous& rendezvous() const { return rendezvous_; }
  // nullptr on a rank that is alone.
  World* world() { return world_.get(); }
  // What rank 0 says, on every rank.
  int64_t as_rank_0(int64_t mine);

 private:
  void together();
  double of_all(double mine);

  const Rendezvous rendezvous_;
  const int rounds_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Communicator> all_;
};

}  // namespace weft
