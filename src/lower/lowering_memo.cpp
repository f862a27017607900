// SPDX-License-Identifier: Apache-2.0
#include "lower/lowering_memo.h"

#include <algorithm>
#include <utility>

namespace weft {

LoweringMemo::Alike& LoweringMemo::alike(const Plan& plan) {
  Plan any = plan;
  any.recompute_cheap = false;
  any.recompute_collectives = false;
  any.recompute.clear();
  const std::unique_lock<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const Alike& one) {
        return one.plan == any;
      });
  return found == all_.end() ? all_.emplace_back(std::move(any)) : *found;
}

NodeChoices& LoweringMemo::choices(const Mesh& mesh, const Mesh& time) {
  const std::unique_lock<std::mutex> lock(mutex_);
  const auto found = std::find_if(
      on_meshes_.begin(), on_meshes_.end(), [&](const OnMesh& one) {
        return one.mesh == mesh && one.time == time;
      });
  return (found == on_meshes_.end() ? on_meshes_.emplace_back(mesh, time)
                                    : *found)
      .choices;
}

const LaidOutStep& LoweringMemo::laid_out(
    const Plan& plan, const std::function<LaidOutStep()>& find) {
  Alike& mine = alike(plan);
  std::call_once(mine.is_laid_out, [&] {
    mine.laid_out = find();
    const std::unique_lock<std::mutex> lock(mutex_);
    ++laid_out_count_;
  });
  return mine.laid_out;
}

const std::set<std::string>& LoweringMemo::exchanged(
    const Plan& plan, const std::function<std::set<std::string>()>& find) {
  Alike& mine = alike(plan);
  std::call_once(mine.has_exchanged, [&] { mine.exchanged = find(); });
  return mine.exchanged;
}

int64_t LoweringMemo::laid_out_count() const {
  const std::unique_lock<std::mutex> lock(mutex_);
  return laid_out_count_;
}

}  // namespace weft
