// SPDX-License-Identifier: Apache-2.0
// Which store the ranks of a run meet at, and who keeps it:
// - ranks that start_ranks started: the launcher, at a named socket;
// - ranks of one machine that someone else started: rank 0, likewise;
// - ranks of several hosts: rank 0, at MASTER_ADDR and MASTER_PORT, for those
//   that know the run's secret;
// - ranks of torchrun: its agent, or with a secret rank 0, where torchrun's
//   store only tells the others where.
// docs/decisions/0029 has the reasons.
#pragma once

#include "execute/rendezvous.h"
#include "execute/store_server.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace weft {

// How long to wait for the first answer: the store may not be there yet, but
// for that of a launcher, which keeps it before it starts ranks.
std::chrono::milliseconds first_limit(const Rendezvous& rendezvous);

// The store as ranks of this start see it.
c10::intrusive_ptr<c10d::Store> behind_prefix(
    const Rendezvous& rendezvous, c10::intrusive_ptr<c10d::Store> root);

class RunStore {
 public:
  // On the rank that keeps the store, begins to. Throws UserError: without a
  // secret where one is needed, or when it cannot listen.
  explicit RunStore(const Rendezvous& rendezvous);

  // A connection of its own, whose every call ends (BoundedStore); `limit` is
  // for the first answer. Throws what SocketStore throws.
  // Who keeps the store is named when it has been silent for a heartbeat.
  c10::intrusive_ptr<c10d::Store> open(std::chrono::milliseconds limit) const;
  // Likewise, without the prefix of this start.
  c10::intrusive_ptr<c10d::Store> open_root(
      std::chrono::milliseconds limit) const;

  // The rendezvous, by which messages about a store that is gone say who kept
  // it.
  Rendezvous with_keeper() const;

  // Whether this process's end takes the store with it.
  bool is_kept_here() const { return server_ != nullptr; }
  // Whether rank 0's does; else that of who started the ranks.
  bool is_kept_by_rank_0() const {
    return address_ && rendezvous_.launcher_socket.empty();
  }

 private:
  const Rendezvous rendezvous_;
  const std::optional<std::string> secret_;
  // None: torchrun's own store is all there is, or it tells the address.
  std::optional<StoreAddress> address_;
  std::shared_ptr<StoreServer> server_;
  // Whether it has answered once: before that, ranks come in any order.
  const std::shared_ptr<std::atomic<bool>> is_there_;
};

}  // namespace weft
