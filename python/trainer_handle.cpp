// SPDX-License-Identifier: Apache-2.0
#include "trainer_handle.h"

#include "aten/types.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "plan/batch_share.h"
#include "plan/forward_plan.h"
#include "plan/parallel.h"
#include "plan/rank_names.h"
#include "train/batch_hash.h"
#include "train/batch_rows.h"
#include "train/branches.h"
#include "train/graph_agreement.h"
#include "train/run_folder.h"
#include "train/saving.h"
#include "train/state_store.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

namespace weft {
namespace {

// Ranks meet once in the life of a process, however many trainers it makes.
std::shared_ptr<World> world_of(const Rendezvous& rendezvous) {
  static const std::shared_ptr<World> world = connect(rendezvous);
  return world;
}

// The one whose doings the other ranks are told.
const TrainerHandle* watched = nullptr;

// How messages call the ranks; empty: by their numbers.
std::vector<std::string> rank_names_of(
    const TrainerHandleOptions& options, int64_t ranks) {
  std::vector<std::string> names;
  if (!options.plan.empty()) {
    names = rank_names(parse_plan(options.plan, options.plan_source));
  } else if (!options.parallel.empty()) {
    names = rank_names(parse_parallel(options.parallel, "parallel"));
  }
  // A plan for another number of them is told of later.
  return static_cast<int64_t>(names.size()) == ranks
             ? names
             : std::vector<std::string>();
}

// The checkpoint that the path means; none when it is no checkpoint.
std::optional<std::string> checkpoint_at(const std::string& path) {
  if (!std::filesystem::is_directory(path)) {
    return std::nullopt;
  }
  if (std::filesystem::exists(cat(path, "/index.json"))) {
    return path;
  }
  return find_start(path, true).checkpoint;
}

std::string_view name(BadLoss bad_loss) {
  switch (bad_loss) {
    case BadLoss::Stop:
      return "stop";
    case BadLoss::Skip:
      return "skip";
    case BadLoss::GoOn:
      return "go-on";
  }
  WEFT_CHECK(false, "an unknown bad_loss");
  return "";
}

}  // namespace

TrainerHandle::TrainerHandle(GraphSource graphs, TrainerHandleOptions options)
    : precision_(options.precision), graphs_(std::move(graphs)) {
  if (auto rendezvous = rendezvous_from_environment();
      rendezvous && rendezvous->size > 1) {
    rendezvous->rank_names = rank_names_of(options, rendezvous->size);
    options.trainer.rank = rendezvous->rank;
    options.trainer.ranks = rendezvous->size;
    world_ = world_of(*rendezvous);
  }
  flight_ = FlightRecord::open(
      flight_folder(""), options.trainer.rank, options.trainer.ranks);
  options.trainer.flight = flight_.get();
  if (options.loss_scale) {
    scale_.emplace(*options.loss_scale);
    options.trainer.scale_loss = true;
  }
  WEFT_CHECK_USER(
      options.plan.empty() || options.parallel.empty(),
      "plan and parallel both say how to run: give one of them");
  WEFT_CHECK_USER(
      options.plan.empty() || options.plan.find('{') != std::string::npos,
      "plan: \"",
      options.plan,
      "\" is not the text of a plan; words as data=2 are for parallel, and a "
      "file is given as pathlib.Path(...)");
  plans_ = [text = options.plan,
            source = options.plan_source,
            words = options.parallel,
            ranks = options.trainer.ranks](const Graph& graph) {
    if (text.empty() && words.empty()) {
      return expand({.data = ranks}, graph);
    }
    if (text.empty()) {
      Plan plan = expand(parse_parallel(words, "parallel"), graph);
      verify_ranks(plan, ranks);
      return plan;
    }
    Plan plan = parse_plan(text, source);
    // A script's model has no name: a plan that was found for its file, which
    // has one, is for it as well. Values are looked up by their names.
    plan.graph = graph.name;
    plan = forward_plan(std::move(plan), graph);
    verify_ranks(plan, ranks);
    return plan;
  };
  trainer_ = std::make_unique<Trainer>(
      [this](const BatchTypes& types, StepKind kind) {
        return graph_for(types, kind);
      },
      plans_,
      std::move(options.trainer),
      world_.get());
  if (world_) {
    agreement_ = std::make_unique<BatchAgreement>(
        *world_,
        *everybody(),
        trainer_->options().rank,
        trainer_->options().ranks,
        std::move(options.batch));
    watched = this;
    world_->watch([this] { return trainer_->doing(); });
  }
}

TrainerHandle::~TrainerHandle() {
  if (world_ && watched == this) {
    world_->watch({});
  }
}

Graph TrainerHandle::graph_for(const BatchTypes& types, StepKind kind) {
  types_ = types;
  if (!world_) {
    return graphs_(types, kind);
  }
  meet(0);
  return agree_on_graph(
      graphs_(types, kind),
      *world_,
      *everybody(),
      trainer_->options().rank,
      trainer_->options().ranks);
}

void TrainerHandle::meet(uint64_t step) {
  if (world_) {
    verify_same_step(step, *world_, *everybody(), trainer_->options().ranks);
  }
}

// By the plan for a batch of which every rank has a part, all of one size: that
// is one that every plan can cut.
void TrainerHandle::find_parts(const NamedTensors& example) {
  agreed_ = agreement_->agree("weft.parallelize", example, true);
  const std::vector<int64_t>& starts = agreed_.starts;
  int64_t most = 1;
  for (size_t part = 0; part + 1 < starts.size(); ++part) {
    most = std::max(most, starts[part + 1] - starts[part]);
  }
  BatchTypes types = agreed_.types;
  for (size_t i = 0; i < types.size(); ++i) {
    if (agreed_.is_split[i]) {
      Dims sizes = types[i].type.sizes;
      sizes.front() = most * trainer_->options().ranks;
      types[i].type = make_type(types[i].type.dtype, std::move(sizes));
    }
  }
  const Graph graph = graph_for(types, StepKind::Train);
  agreement_->set_parts(batch_share(plans_(graph), graph).part_of_rank);
}

const BatchTypes& TrainerHandle::agree(
    const NamedTensors& batch, StepKind kind, bool is_example) {
  if (!agreement_) {
    agreed_ = {
        .types = types_of(batch),
        .given = batch,
        .is_split = std::vector<bool>(batch.size()),
        .starts = {0, 0},
        .part_of_rank = {0}};
    return agreed_.types;
  }
  agreed_ = agreement_->agree(
      cat(is_example ? "the preparation of " : "",
          kind == StepKind::Train ? "a training step" : "an evaluation"),
      batch,
      is_example);
  return agreed_.types;
}

PreparedStep& TrainerHandle::prepare(const NamedTensors& batch, StepKind kind) {
  const bool is_asked_alone = !agreement_ || agreed_.given.empty();
  if (is_asked_alone) {
    agree(batch, kind, true);
  }
  PreparedStep& step = trainer_->prepare(agreed_.types, kind);
  if (is_asked_alone) {
    agreed_.given.clear();
  }
  return step;
}

void TrainerHandle::run_on(
    const NamedTensors& batch,
    StepKind kind,
    const std::function<void(PreparedStep&)>& run) {
  if (!agreement_ || agreed_.given.empty()) {
    agree(batch, kind, false);
  }
  // Also when it fails: the next step is of another batch.
  const auto forget =
      std::shared_ptr<void>(nullptr, [this](void*) { agreed_.given.clear(); });
  const auto& known = trainer_->branches(agreed_.types, kind);
  if (agreement_ && !known.empty()) {
    PreparedStep& step = *known.front();
    if (step.graph_hash == 0) {
      step.graph_hash = hash_of(print(step.graph));
    }
    meet(step.graph_hash);
  }
  run_branch(
      *trainer_,
      agreed_.types,
      kind,
      [&](PreparedStep& step) {
        fill_batch(*trainer_, step, agreed_, everybody());
      },
      run);
}

NamedTensors TrainerHandle::whole_batch() {
  return agreement_
             ? gather_batch(
                   agreed_, types_, trainer_->options().rank, *everybody())
             : agreed_.given;
}

StepResult TrainerHandle::train(
    const NamedTensors& batch,
    int64_t number,
    const std::vector<double>& learning_rates) {
  StepResult result;
  run_on(batch, StepKind::Train, [&](PreparedStep& step) {
    last_ = &step;
    result = trainer_->train(step, number, learning_rates, loss_scale());
  });
  if (scale_ && result.is_update) {
    scale_->update(!result.is_skipped);
  }
  WEFT_CHECK_USER(
      trainer_->options().bad_loss != BadLoss::Stop ||
          std::isfinite(result.loss),
      "the loss of step ",
      number,
      " is ",
      result.loss,
      "; the parameters are as before it. Try a smaller learning rate, "
      "clip_norm, or bad_loss=\"skip\"");
  WEFT_CHECK_USER(
      !(result.is_update && skipped_.note(result.is_skipped)),
      "the last ",
      kMostSkippedSteps,
      " steps were left out, since their loss or gradients were not finite: no "
      "batch will help these parameters. Go on from an earlier state with a "
      "smaller learning rate or clip_norm");
  return result;
}

Timeline TrainerHandle::timed(const NamedTensors& batch, int64_t number) {
  Timeline timeline;
  run_on(batch, StepKind::Train, [&](PreparedStep& step) {
    timeline = step.executor->run_timed(number);
  });
  return timeline;
}

double TrainerHandle::evaluate(const NamedTensors& batch, int64_t number) {
  double loss = 0;
  run_on(batch, StepKind::Evaluate, [&](PreparedStep& step) {
    loss = trainer_->evaluate(step, number);
  });
  return loss;
}

NamedTensors TrainerHandle::gradients() {
  WEFT_CHECK_USER(
      trainer_->options().keep_gradients && last_ != nullptr,
      "no gradients were kept: give keep_gradients=True, and make a step");
  NamedTensors gradients;
  const std::vector<Output>& outputs =
      last_->executor->block().function.outputs;
  for (const HeldOutput& each : held_outputs(last_->program)) {
    if (each.kind != OutputKind::Gradient) {
      continue;
    }
    at::Tensor piece;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].kind == each.kind && outputs[i].key == each.key) {
        piece = last_->executor->outputs()[i];
      }
    }
    gradients.emplace_back(
        each.key,
        is_everywhere(each.holding)
            ? piece.clone()
            : gather_whole(*everybody(), piece, each.holding));
  }
  return gradients;
}

Communicator* TrainerHandle::everybody() {
  if (!everybody_ && world_) {
    std::vector<int64_t> all(static_cast<size_t>(trainer_->options().ranks));
    std::iota(all.begin(), all.end(), 0);
    everybody_ = world_->group(all);
  }
  return everybody_.get();
}

std::vector<std::string> TrainerHandle::names_of_first(
    const std::vector<std::string>& names) {
  if (!world_) {
    return names;
  }
  return parse_json<nlohmann::json>(
      world_->tell_all(nlohmann::json(names).dump()));
}

void TrainerHandle::fill(
    const std::string& name,
    const std::optional<at::Tensor>& whole,
    bool from_first) {
  const Trainer::Kept* kept = trainer_->find_kept(name);
  WEFT_CHECK(kept != nullptr, "no step has ", name);
  const TensorType& type = kept->holding.whole;
  at::Tensor values = whole ? whole->detach() : at::Tensor();
  if (from_first && world_ && element_count(type) > 0) {
    const at::ScalarType dtype = scalar_type_of(type.dtype);
    values = whole ? values.to(dtype, false, true, at::MemoryFormat::Contiguous)
                   : at::empty(type.sizes, dtype);
    everybody()->broadcast(values, 0)->wait();
  }
  const Trainer::Resident* into = trainer_->find_resident(name);
  if (into != nullptr && values.defined()) {
    into->tensor.copy_(piece_of_tensor(
        values, into->layout, trainer_->team(), trainer_->options().rank));
  }
}

at::Tensor TrainerHandle::whole(const std::string& name) {
  return whole_tensor(*trainer_, everybody(), name);
}

// By the names of script_settings.
RunValues TrainerHandle::settings() const {
  const TrainerOptions& options = trainer_->options();
  return {
      {"precision", nlohmann::json(precision_).dump()},
      {"seed", nlohmann::json(options.seed).dump()},
      {"accumulate", nlohmann::json(options.accumulate).dump()},
      {"clip_norm", nlohmann::json(options.clip_norm).dump()},
      {"bad_loss", nlohmann::json(name(options.bad_loss)).dump()}};
}

std::string TrainerHandle::save(
    const std::string& folder,
    int64_t step,
    const std::string& extra,
    int64_t keep) {
  nlohmann::json state = {
      {"step", step},
      {"seed", trainer_->options().seed},
      {"extra", parse_json<nlohmann::json>(extra)}};
  for (const auto& [name, value] : settings()) {
    state["settings"][name] = parse_json<nlohmann::json>(value);
  }
  if (scale_) {
    state["loss_scale"] = scale_->print_state();
  }
  Saving saving(*trainer_, folder, keep);
  saving.begin(step, state.dump());
  const std::optional<Saving::Result> result = saving.finish();
  WEFT_CHECK_USER(result->error.empty(), "not saved: ", result->error);
  return result->path;
}

TrainerHandle::Loaded TrainerHandle::load(const std::string& path) {
  const std::optional<std::string> found = checkpoint_at(path);
  if (!found) {
    load_parameters(*trainer_, *open_tensors(path));
    return {};
  }
  Checkpoint checkpoint(*found);
  checkpoint.expect_fingerprint(fingerprint(*trainer_));
  const auto state = parse_json<nlohmann::json>(checkpoint.state());
  WEFT_CHECK_USER(
      state.is_object() &&
          (!state.contains("loss_scale") || state.at("loss_scale").is_string()),
      *found,
      " says nothing of its run; load its parameters alone: weft export "
      "writes them as a .safetensors file");
  const auto saved = state.value("settings", nlohmann::json::object());
  RunValues before;
  for (const auto& [name, value] : saved.items()) {
    before[name] = value.dump();
  }
  const std::vector<RunChange> changes =
      changes_between(script_settings(), before, settings());
  refuse_changes(
      script_settings(),
      changes,
      *found,
      "Take the precision that it was saved with, or load its parameters "
      "alone: weft export writes them as a .safetensors file");
  load_state(*trainer_, checkpoint);
  if (scale_ && state.contains("loss_scale")) {
    scale_->restore(state["loss_scale"].get<std::string>(), *found);
  }
  Loaded loaded = {
      checkpoint.step(),
      state.value("extra", nlohmann::json::object()).dump(),
      {}};
  for (const RunChange& change : changes) {
    loaded.notes.push_back(explain(script_settings(), change));
  }
  return loaded;
}

}  // namespace weft
