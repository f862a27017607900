// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/box.h"
#include "graph/tensor_type.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace weft {

// A TensorPiece with bytes of its own: training may go on and change the
// tensor.
struct OwnedPiece {
  std::string name;
  TensorType whole;
  Box box;
  std::vector<std::byte> bytes;
};

// Writes shards in a thread, one save at a time. Used from one thread.
class AsyncSaver {
 public:
  // Waits for the write under way, if any; its error is lost.
  ~AsyncSaver();
  AsyncSaver() = default;
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  // Waits for an earlier save, and throws its error in place of starting. Then
  // runs write_shard in a thread and, in the same thread, `after` with this
  // rank's part of the index: the place to gather the parts and publish.
  void start(
      std::string folder,
      int64_t step,
      int64_t rank,
      std::vector<OwnedPiece> pieces,
      std::function<void(std::string part)> after);

  // A save was started and has not ended.
  bool busy() const { return running_; }

  // Waits for the save, if any. Throws its error, as UserError, once.
  void wait();

 private:
  std::thread thread_;
  std::atomic<bool> running_ = false;
  std::exception_ptr error_;
};

}  // namespace weft
