// SPDX-License-Identifier: Apache-2.0
#include "trainer_handle.h"

#include "aten/types.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "plan/forward_plan.h"
#include "plan/parallel.h"
#include "plan/rank_names.h"
#include "train/saving.h"
#include "train/state_store.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

namespace weft {
namespace {

BatchTypes types_of(const NamedTensors& batch) {
  BatchTypes types;
  for (const auto& [key, tensor] : batch) {
    types.push_back(
        {key, make_type(dtype_of(tensor.scalar_type()), tensor.sizes().vec())});
  }
  return types;
}

std::vector<at::Tensor> tensors_of(const NamedTensors& batch) {
  std::vector<at::Tensor> tensors;
  for (const auto& [key, tensor] : batch) {
    tensors.push_back(tensor);
  }
  return tensors;
}

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
  return find_last(path).path;
}

}  // namespace

TrainerHandle::TrainerHandle(GraphSource graphs, TrainerHandleOptions options) {
  if (auto rendezvous = rendezvous_from_environment();
      rendezvous && rendezvous->size > 1) {
    rendezvous->rank_names = rank_names_of(options, rendezvous->size);
    options.trainer.rank = rendezvous->rank;
    options.trainer.ranks = rendezvous->size;
    world_ = world_of(*rendezvous);
  }
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
  PlanSource plans = [text = options.plan,
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
      std::move(graphs),
      std::move(plans),
      std::move(options.trainer),
      world_.get());
  if (world_) {
    watched = this;
    world_->watch([this] { return trainer_->doing(); });
  }
}

TrainerHandle::~TrainerHandle() {
  if (world_ && watched == this) {
    world_->watch({});
  }
}

PreparedStep& TrainerHandle::prepare(const NamedTensors& batch, StepKind kind) {
  return trainer_->prepare(types_of(batch), kind);
}

StepResult TrainerHandle::train(
    const NamedTensors& batch,
    int64_t number,
    const std::vector<double>& learning_rates) {
  PreparedStep& step = prepare(batch, StepKind::Train);
  trainer_->set_batch(step, tensors_of(batch));
  last_ = &step;
  const StepResult result =
      trainer_->train(step, number, learning_rates, loss_scale());
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
  return result;
}

Timeline TrainerHandle::timed(const NamedTensors& batch, int64_t number) {
  PreparedStep& step = prepare(batch, StepKind::Train);
  trainer_->set_batch(step, tensors_of(batch));
  return step.executor->run_timed(number);
}

double TrainerHandle::evaluate(const NamedTensors& batch, int64_t number) {
  PreparedStep& step = prepare(batch, StepKind::Evaluate);
  trainer_->set_batch(step, tensors_of(batch));
  return trainer_->evaluate(step, number);
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
  return nlohmann::json::parse(world_->tell_all(nlohmann::json(names).dump()));
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

std::string TrainerHandle::save(
    const std::string& folder,
    int64_t step,
    const std::string& extra,
    int64_t keep) {
  nlohmann::json state = {
      {"step", step},
      {"seed", trainer_->options().seed},
      {"extra", nlohmann::json::parse(extra)}};
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
  load_state(*trainer_, checkpoint);
  const auto state = nlohmann::json::parse(checkpoint.state());
  if (scale_ && state.contains("loss_scale")) {
    scale_->restore(state["loss_scale"].get<std::string>(), *found);
  }
  return {
      checkpoint.step(), state.value("extra", nlohmann::json::object()).dump()};
}

}  // namespace weft
