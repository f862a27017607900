// SPDX-License-Identifier: Apache-2.0
#include "train/train.h"

#include "base/error.h"
#include "base/json.h"
#include "base/terminal.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "data/data_identity.h"
#include "ops/op_def.h"
#include "train/begin_run.h"
#include "train/export_model.h"
#include "train/feed.h"
#include "train/machine_rate.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/saving.h"
#include "train/skipped_steps.h"
#include "train/state_store.h"
#include "train/stop_signals.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// What ranks agree upon after every step: counts of them.
constexpr int64_t kAgreed = 4;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t step_flops(const Graph& graph) {
  const Function& step = step_of(graph);
  int64_t flops = 0;
  for (const Node& node : step.nodes) {
    flops += node.phase == Phase::Optimizer ? 0 : flops_of(step, node);
  }
  return flops;
}

// Whether the state of a checkpoint tells where its run was.
bool has_position(const nlohmann::json& state, bool is_scaled) {
  const auto is_number = [&](const char* key) {
    return state.contains(key) && state.at(key).is_number_integer();
  };
  return is_number("step") && is_number("position") && is_number("seed") &&
         (!is_scaled ||
          (state.contains("loss_scale") && state.at("loss_scale").is_string()));
}

// What a checkpoint keeps besides tensors.
struct LoopState {
  int64_t step = 0;
  int64_t position = 0;
};

class Loop {
 public:
  Loop(
      const Graph& graph,
      const GraphSource& graphs,
      const PlanSource& plans,
      const TrainOptions& options,
      World* world)
      : graph_(graph),
        options_(options),
        world_(world),
        feed_(graph, options),
        trainer_(graphs, plans, options.trainer, world),
        rates_(
            options.learning_rates.empty() ? learning_rates_of(graph)
                                           : options.learning_rates),
        progress_(std::cerr, terminal_of(2), options.is_quiet || !is_first()) {
    if (options.loss_scale) {
      scale_.emplace(*options.loss_scale);
    }
    if (world != nullptr) {
      world->watch([this] { return trainer_.doing(); });
      std::vector<int64_t> all(static_cast<size_t>(options.trainer.ranks));
      std::iota(all.begin(), all.end(), 0);
      everybody_ = world->group(all);
      agreed_ = at::zeros({kAgreed}, at::TensorOptions().dtype(at::kLong));
    }
    if (!options.output.empty()) {
      // Before any work is done that could not be kept.
      make_run_folder(options.output, options.data);
      saving_.emplace(trainer_, options.output, options.keep);
    }
  }

  ~Loop() {
    if (world_ != nullptr) {
      world_->watch({});
    }
  }

  TrainSummary run() {
    say_notes();
    mark(FlightPhase::Preparing);
    trainer_.prepare(feed_.types(feed_.batch_size()), StepKind::Train);
    mark(FlightPhase::Loading);
    start();
    summary_.first_step = state_.step;
    open_metrics();
    while (state_.step < options_.steps && summary_.stopped_by.empty()) {
      one_step();
    }
    end();
    mark(FlightPhase::Leaving);
    return std::move(summary_);
  }

 private:
  void mark(FlightPhase phase) {
    if (options_.trainer.flight != nullptr) {
      options_.trainer.flight->mark(phase, state_.step);
    }
  }

  bool is_first() const { return options_.trainer.rank == 0; }

  // What any rank found about the data, once: who comes first finds a damaged
  // cache, and the others the one that it has made.
  void say_notes() {
    const nlohmann::json mine = feed_.dataset().notes();
    std::vector<std::string> all = {mine.dump()};
    if (world_ != nullptr) {
      all = world_->gather(all.front());
    }
    std::set<std::string> said;
    for (const std::string& notes : all) {
      for (const std::string note : parse_json<nlohmann::json>(notes)) {
        if (said.insert(note).second) {
          say(note);
        }
      }
    }
  }

  // To people, once for all ranks.
  void say(const std::string& message) {
    if (is_first()) {
      progress_.say(message);
    }
  }

  // Parameters and position: from a checkpoint, a file, or new.
  void start() {
    WEFT_CHECK_USER(
        !options_.resume || saving_,
        "--resume needs the --output to go on with");
    if (saving_) {
      const RunStart start = find_start(options_.output, options_.resume);
      for (const std::string& note : start.notes) {
        say(note);
      }
      const RunRecord record = compare_settings(start.checkpoint);
      if (start.checkpoint) {
        resume(*start.checkpoint);
      }
      // Nothing of a run that is refused is kept.
      if (is_first()) {
        write_run_record(options_.output, record);
      }
      if (start.checkpoint) {
        return;
      }
    } else {
      say("nothing of this run is kept: without --output there are no "
          "checkpoints, no metrics, and no model at the end");
    }
    if (options_.load.empty()) {
      initialise_parameters(trainer_, graph_);
    } else {
      // Buffers that are not in the file follow from the model.
      const std::unique_ptr<TensorSource> source = open_tensors(options_.load);
      if (find_function(graph_, "init") != nullptr) {
        initialise_parameters(trainer_, graph_, source.get());
      }
      load_parameters(trainer_, *source);
    }
  }

  // Compares the settings with those of the run so far; gives what run.json
  // shall say.
  RunRecord compare_settings(const std::optional<std::string>& checkpoint) {
    const nlohmann::json rates = rates_;
    const RunValues found = {
        {"samples", nlohmann::json(identity(feed_.dataset())).dump()},
        {"step", nlohmann::json(step_identity(graph_)).dump()},
        {"learning-rates", rates.dump()}};
    const RunBeginning beginning = begin_run(options_, found, checkpoint);
    for (const std::string& note : beginning.notes) {
      say(note);
    }
    return beginning.record;
  }

  void resume(const std::string& path) {
    Checkpoint checkpoint(path);
    checkpoint.expect_fingerprint(fingerprint(trainer_));
    load_state(trainer_, checkpoint);
    const auto state = parse_json<nlohmann::json>(checkpoint.state());
    WEFT_CHECK_USER(
        has_position(state, scale_.has_value()),
        path,
        " says nothing of data, seed",
        scale_ ? " or loss scale" : "",
        ": it is not of a run like this one. Start from its parameters with "
        "--load, into another --output");
    state_.step = whole_number(state.at("step"));
    state_.position = whole_number(state.at("position"));
    WEFT_CHECK_USER(
        state.at("seed").get<uint64_t>() == options_.trainer.seed,
        path,
        " was made with the seed ",
        state.at("seed").get<uint64_t>(),
        ", which decides the order of data; give --seed ",
        state.at("seed").get<uint64_t>());
    if (scale_) {
      scale_->restore(state.at("loss_scale").get<std::string>(), path);
    }
    summary_.checkpoint = path;
    say(cat("going on from ", path, ", after step ", state_.step));
  }

  std::string state_text() const {
    nlohmann::json state = {
        {"step", state_.step},
        {"position", state_.position},
        {"seed", options_.trainer.seed},
        {"settings", nlohmann::json::object()},
        {"schedule", print(options_.schedule)},
        {"batch_size", feed_.batch_size()}};
    for (const auto& [name, value] : options_.settings) {
      state["settings"][name] = parse_json<nlohmann::json>(value);
    }
    if (scale_) {
      state["loss_scale"] = scale_->print_state();
    }
    return state.dump();
  }

  void open_metrics() {
    if (!is_first() || options_.output.empty()) {
      return;
    }
    const std::optional<int64_t> after =
        state_.step > 0 ? std::optional(state_.step) : std::nullopt;
    lines_.emplace(cat(options_.output, "/metrics.jsonl"), after);
    events_.emplace(cat(options_.output, "/tensorboard"), after);
  }

  void one_step() {
    const Clock::time_point begin = Clock::now();
    const LoopState before = state_;
    std::vector<double> rates = rates_;
    for (double& rate : rates) {
      rate *= factor(options_.schedule, state_.step);
    }
    StepResult result;
    double loss = 0;
    int64_t samples = 0;
    const double scale = scale_ ? scale_->scale() : 1;
    for (int64_t i = 0; i < options_.trainer.accumulate; ++i) {
      mark(FlightPhase::Feeding);
      const Batch batch =
          feed_.training().batch(state_.position, feed_.batch_size());
      PreparedStep& step = trainer_.prepare(
          feed_.types(static_cast<int64_t>(batch.samples.size())),
          StepKind::Train);
      feed_.fill(trainer_, step, batch);
      // Every batch has random numbers of its own.
      result = trainer_.train(
          step, state_.step * options_.trainer.accumulate + i, rates, scale);
      loss += result.loss / static_cast<double>(options_.trainer.accumulate);
      samples += static_cast<int64_t>(batch.samples.size());
      state_.position = batch.next_position;
    }
    state_.step += 1;
    if (scale_) {
      scale_->update(!result.is_skipped);
    }
    summary_.losses.push_back(loss);
    check_loss(loss, before);
    const double step_seconds = seconds_since(begin);
    report(loss, rates, result, samples, step_seconds);
    if (options_.evaluate_every > 0 &&
        state_.step % options_.evaluate_every == 0) {
      evaluate();
    }
    check_skipped(result.is_skipped);
    agree();
    if (saving_ && options_.save_every > 0 && summary_.stopped_by.empty() &&
        state_.step % options_.save_every == 0 &&
        state_.step < options_.steps) {
      publish();
      save();
    }
  }

  void save() {
    mark(FlightPhase::Saving);
    saving_->begin(state_.step, state_text());
  }

  void check_loss(double loss, const LoopState& before) {
    if (std::isfinite(loss)) {
      return;
    }
    const std::string what =
        cat("the loss of step ",
            state_.step,
            std::isnan(loss) ? " is not a number" : " is infinite");
    switch (options_.trainer.bad_loss) {
      case BadLoss::GoOn:
        say(cat(what, "; going on"));
        return;
      case BadLoss::Skip:
        say(cat(what, "; the step is left out"));
        return;
      case BadLoss::Stop:
        break;
    }
    // The step changed no parameter, so what is saved is from before it.
    state_ = before;
    throw UserError(
        cat(what,
            save_now(". Parameters from before it are in "),
            "; try a smaller learning rate, --clip-norm, or --bad-loss skip"));
  }

  // The last state, for a message: `words` and where it is.
  std::string save_now(const std::string& words) {
    if (!saving_) {
      return "";
    }
    publish();
    save();
    publish();
    return cat(words, summary_.checkpoint);
  }

  void check_skipped(bool is_skipped) {
    if (skipped_.note(is_skipped)) {
      throw UserError(
          cat("the last ",
              kMostSkippedSteps,
              " steps were left out, since their loss or gradients were not "
              "finite: no batch will help these parameters",
              save_now(". They are in "),
              "; go on from an earlier checkpoint with a smaller learning "
              "rate or --clip-norm"));
    }
  }

  // All ranks stop, and publish, at the same step, and say the same of it: a
  // signal may reach one of them after the others have stopped.
  void agree() {
    mark(FlightPhase::Agreeing);
    const std::optional<std::string> caught = signals_.caught();
    std::array<int64_t, kAgreed> counts = {
        caught == "SIGTERM" ? 1 : 0,
        caught == "SIGINT" ? 1 : 0,
        saving_ && saving_->is_written() ? 1 : 0,
        1};
    if (everybody_) {
      int64_t* shared = agreed_.mutable_data_ptr<int64_t>();
      std::copy(counts.begin(), counts.end(), shared);
      everybody_->all_reduce(agreed_)->wait();
      std::copy_n(shared, kAgreed, counts.begin());
    }
    const auto [terminated, interrupted, written, ranks] = counts;
    if (written == ranks) {
      publish();
    }
    if (terminated + interrupted > 0) {
      summary_.stopped_by = terminated > 0 ? "SIGTERM" : "SIGINT";
    }
  }

  void publish() {
    if (!saving_->is_under_way()) {
      return;
    }
    mark(FlightPhase::Publishing);
    const std::optional<Saving::Result> result = saving_->finish();
    if (result->error.empty()) {
      summary_.checkpoint = result->path;
      save_error_.clear();
    } else {
      save_error_ = result->error;
      say(cat("not saved: ", result->error));
    }
  }

  void evaluate() {
    mark(FlightPhase::Evaluating);
    double sum = 0;
    int64_t samples = 0;
    for (const Batch& batch : feed_.evaluation(options_.evaluation_batches)) {
      const auto count = static_cast<int64_t>(batch.samples.size());
      PreparedStep& step =
          trainer_.prepare(feed_.types(count), StepKind::Evaluate);
      feed_.fill(trainer_, step, batch);
      sum += trainer_.evaluate(step, state_.step) * static_cast<double>(count);
      samples += count;
    }
    if (samples == 0) {
      return;
    }
    summary_.evaluation_loss = sum / static_cast<double>(samples);
    write({{"evaluation_loss", *summary_.evaluation_loss}});
    say(cat(
        "step ", state_.step, ": evaluation loss ", *summary_.evaluation_loss));
  }

  void report(
      double loss,
      const std::vector<double>& rates,
      const StepResult& result,
      int64_t samples,
      double step_seconds) {
    if (!is_first()) {
      return;
    }
    if (flops_ == 0) {
      flops_ = step_flops(graph_);
      machine_flops_per_second_ = measured_flops_per_second() *
                                  static_cast<double>(options_.trainer.ranks);
    }
    const bool is_stream = feed_.dataset().is_stream();
    const double items =
        static_cast<double>(samples) *
        (is_stream ? static_cast<double>(
                         feed_.dataset().fields().front().type.sizes.front())
                   : 1.0);
    const double utilisation =
        static_cast<double>(flops_) *
        static_cast<double>(options_.trainer.accumulate) / step_seconds /
        machine_flops_per_second_;
    ProgressState shown;
    shown.step = state_.step;
    shown.steps = options_.steps;
    shown.loss = loss;
    shown.step_seconds = step_seconds;
    shown.items_per_second = items / step_seconds;
    shown.item = is_stream ? "tokens" : "samples";
    shown.flops_utilisation = utilisation;
    shown.memory_bytes = trainer_.used_bytes();
    progress_.update(shown);
    MetricValues values = {
        {"loss", loss},
        {"learning_rate", rates.empty() ? 0 : rates.front()},
        {"step_seconds", step_seconds},
        {is_stream ? "tokens_per_second" : "samples_per_second",
         shown.items_per_second},
        {"flops_utilisation", utilisation},
        {"memory_bytes", static_cast<double>(shown.memory_bytes)},
        {"position", static_cast<double>(state_.position)}};
    if (result.gradient_norm) {
      values.emplace_back("gradient_norm", *result.gradient_norm);
    }
    if (scale_) {
      values.emplace_back("loss_scale", scale_->scale());
    }
    if (result.is_skipped) {
      values.emplace_back("skipped", 1);
    }
    write(values);
  }

  void write(const MetricValues& values) {
    if (lines_) {
      lines_->write(state_.step, values);
      events_->write(state_.step, values);
    }
  }

  void end() {
    if (!saving_) {
      return;
    }
    publish();
    if (checkpoint_path(options_.output, state_.step) != summary_.checkpoint) {
      save();
      publish();
    }
    WEFT_CHECK_USER(
        save_error_.empty(), "the last state is not saved: ", save_error_);
    if (!is_first()) {
      return;
    }
    mark(FlightPhase::Exporting);
    summary_.model = cat(options_.output, "/model.safetensors");
    Checkpoint checkpoint(summary_.checkpoint);
    export_model(checkpoint, summary_.model);
  }

  const Graph& graph_;
  const TrainOptions& options_;
  World* const world_;
  const StopSignals signals_;
  const Feed feed_;
  Trainer trainer_;
  const std::vector<double> rates_;
  std::optional<LossScale> scale_;
  SkippedSteps skipped_;
  std::unique_ptr<Communicator> everybody_;
  at::Tensor agreed_;
  std::optional<Saving> saving_;
  std::string save_error_;
  std::optional<JsonLines> lines_;
  std::optional<EventFile> events_;
  Progress progress_;
  LoopState state_;
  int64_t flops_ = 0;
  double machine_flops_per_second_ = 0;
  TrainSummary summary_;
};

}  // namespace

std::vector<double> learning_rates_of(const Graph& graph) {
  std::vector<double> rates;
  for (const Constant& constant : graph.constants) {
    if (constant.name == cat("lr.", rates.size())) {
      double rate = 0;
      std::memcpy(&rate, constant.bytes.data(), sizeof(rate));
      rates.push_back(rate);
    }
  }
  return rates;
}

TrainSummary train(
    const Graph& graph,
    const GraphSource& graphs,
    const PlanSource& plans,
    const TrainOptions& options,
    World* world) {
  at::set_num_threads(options.threads);
  return Loop(graph, graphs, plans, options, world).run();
}

}  // namespace weft
