// SPDX-License-Identifier: Apache-2.0
// Steps of training on one rank: graphs in, numbers out. A batch of a new shape
// is captured and lowered once and kept; all programs share parameters, buffers
// and states.
#pragma once

#include "execute/arena.h"
#include "execute/communicator.h"
#include "execute/executor.h"
#include "execute/flight_record.h"
#include "execute/tensor_piece.h"
#include "graph/graph.h"
#include "lower/lower.h"
#include "plan/plan.h"
#include "program/holding.h"
#include "program/program.h"
#include "train/batch_limits.h"
#include "train/row_transfer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// One tensor of a whole batch.
struct BatchType {
  std::string key;
  TensorType type;

  bool operator==(const BatchType&) const = default;
};
using BatchTypes = std::vector<BatchType>;
// "0=i64[8, 256], 1=i64[8, 256]"
std::string print(const BatchTypes& types);
// Of the graph's step.
BatchTypes batch_types(const Graph& graph);
// Which of them an input of the batch is.
size_t position_in(const BatchTypes& types, const Input& input);

enum class StepKind : uint8_t { Train, Evaluate };

// The graph of a step for a batch of these types; of an evaluation, the model
// in evaluation mode, and forward only.
using GraphSource = std::function<Graph(const BatchTypes&, StepKind)>;
// The plan for a graph.
using PlanSource = std::function<Plan(const Graph&)>;

// What to do when the loss is not a finite number.
enum class BadLoss : uint8_t { Stop, Skip, GoOn };
// "stop", "skip" or "go-on". Throws UserError for another word.
BadLoss parse_bad_loss(const std::string& word);

struct TrainerOptions {
  int64_t rank = 0;
  int64_t ranks = 1;
  uint64_t seed = 0;
  // Of the rank; 0: no limit.
  int64_t budget_bytes = 0;
  // Gradients are scaled down to this global norm; 0: they are not.
  double clip_norm = 0;
  // Backward starts from a scale that is an input of the step.
  bool scale_loss = false;
  BadLoss bad_loss = BadLoss::Stop;
  // Batches whose gradients are averaged into one step.
  int64_t accumulate = 1;
  // Gradients can be read after a step.
  bool keep_gradients = false;
  LowerOptions lowering = {};
  // Where every instruction is marked; may be nullptr, and must outlive it.
  FlightRecord* flight = nullptr;
};

// The step as a trainer with these options runs it, for who looks for a plan
// of it. With accumulation it is one step still, whose gradients stay.
Graph planned_step(Graph graph, const TrainerOptions& options);

struct StepResult {
  double loss = 0;
  // Of all gradients, before clipping; none without clipping.
  std::optional<double> gradient_norm;
  // Parameters stayed as they were: the loss or a gradient was not finite.
  bool is_skipped = false;
  // False while gradients are only added up.
  bool is_update = true;
};

// A step for batches of one shape, ready to run.
struct PreparedStep {
  Graph graph;
  Program program;
  std::unique_ptr<Executor> executor;
  // Verified where several ranks run it.
  std::vector<BatchLimit> limits;
  // By where the parts of a local batch begin (batch_rows.h).
  std::map<std::vector<int64_t>, std::vector<RowTransfer>> row_transfers;
  // By which ranks see that they run the same step; 0: not known yet.
  uint64_t graph_hash = 0;
};

class Trainer {
 public:
  // `world` must outlive it; one rank needs none.
  Trainer(
      GraphSource graphs,
      PlanSource plans,
      TrainerOptions options,
      World* world);
  ~Trainer();

  // The first time for these types, captures, lowers and binds. Throws
  // UserError when that cannot be done or does not fit.
  PreparedStep& prepare(const BatchTypes& types, StepKind kind);
  // All steps for these types, which differ in the path that the model took by
  // values that it read; the one that ran last is the first.
  std::vector<std::shared_ptr<PreparedStep>>& branches(
      const BatchTypes& types, StepKind kind);
  // Captures another one, which becomes the first.
  PreparedStep& add_branch(const BatchTypes& types, StepKind kind);

  // Steps are prepared and found for this state of the script from now on: for
  // the same types, they may be others. Graphs that are equal are lowered once.
  void select(std::string state) { state_ = std::move(state); }
  // Drops the steps of a state.
  void forget(const std::string& state);

  // Fills the batch inputs of `step` with this rank's part of whole tensors,
  // which are in the order of batch_types(step.graph).
  void set_batch(
      PreparedStep& step, const std::vector<at::Tensor>& whole) const;

  // Runs on what its batch inputs hold. `learning_rates` one a parameter group;
  // `loss_scale` counts where the option asks for it. With accumulation, only
  // every so many calls update.
  StepResult train(
      PreparedStep& step,
      int64_t number,
      const std::vector<double>& learning_rates,
      double loss_scale = 1);
  double evaluate(PreparedStep& step, int64_t number);

  // A parameter, buffer or state of the model, wherever it is kept.
  struct Kept {
    Input input;
    Holding holding;
  };
  // The same list on every rank.
  const std::vector<Kept>& kept() const { return kept_; }
  // By its name, as find_resident.
  const Kept* find_kept(const std::string& name) const;

  // What of that a prepared step has on this rank.
  struct Resident {
    Input input;
    // Of this rank's piece, and how it lies on the mesh.
    TensorType type;
    Layout layout;
    at::Tensor tensor;
  };
  const std::vector<Resident>& residents() const { return residents_; }
  // "parameter/head.weight": nullptr when there is none.
  const Resident* find_resident(const std::string& name) const;

  // This rank's.
  const Team& team() const { return team_; }
  const TrainerOptions& options() const { return options_; }
  World* world() const { return world_; }
  // What the last step that was run used (Executor::used_bytes).
  int64_t used_bytes() const;
  std::string doing() const;

 private:
  std::shared_ptr<PreparedStep> make_step(
      const BatchTypes& types, StepKind kind);
  void bind(PreparedStep& step, const Plan& plan);
  void note_kept(const Program& program);
  void note_residents(const PreparedStep& step);
  void accumulate(PreparedStep& step, Plan& plan);
  void read_result(const PreparedStep& step, StepResult& result) const;
  void forget_gradients() const;

  const GraphSource graphs_;
  const PlanSource plans_;
  const TrainerOptions options_;
  World* const world_;
  Arena arena_;
  Team team_;
  // What `select` was given.
  std::string state_;
  // By state, then by types.
  std::map<
      std::string,
      std::map<
          std::pair<StepKind, std::string>,
          std::vector<std::shared_ptr<PreparedStep>>>>
      steps_;
  // By kind and graph.
  std::map<std::string, std::weak_ptr<PreparedStep>> by_graph_;
  // With accumulation: the step that applies what was summed up.
  std::unique_ptr<PreparedStep> update_;
  Plan update_plan_;
  // As it was made.
  Graph update_graph_;
  int64_t accumulated_ = 0;
  bool has_bad_loss_ = false;
  std::vector<Kept> kept_;
  std::vector<Resident> residents_;
  // Where stages begin: a parameter stays where it is.
  std::vector<StageStart> stages_;
  std::atomic<const Executor*> running_ = nullptr;
};

}  // namespace weft
