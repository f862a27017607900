// SPDX-License-Identifier: Apache-2.0
// A Trainer as a Python script uses it: batches and values come as whole
// tensors by name, the same on every rank. All ranks make the same calls.
#pragma once

#include "execute/communicator.h"
#include "train/loss_scale.h"
#include "train/trainer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct TrainerHandleOptions {
  TrainerOptions trainer;
  // Text; empty: what `parallel` says.
  std::string plan;
  // Where the text is from, for messages and for the files that it names.
  std::string plan_source = "plan";
  // Words as in plan/parallel.h; empty: each rank takes a part of the batch.
  std::string parallel;
  std::optional<LossScaleOptions> loss_scale;
};

class TrainerHandle {
 public:
  // Joins the ranks that the environment tells of; alone without it.
  TrainerHandle(GraphSource graphs, TrainerHandleOptions options);
  ~TrainerHandle();

  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }

  PreparedStep& prepare(const NamedTensors& batch, StepKind kind);

  // Throws UserError when the loss is not finite and that shall stop the run;
  // nothing has changed then.
  StepResult train(
      const NamedTensors& batch,
      int64_t number,
      const std::vector<double>& learning_rates);
  double evaluate(const NamedTensors& batch, int64_t number);
  // One more training step, with the learning rates of the last one.
  Timeline timed(const NamedTensors& batch, int64_t number);

  // Of the last step that was trained, by parameter: whole copies, for which
  // all ranks must call it. Throws UserError when the option keep_gradients is
  // off.
  NamedTensors gradients();

  // 1 without loss scaling.
  double loss_scale() const { return scale_ ? scale_->scale() : 1; }

  // Puts the rank's piece of `whole` into what the steps keep of that name, if
  // this rank keeps any. With `from_first`, of rank 0's `whole`, which is then
  // the only one that must be there; all ranks must call it.
  void fill(
      const std::string& name,
      const std::optional<at::Tensor>& whole,
      bool from_first);
  // What rank 0 gives; all ranks must call it.
  std::vector<std::string> names_of_first(
      const std::vector<std::string>& names);
  // whole_tensor of state_store.h.
  at::Tensor whole(const std::string& name);

  // A checkpoint FOLDER/step-N with everything that is resident, the loss scale
  // and `extra`, a JSON. Returns its path when it is on the disk; the oldest
  // beyond `keep` go, 0 keeps all.
  std::string save(
      const std::string& folder,
      int64_t step,
      const std::string& extra,
      int64_t keep);

  struct Loaded {
    // None for a file that holds parameters alone.
    std::optional<int64_t> step;
    // As given to save.
    std::string extra;
  };
  // A checkpoint, a folder of checkpoints (the last whole one counts), or
  // parameters as a .safetensors file or a Hugging Face folder. Throws
  // UserError when it is of another model.
  Loaded load(const std::string& path);

 private:
  // Of all ranks; nullptr for one rank.
  Communicator* everybody();

  std::shared_ptr<World> world_;
  std::unique_ptr<Communicator> everybody_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<LossScale> scale_;
  const PreparedStep* last_ = nullptr;
};

}  // namespace weft
