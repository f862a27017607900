// SPDX-License-Identifier: Apache-2.0
// Keeps the keys by which the ranks of a run find each other.
#pragma once

#include "execute/store_socket.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace weft {

// A thread that answers whoever connects to the socket: on a named one,
// processes of this user and of root; on a port, those that know the secret.
// Others are let go before anything they send is read as more than a proof, and
// named on standard error, once an address.
class StoreServer {
 public:
  // A port needs a secret.
  StoreServer(Socket listening, std::optional<std::string> secret);
  // Breaks all connections.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // For the process that keeps it; from any thread.
  c10::intrusive_ptr<c10d::Store> keys() const { return keys_; }

 private:
  class Loop;

  const c10::intrusive_ptr<c10d::HashStore> keys_;
  // Readable when the thread is to end.
  const Socket ending_;
  std::thread thread_;
};

}  // namespace weft
