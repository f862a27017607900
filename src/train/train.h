// SPDX-License-Identifier: Apache-2.0
// The loop: data in; losses, checkpoints and metrics out. One rank of it; every
// rank of the run calls train.
#pragma once

#include "data/dataset.h"
#include "train/loss_scale.h"
#include "train/rate_schedule.h"
#include "train/run_settings.h"
#include "train/trainer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct TrainOptions {
  TrainerOptions trainer;
  std::vector<std::string> data;
  DatasetOptions dataset;
  // "KEY=FIELD": which field of the data fills which batch input.
  std::vector<std::string> fields;
  bool shuffle = true;
  bool drop_last = true;

  int64_t steps = 0;
  // Of each parameter group; empty: those that the graph came with.
  std::vector<double> learning_rates;
  RateSchedule schedule;
  std::optional<LossScaleOptions> loss_scale;

  // Every so many steps, on held-out samples; 0: never.
  int64_t evaluate_every = 0;
  // At most so many batches of them.
  int64_t evaluation_batches = 16;
  // The share of samples that is held out, whether or not they are evaluated
  // on.
  double evaluation_fraction = 0;

  // Where checkpoints, metrics and the exported model go; empty: nowhere.
  std::string output;
  // Besides the last step; 0: only then.
  int64_t save_every = 0;
  // Checkpoints that stay.
  int64_t keep = 3;
  // Goes on from the last whole checkpoint in `output`.
  bool resume = false;
  // What run.json shall say of this run, besides what the loop finds out: the
  // samples, the captured step, the learning rates.
  RunValues settings;
  // What run.json says of the run that goes on; none for a new one.
  std::optional<RunRecord> before;
  // Parameters to start from: a .safetensors file, a Hugging Face folder or a
  // checkpoint.
  std::string load;

  int threads = 1;
  bool is_quiet = false;
};

struct TrainSummary {
  int64_t first_step = 0;
  // One a step that this run made.
  std::vector<double> losses;
  std::optional<double> evaluation_loss;
  // "SIGTERM" when a signal ended it before its last step.
  std::string stopped_by;
  // The last checkpoint, and the model by its own names; empty without
  // `output`.
  std::string checkpoint;
  std::string model;
};

// `graph` is the step for a batch of the usual shape; `graphs` captures others.
// Throws UserError for anything that a person can mend: data that does not fit
// the model, a plan that does not fit memory, a checkpoint of another model, a
// lost rank, a loss that is not finite, and where a run goes on, a setting that
// must not change (run_settings.h). What was saved before stays.
TrainSummary train(
    const Graph& graph,
    const GraphSource& graphs,
    const PlanSource& plans,
    const TrainOptions& options,
    World* world);

// The learning rates that the optimizer of the graph came with, one a group.
std::vector<double> learning_rates_of(const Graph& graph);

}  // namespace weft
