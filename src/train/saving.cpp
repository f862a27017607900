// SPDX-License-Identifier: Apache-2.0
#include "train/saving.h"

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint_writer.h"
#include "train/export_model.h"
#include "train/state_store.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace weft {

Saving::Saving(Trainer& trainer, std::string folder, int64_t keep)
    : trainer_(trainer), folder_(std::move(folder)), keep_(keep) {}

void Saving::begin(int64_t step, const std::string& state) {
  WEFT_CHECK(!writing_, "a save is under way");
  step_ = step;
  state_ = state;
  part_.clear();
  writing_ = true;
  saver_.start(
      folder_,
      step,
      trainer_.options().rank,
      pieces_to_save(trainer_),
      [this](std::string part) { part_ = std::move(part); });
}

std::optional<Saving::Result> Saving::finish() {
  if (!writing_) {
    return std::nullopt;
  }
  writing_ = false;
  nlohmann::json mine;
  try {
    saver_.wait();
    mine["part"] = part_;
  } catch (const UserError& error) {
    mine["error"] = error.what();
  }
  std::vector<std::string> all = {mine.dump()};
  World* world = trainer_.world();
  if (world != nullptr) {
    all = world->gather(all.front());
  }
  nlohmann::json outcome = {{"path", ""}, {"error", ""}};
  if (trainer_.options().rank == 0) {
    std::vector<std::string> parts;
    for (const std::string& text : all) {
      const auto one = parse_json<nlohmann::json>(text);
      if (one.contains("error")) {
        outcome["error"] = one["error"];
      } else {
        parts.push_back(one["part"]);
      }
    }
    try {
      if (outcome["error"].get<std::string>().empty()) {
        auto state = parse_json<nlohmann::ordered_json>(state_);
        state["model"] =
            parse_json<nlohmann::ordered_json>(model_names(trainer_));
        outcome["path"] = publish(
            folder_,
            step_,
            parts,
            {fingerprint(trainer_), state.dump(), keep_});
      } else {
        discard_partial(folder_, step_);
      }
    } catch (const UserError& error) {
      outcome["error"] = error.what();
    }
  }
  if (world != nullptr) {
    outcome = parse_json<nlohmann::json>(world->tell_all(outcome.dump()));
  }
  return Result{outcome["path"], outcome["error"]};
}

}  // namespace weft
