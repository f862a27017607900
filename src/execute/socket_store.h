// SPDX-License-Identifier: Apache-2.0
// The keys of a StoreServer, from another process.
#pragma once

#include "execute/store_protocol.h"
#include "execute/store_socket.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// c10d's interface over one connection. A call waits for the answer as long as
// the connection holds; when it breaks, c10::DistNetworkError. Waiting for a
// key that does not come is c10::DistStoreError, after the timeout.
class SocketStore : public c10d::Store {
 public:
  // Tries until there is a store, for at most `timeout`; then
  // c10::DistNetworkError. Throws UserError when one side does not know the
  // secret of the other.
  SocketStore(
      StoreAddress address,
      std::optional<std::string> secret,
      std::chrono::milliseconds timeout);

  c10::intrusive_ptr<c10d::Store> clone() override;

  using Store::compareSet;
  using Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(
      const std::string& key,
      const std::vector<uint8_t>& expected,
      const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override;
  void append(
      const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(
      const std::vector<std::string>& keys) override;
  void multiSet(
      const std::vector<std::string>& keys,
      const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  void introduce();
  StoreMessage ask(const StoreMessage& question);
  // Asks again until it is not Absent.
  StoreMessage ask_until_here(
      const StoreMessage& question, std::chrono::milliseconds timeout);
  void send_text(std::string_view text);
  std::string receive_text(size_t bytes);

  const StoreAddress address_;
  const std::optional<std::string> secret_;
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace weft
