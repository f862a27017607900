// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include "aten/outside_of_modes.h"
#include "base/error.h"
#include "checkpoint/checkpoint_index.h"
#include "execute/observed_memory.h"
#include "execute/optimizer_settings.h"
#include "lower/stages.h"
#include "plan/forward_plan.h"
#include "plan/plan_place.h"
#include "plan/rank_names.h"
#include "program/live_bytes.h"
#include "rewrite/training.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace weft {
namespace {

// The output of that kind and key, as a number.
std::optional<double> number(
    const PreparedStep& step, OutputKind kind, std::string_view key) {
  const std::vector<Output>& outputs = step.executor->block().function.outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].kind == kind && outputs[i].key == key) {
      return step.executor->outputs()[i].item<double>();
    }
  }
  return std::nullopt;
}

void set_scalar(
    const PreparedStep& step, const std::string& key, double value) {
  const std::vector<Input>& inputs = step.executor->block().function.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind == InputKind::Scalar && inputs[i].keys.front() == key) {
      step.executor->inputs()[i].fill_(value);
    }
  }
}

bool is_kept(const Input& input) {
  return input.kind == InputKind::Parameter ||
         input.kind == InputKind::Buffer || input.kind == InputKind::State;
}

// Whether the two update the same parameters in the same way.
bool is_same_update(const Graph& one, const Graph& other) {
  const auto lines = [](const Function& step) {
    std::vector<std::string> out;
    for (const Output& output : step.outputs) {
      out.push_back(cat(name(output.kind), " ", output.key));
    }
    for (const Node& node : step.nodes) {
      Node call;
      call.op = node.op;
      call.options = node.options;
      out.push_back(print(step, call));
    }
    return out;
  };
  return lines(step_of(one)) == lines(step_of(other));
}

// Short, and another for another text.
std::string digest(const std::string& text) {
  return cat(
      text.size(),
      ".",
      checksum_of(std::as_bytes(std::span(text.data(), text.size()))));
}

// Where the plan has every parameter of a pipeline.
std::vector<StageKeep> stage_keeps(const Graph& graph, const Plan& plan) {
  std::vector<StageKeep> keeps;
  if (plan.stages.empty()) {
    return keeps;
  }
  const Function& step = step_of(graph);
  const StageMap stages = stages_of(step, plan);
  for (const Input& input : step.inputs) {
    const int64_t stage = stages.inputs[index(input.value)];
    if (input.kind == InputKind::Parameter && stage != kNoStage) {
      keeps.push_back({stage, step[input.value].name});
    }
  }
  return keeps;
}

void rewrite(Graph& graph, const TrainerOptions& options) {
  if (options.scale_loss) {
    scale_loss(graph);
  }
  if (options.clip_norm > 0) {
    clip_gradients(graph, options.clip_norm);
  }
  // With accumulation, the loop leaves the update out (train).
  if (options.bad_loss != BadLoss::GoOn && options.accumulate == 1) {
    skip_bad_loss(graph);
  }
}

}  // namespace

Graph planned_step(Graph graph, const TrainerOptions& options) {
  rewrite(graph, options);
  if (options.accumulate == 1 && !options.keep_gradients) {
    drop_gradient_outputs(graph);
  }
  return graph;
}

std::string print(const BatchTypes& types) {
  std::vector<std::string> words;
  for (const BatchType& each : types) {
    words.push_back(cat(each.key, "=", print(each.type)));
  }
  return join(words, ", ");
}

BadLoss parse_bad_loss(const std::string& word) {
  for (const auto& [name, value] :
       {std::pair{"stop", BadLoss::Stop},
        std::pair{"skip", BadLoss::Skip},
        std::pair{"go-on", BadLoss::GoOn}}) {
    if (word == name) {
      return value;
    }
  }
  throw UserError(cat("bad_loss is stop, skip or go-on, not ", quote(word)));
}

BatchTypes batch_types(const Graph& graph) {
  BatchTypes types;
  const Function& step = step_of(graph);
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Batch) {
      types.push_back({input.keys.front(), step[input.value].type});
    }
  }
  return types;
}

size_t position_in(const BatchTypes& types, const Input& input) {
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const BatchType& type) {
        return type.key == input.keys.front();
      });
  WEFT_CHECK(found != types.end(), "no ", input.keys.front(), " in the batch");
  return static_cast<size_t>(found - types.begin());
}

Trainer::Trainer(
    GraphSource graphs, PlanSource plans, TrainerOptions options, World* world)
    : graphs_(std::move(graphs)),
      plans_(std::move(plans)),
      options_(std::move(options)),
      world_(world),
      arena_(options_.budget_bytes) {
  observe_kernels();
}

Trainer::~Trainer() = default;

// The plan is for the whole step; sums of gradients lie as it says of states.
void Trainer::accumulate(PreparedStep& step, Plan& plan) {
  const Graph whole = std::move(step.graph);
  AccumulationGraphs parts = accumulate_gradients(whole, options_.accumulate);
  step.graph = std::move(parts.accumulate);
  if (!update_) {
    update_ = std::make_unique<PreparedStep>();
    update_->graph = std::move(parts.update);
    update_graph_ = update_->graph;
    // It has no forward that could be cut: each stage updates what it keeps.
    Plan stays = plan;
    const std::vector<StageKeep> keeps = stage_keeps(whole, plan);
    stays.keeps.insert(stays.keeps.end(), keeps.begin(), keeps.end());
    update_plan_ = plan_for_part(std::move(stays), whole, update_->graph);
  } else {
    WEFT_CHECK_USER(
        is_same_update(parts.update, update_graph_),
        "this step trains other parameters than the first one, or with other "
        "options, and the gradients of accumulate=",
        options_.accumulate,
        " batches are applied in one way: leave accumulate at 1, or call "
        "parallelize again");
  }
  plan = plan_for_part(std::move(plan), whole, step.graph);
}

PreparedStep& Trainer::prepare(const BatchTypes& types, StepKind kind) {
  std::vector<std::shared_ptr<PreparedStep>>& known = branches(types, kind);
  return known.empty() ? add_branch(types, kind) : *known.front();
}

std::vector<std::shared_ptr<PreparedStep>>& Trainer::branches(
    const BatchTypes& types, StepKind kind) {
  return steps_[state_][{kind, print(types)}];
}

PreparedStep& Trainer::add_branch(const BatchTypes& types, StepKind kind) {
  std::shared_ptr<PreparedStep> made = make_step(types, kind);
  std::vector<std::shared_ptr<PreparedStep>>& known = branches(types, kind);
  known.insert(known.begin(), std::move(made));
  return *known.front();
}

void Trainer::forget(const std::string& state) {
  const auto found = steps_.find(state);
  if (found == steps_.end()) {
    return;
  }
  for (const auto& [key, steps] : found->second) {
    for (const std::shared_ptr<PreparedStep>& step : steps) {
      if (step->executor.get() == running_) {
        running_ = nullptr;
      }
    }
  }
  steps_.erase(found);
}

std::shared_ptr<PreparedStep> Trainer::make_step(
    const BatchTypes& types, StepKind kind) {
  auto made = std::make_shared<PreparedStep>();
  made->graph = graphs_(types, kind);
  std::weak_ptr<PreparedStep>& known = by_graph_[cat(
      kind == StepKind::Train ? "train " : "evaluate ",
      digest(print(made->graph)))];
  if (std::shared_ptr<PreparedStep> equal = known.lock()) {
    return equal;
  }
  if (kind == StepKind::Train) {
    rewrite(made->graph, options_);
  }
  Plan plan = plans_(made->graph);
  if (plan.stages.size() == stages_.size()) {
    plan.stages = stages_;
  } else {
    stages_ = plan.stages;
  }
  if (kind == StepKind::Train && options_.accumulate > 1) {
    accumulate(*made, plan);
  }
  if (kind == StepKind::Train && !options_.keep_gradients) {
    drop_gradient_outputs(made->graph);
  }
  if (options_.ranks > 1) {
    made->limits = batch_limits(made->graph);
  }
  bind(*made, plan);
  if (update_ && !update_->executor) {
    bind(*update_, update_plan_);
  }
  known = made;
  return made;
}

void Trainer::bind(PreparedStep& step, const Plan& plan) {
  const OutsideOfModes outside;
  step.program = lower(step.graph, plan, options_.lowering);
  team_ = team_of(step.program, options_.rank);
  if (world_ != nullptr) {
    world_->name_ranks(rank_names(plan));
  }
  if (options_.budget_bytes > 0) {
    verify_memory(step.program, place(plan), options_.budget_bytes);
  }
  step.executor = std::make_unique<Executor>(
      step.program, options_.rank, world_, arena_, options_.seed);
  if (options_.flight != nullptr) {
    step.executor->mark_in(*options_.flight);
    options_.flight->plan_memory(
        arena_.resident_bytes() + arena_.step_bytes(), options_.budget_bytes);
  }
  note_kept(step.program);
  note_residents(step);
}

void Trainer::note_kept(const Program& program) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < kept_.size(); ++i) {
    known.emplace(resident_name(kept_[i].input), i);
  }
  const size_t before = kept_.size();
  for (const Block& block : program.blocks) {
    for (const Input& input : block.function.inputs) {
      if (!is_kept(input)) {
        continue;
      }
      const auto [found, is_new] =
          known.try_emplace(resident_name(input), kept_.size());
      if (is_new) {
        kept_.push_back({input, holding_of(program, block, input.value)});
      }
      if (found->second >= before) {
        add_ranks(kept_[found->second].holding, program, block, input.value);
      }
    }
  }
}

void Trainer::note_residents(const PreparedStep& step) {
  const Block& block = step.executor->block();
  std::vector<double> initial(block.function.values.size(), 0);
  for (const Node& node : block.function.nodes) {
    if (has_optimizer_kernel(node)) {
      // The parameter, its gradient, then the states.
      const std::vector<ValueId> read = operands(node);
      for (size_t i = 2; i < node.results.size() + 1; ++i) {
        initial[index(read[i])] = initial_state(node, i - 2);
      }
    }
  }
  for (size_t i = 0; i < block.function.inputs.size(); ++i) {
    const Input& input = block.function.inputs[i];
    if (is_kept(input) && find_resident(resident_name(input)) == nullptr) {
      if (initial[index(input.value)] != 0) {
        step.executor->inputs()[i].fill_(initial[index(input.value)]);
      }
      residents_.push_back(
          {input,
           block.function[input.value].type,
           block.layouts[index(input.value)],
           step.executor->inputs()[i]});
    }
  }
}

const Trainer::Resident* Trainer::find_resident(const std::string& name) const {
  const auto found = std::find_if(
      residents_.begin(), residents_.end(), [&](const Resident& each) {
        return resident_name(each.input) == name;
      });
  return found == residents_.end() ? nullptr : &*found;
}

const Trainer::Kept* Trainer::find_kept(const std::string& name) const {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) {
        return resident_name(each.input) == name;
      });
  return found == kept_.end() ? nullptr : &*found;
}

void Trainer::set_batch(
    PreparedStep& step, const std::vector<at::Tensor>& whole) const {
  const Block& block = step.executor->block();
  const BatchTypes types = batch_types(step.graph);
  WEFT_CHECK(
      types.size() == whole.size(),
      whole.size(),
      " tensors for a batch of ",
      types.size());
  for (const BatchLimit& limit : step.limits) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i].key == limit.key) {
        verify(limit, whole[i]);
      }
    }
  }
  for (size_t i = 0; i < block.function.inputs.size(); ++i) {
    const Input& input = block.function.inputs[i];
    if (input.kind == InputKind::Batch) {
      step.executor->inputs()[i].copy_(piece_of_tensor(
          whole[position_in(types, input)],
          block.layouts[index(input.value)],
          team_,
          options_.rank));
    }
  }
}

StepResult Trainer::train(
    PreparedStep& step,
    int64_t number,
    const std::vector<double>& learning_rates,
    double loss_scale) {
  for (size_t group = 0; group < learning_rates.size(); ++group) {
    set_scalar(step, cat("lr.", group), learning_rates[group]);
  }
  set_scalar(step, "loss_scale", loss_scale);
  running_ = step.executor.get();
  step.executor->run(number);
  StepResult result;
  result.loss = weft::number(step, OutputKind::Loss, "").value_or(0);
  if (!update_) {
    read_result(step, result);
    return result;
  }
  // The loss is read before the update reuses its memory.
  result.is_update = ++accumulated_ == options_.accumulate;
  has_bad_loss_ = has_bad_loss_ || !std::isfinite(result.loss);
  if (result.is_update) {
    accumulated_ = 0;
    if (std::exchange(has_bad_loss_, false) &&
        options_.bad_loss != BadLoss::GoOn) {
      forget_gradients();
      result.is_skipped = true;
      return result;
    }
    for (size_t group = 0; group < learning_rates.size(); ++group) {
      set_scalar(*update_, cat("lr.", group), learning_rates[group]);
    }
    set_scalar(*update_, "loss_scale", loss_scale);
    running_ = update_->executor.get();
    update_->executor->run(number);
    read_result(*update_, result);
  }
  return result;
}

void Trainer::forget_gradients() const {
  for (const Resident& each : residents_) {
    if (each.input.kind == InputKind::State &&
        each.input.keys.front().ends_with(".gradient")) {
      each.tensor.zero_();
    }
  }
}

void Trainer::read_result(const PreparedStep& step, StepResult& result) const {
  result.gradient_norm = weft::number(step, OutputKind::Extra, "gradient_norm");
  result.is_skipped =
      weft::number(step, OutputKind::Extra, "found_inf").value_or(0) != 0 ||
      (options_.bad_loss != BadLoss::GoOn && !std::isfinite(result.loss));
}

double Trainer::evaluate(PreparedStep& step, int64_t number) {
  running_ = step.executor.get();
  step.executor->run(number);
  return weft::number(step, OutputKind::Loss, "").value_or(0);
}

int64_t Trainer::used_bytes() const {
  const Executor* running = running_;
  return running == nullptr ? 0 : running->used_bytes();
}

std::string Trainer::doing() const {
  const Executor* running = running_;
  return running == nullptr ? "preparing its step" : running->doing();
}

}  // namespace weft
