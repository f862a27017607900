// SPDX-License-Identifier: Apache-2.0
#include "trainer_handle.h"

#include "aten/types.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "plan/forward_plan.h"
#include "plan/parallel.h"
#include "train/saving.h"
#include "train/state_store.h"

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
  if (const auto rendezvous = rendezvous_from_environment();
      rendezvous && rendezvous->size > 1) {
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
  PlanSource plans = [text = options.plan,
                      words = options.parallel,
                      ranks = options.trainer.ranks](const Graph& graph) {
    if (text.empty() && words.empty()) {
      return expand({.data = ranks}, graph);
    }
    Plan plan = text.empty() ? expand(parse_parallel(words, "parallel"), graph)
                             : forward_plan(parse_plan(text, "plan"), graph);
    verify_ranks(plan, ranks);
    WEFT_CHECK_USER(
        plan.stages.empty(),
        "a script's model is whole on every rank, and a pipeline keeps "
        "parameters in their stages: train it by `weft train MODEL --parallel "
        "...`, or leave out pipeline (micro-batches may stay)");
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
  const Block& block = last_->executor->block();
  const std::vector<Output>& outputs = block.function.outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].kind != OutputKind::Gradient) {
      continue;
    }
    const Layout& layout = block.layouts[index(outputs[i].value)];
    const at::Tensor piece = last_->executor->outputs()[i];
    gradients.emplace_back(
        outputs[i].key,
        is_whole(layout, trainer_->mesh())
            ? piece.clone()
            : gather_whole(everybody(), piece, layout, trainer_->mesh()));
  }
  return gradients;
}

const Trainer::Resident& TrainerHandle::resident(
    const std::string& name) const {
  const Trainer::Resident* found = trainer_->find_resident(name);
  WEFT_CHECK(found != nullptr, "no step has ", name);
  return *found;
}

Communicator& TrainerHandle::everybody() {
  if (!everybody_) {
    std::vector<int64_t> all(static_cast<size_t>(trainer_->options().ranks));
    std::iota(all.begin(), all.end(), 0);
    everybody_ = world_->group(all);
  }
  return *everybody_;
}

void TrainerHandle::fill(
    const std::string& name, const at::Tensor& whole, bool from_first) {
  const Trainer::Resident& into = resident(name);
  at::Tensor values = whole;
  if (from_first && world_ && whole.numel() > 0) {
    values = whole.detach().clone(at::MemoryFormat::Contiguous);
    everybody().broadcast(values, 0)->wait();
  }
  into.tensor.copy_(piece_of_tensor(
      values, into.layout, trainer_->mesh(), trainer_->options().rank));
}

at::Tensor TrainerHandle::whole(const std::string& name) {
  const Trainer::Resident& mine = resident(name);
  return is_whole(mine.layout, trainer_->mesh())
             ? mine.tensor
             : gather_whole(
                   everybody(), mine.tensor, mine.layout, trainer_->mesh());
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
