// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace weft {

// A store whose every call ends: c10d's TCPStore waits for ever for the answer
// of a process that is stopped. A thread of its own makes the calls. One that
// has no answer within `limit` throws c10::Error and stays under way; calls
// after it wait for it, as long as they may themselves. Those that wait for a
// key have the store's timeout on top. Time in which this process was stopped
// does not count.
class BoundedStore : public c10d::Store {
 public:
  using Open = std::function<c10::intrusive_ptr<c10d::Store>()>;

  // Told about ten times a second how long a call has had no answer.
  using Waiting = std::function<void(std::chrono::milliseconds)>;

  // Throws what `open` throws; c10::Error when it takes longer than
  // `open_limit`.
  BoundedStore(
      Open open,
      std::chrono::milliseconds open_limit,
      std::chrono::milliseconds limit,
      Waiting waiting = nullptr);
  // Leaves the thread behind when a call is still under way.
  ~BoundedStore() override;
  BoundedStore(const BoundedStore&) = delete;
  BoundedStore& operator=(const BoundedStore&) = delete;

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
  void setTimeout(const std::chrono::milliseconds& timeout) override;
  void append(
      const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(
      const std::vector<std::string>& keys) override;
  void multiSet(
      const std::vector<std::string>& keys,
      const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  struct Job;
  struct Line;

  void end();
  static void run(const std::shared_ptr<Line>& line);
  void finish(
      const std::shared_ptr<Job>& job, std::chrono::milliseconds limit) const;
  template <typename Call>
  auto ask(std::chrono::milliseconds limit, Call call) const;

  const std::chrono::milliseconds limit_;
  const Waiting waiting_;
  const std::shared_ptr<Line> line_;
  std::thread thread_;
};

}  // namespace weft
