// SPDX-License-Identifier: Apache-2.0
// What the user tells weft train.
#pragma once

#include "cli/load_model.h"
#include "cli/lowering.h"
#include "train/train.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

struct TrainFlags {
  ModelFlags model;
  TrainOptions options;
  std::string precision = "f32";
  PlanFlags plan;
  // 0: as many as the plan is for.
  int64_t nproc = 0;
  // Who asks for that many, in messages.
  std::string asked_by;
  bool oversubscribe = false;
  bool pin = false;
  bool keep_last = false;
  bool local_batch_norm = false;
  bool in_order = false;
  std::string schedule = "constant";
  std::string bad_loss = "stop";
  std::string data_kind = "auto";
  std::string optimizer;
  std::optional<double> learning_rate;
  std::vector<std::string> optimizer_settings;
  double loss_scale = 0;
  // None: 0.05 where samples are evaluated on.
  std::optional<double> evaluation_fraction;
  // Where the process that starts the ranks has put the graphs, and the plan
  // that it has found for them.
  std::string graphs;
  std::string found_plan;
};

// All of them; `graphs` and `found_plan`, which ranks are given, are not shown.
void add_train_flags(CLI::App& command, TrainFlags& flags);

}  // namespace weft
