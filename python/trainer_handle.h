// SPDX-License-Identifier: Apache-2.0
// A Trainer as a Python script uses it: batches and values come as whole
// tensors by name, the same on every rank. All ranks make the same calls.
#pragma once

#include "execute/communicator.h"
#include "train/batch_agreement.h"
#include "train/loss_scale.h"
#include "train/run_settings.h"
#include "train/skipped_steps.h"
#include "train/trainer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

struct TrainerHandleOptions {
  TrainerOptions trainer;
  // Text; empty: what `parallel` says.
  std::string plan;
  // Where the text is from, for messages and for the files that it names.
  std::string plan_source = "plan";
  // Words as in plan/parallel.h; empty: each rank takes a part of the batch.
  std::string parallel;
  std::optional<LossScaleOptions> loss_scale;
  BatchOptions batch;
  // As the steps were captured; kept with checkpoints.
  std::string precision = "f32";
};

class TrainerHandle {
 public:
  // Joins the ranks that the environment tells of; alone without it.
  TrainerHandle(GraphSource graphs, TrainerHandleOptions options);
  ~TrainerHandle();

  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }

  // On several ranks, all tell each other what their batches are before
  // anything is done with them (batch_agreement.h); of an example, the types
  // alone. Gives the types of the whole batch. What is called next is about
  // this batch.
  const BatchTypes& agree(
      const NamedTensors& batch, StepKind kind, bool is_example);
  // Which part of a local batch each rank takes. To be called first.
  void find_parts(const NamedTensors& example);

  PreparedStep& prepare(const NamedTensors& batch, StepKind kind);

  // How many different batches the ranks give to a step, and which of them this
  // rank does: the parts of a local batch, or one.
  int64_t data_ranks() const { return agreement_ ? agreement_->parts() : 1; }
  int64_t data_rank() const { return agreement_ ? agreement_->part() : 0; }
  // The batch of the step that is being prepared, whole on every rank, of which
  // some may have given a part; all ranks must call it.
  NamedTensors whole_batch();

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
    // What is different from the trainer that saved it, and why that may be.
    std::vector<std::string> notes;
  };
  // A checkpoint, a folder of checkpoints (the last whole one counts), or
  // parameters as a .safetensors file or a Hugging Face folder. Throws
  // UserError when it is of another model or precision, and when there are
  // checkpoints and none is whole.
  Loaded load(const std::string& path);

 private:
  // Of all ranks; nullptr for one rank.
  Communicator* everybody();
  // Calls `run` for the step of such batches, filled with this one.
  void run_on(
      const NamedTensors& batch,
      StepKind kind,
      const std::function<void(PreparedStep&)>& run);
  // All ranks are about to run the step with this hash, or to capture one: 0.
  void meet(uint64_t step);
  Graph graph_for(const BatchTypes& types, StepKind kind);

  RunValues settings() const;

  std::string precision_;
  std::shared_ptr<World> world_;
  std::unique_ptr<Communicator> everybody_;
  // None for one rank.
  std::unique_ptr<BatchAgreement> agreement_;
  GraphSource graphs_;
  PlanSource plans_;
  AgreedBatch agreed_;
  // What is being captured.
  BatchTypes types_;
  // Outlives the trainer that marks in it; mostly nullptr.
  std::unique_ptr<FlightRecord> flight_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<LossScale> scale_;
  SkippedSteps skipped_;
  const PreparedStep* last_ = nullptr;
};

}  // namespace weft
