// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/async_saver.h"
#include "train/trainer.h"

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

// Checkpoints of a run, written while it goes on. All ranks make the same calls
// at the same steps.
class Saving {
 public:
  Saving(Trainer& trainer, std::string folder, int64_t keep);

  // Copies the state and begins to write it; waits for an earlier save first.
  // `state` is the JSON that comes back with the checkpoint, together with what
  // export_model.h needs.
  void begin(int64_t step, const std::string& state);

  bool is_under_way() const { return writing_; }

  // A save is under way, and this rank has written its part or failed.
  bool is_written() const { return writing_ && !saver_.busy(); }

  // To be called by all ranks, when all have written: publishes. Waits for
  // those that have not. Gives the path on every rank, and a message for people
  // in place of it when any rank failed; nothing when no save is under way.
  struct Result {
    std::string path;
    std::string error;
  };
  std::optional<Result> finish();

 private:
  Trainer& trainer_;
  const std::string folder_;
  const int64_t keep_;
  AsyncSaver saver_;
  bool writing_ = false;
  int64_t step_ = 0;
  std::string state_;
  std::string part_;
};

}  // namespace weft
