// SPDX-License-Identifier: Apache-2.0
// Memory that processes of one machine share. It has no name: nothing is left
// behind, however they end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft {

class SharedSegment {
 public:
  // Zeroed. Throws UserError when there is no memory.
  static SharedSegment create(size_t bytes);
  // That of another process of this machine, by its descriptor. Throws
  // UserError when it may not be opened.
  static SharedSegment open(int64_t pid, int fd, size_t bytes);

  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Needed only until all have opened it.
  int fd() const { return fd_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  int fd_ = -1;
};

// One process sleeps at it, others wake it. Lives in a shared segment.
class Doorbell {
 public:
  // To be read before the condition that is waited for.
  uint32_t count() const { return count_.load(); }
  void ring();
  // Returns when it rang since `count` was read, or after `timeout`, or early.
  void sleep(uint32_t count, std::chrono::milliseconds timeout);

 private:
  std::atomic<uint32_t> count_;
  std::atomic<uint32_t> is_asleep_;
};

}  // namespace weft
