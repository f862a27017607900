// SPDX-License-Identifier: Apache-2.0
// What lowerings of one graph have in common, found once: for whoever lowers it
// by many plans.
#pragma once

#include "graph/graph.h"
#include "graph/mesh.h"
#include "lower/laid_out.h"
#include "lower/node_choices.h"
#include "ops/rule_memo.h"
#include "plan/plan.h"

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace weft {

// May be used by several threads at once. Plans that differ in what is made
// again alone lay the step out alike before that, and exchange the same values
// (exchanged_values.h): the first that asks finds it. What throws is asked for
// again.
class LoweringMemo {
 public:
  explicit LoweringMemo(
      std::shared_ptr<RuleMemo> rules = std::make_shared<RuleMemo>())
      : rules_(std::move(rules)) {}

  RuleMemo& rules() { return *rules_; }

  // What was chosen for nodes on this mesh, with these axes of time: the same
  // for all plans.
  NodeChoices& choices(const Mesh& mesh, const Mesh& time);

  const LaidOutStep& laid_out(
      const Plan& plan, const std::function<LaidOutStep()>& find);
  const std::set<std::string>& exchanged(
      const Plan& plan, const std::function<std::set<std::string>()>& find);

  // How often a step was laid out and not found here.
  int64_t laid_out_count() const;

 private:
  struct Alike {
    Plan plan;
    std::once_flag is_laid_out = {};
    LaidOutStep laid_out = {};
    std::once_flag has_exchanged = {};
    std::set<std::string> exchanged = {};
  };
  Alike& alike(const Plan& plan);
  struct OnMesh {
    Mesh mesh;
    Mesh time;
    NodeChoices choices = {};
  };

  std::shared_ptr<RuleMemo> rules_;
  mutable std::mutex mutex_;
  std::deque<Alike> all_;
  std::deque<OnMesh> on_meshes_;
  int64_t laid_out_count_ = 0;
};

}  // namespace weft
