// SPDX-License-Identifier: Apache-2.0
#include "search/layout_plan.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/laid_out.h"
#include "lower/move.h"
#include "ops/kernel_memory.h"
#include "plan/name_patterns.h"
#include "plan/parallel.h"
#include "plan/zero.h"
#include "search/layout_costs.h"
#include "search/layout_problem.h"
#include "search/layout_space.h"

#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace weft {
namespace {

constexpr const char* kTensorAxis = "tensor";
// How often lowering is asked what it would choose by itself.
constexpr int kMostRounds = 40;

// What all bytes cost first, beside all seconds; and by how much more each time
// after that.
constexpr double kFirstPrice = 0.1;
constexpr double kPriceGrowth = 8;
constexpr int kMostPrices = 4;

// Of the units of the whole step, how many the unit of each name stands for.
CountOfNode counts_of(const ShrunkStep& shrunk) {
  std::vector<double> counts(shrunk.units.units.size(), 0);
  for (const int32_t unit : shrunk.stands_for) {
    counts[static_cast<size_t>(unit)] += 1;
  }
  return [&shrunk, counts](const std::string& name) {
    const int32_t unit = shrunk.units.of_name(name);
    return unit < 0 ? 1 : counts[static_cast<size_t>(unit)];
  };
}

class LineWriter {
 public:
  LineWriter(
      const Graph& shrunk,
      Plan base,
      const LayoutSpace& space,
      const std::vector<Layout>& resting)
      : shrunk_(shrunk), step_(step_of(shrunk)), plan_(std::move(base)) {
    plan_.mesh = space.mesh;
    for (size_t i = 0; i < space.step().values.size(); ++i) {
      wanted_.emplace(
          space.step().values[i].name, &resting[space.class_of_value[i]]);
    }
    for (const Belongings& each : belongings(step_)) {
      if (each.gradient != ValueId::None) {
        followers_.insert(step_[each.gradient].name);
      }
      for (const ValueId state : each.states) {
        followers_.insert(step_[state].name);
      }
    }
  }

  // By name of a value of the shrunk step.
  std::map<std::string, Layout> run() {
    for (const Input& input : step_.inputs) {
      const std::string& name = step_[input.value].name;
      const auto at = wanted_.find(name);
      if (at != wanted_.end() && !followers_.contains(name) &&
          contains(axes_of(*at->second), kTensorAxis)) {
        decide(name, *at->second);
      }
    }
    for (int round = 0; round < kMostRounds && add_lines(); ++round) {
    }
    return std::move(decided_);
  }

 private:
  // What lowering makes of the lines. A sum that should stay partial, and is
  // made by a node that lowering computes otherwise, is a mistake in a plan:
  // such lines are left out then.
  LaidOutStep lay_out_now() {
    try {
      return lay_out(shrunk_, plan_);
    } catch (const UserError&) {
      may_be_partial_ = false;
    }
    std::erase_if(plan_.decisions, [](const Decision& one) {
      return !one.layout.partial.empty();
    });
    std::erase_if(
        decided_, [](const auto& one) { return !one.second.partial.empty(); });
    return lay_out(shrunk_, plan_);
  }

  // Sums over other axes stay as words have them.
  bool can_decide(const std::string& name, const Layout& layout) const {
    return !followers_.contains(name) && !decided_.contains(name) &&
           (layout.partial.empty() ||
            (may_be_partial_ && layout.partial == Axes{kTensorAxis}));
  }

  void decide(const std::string& name, const Layout& layout) {
    decided_.emplace(name, layout);
    plan_.decisions.push_back({.pattern = name, .layout = layout});
  }

  // Values that come out otherwise although all that their nodes read is where
  // it should be: they need a line. False: there are none.
  bool add_lines() {
    const LaidOutStep now = lay_out_now();
    const Function& step = step_of(now.graph);
    std::unordered_set<std::string> known;
    for (const Value& value : step_.values) {
      known.insert(value.name);
    }
    const auto is_right = [&](ValueId value) {
      const auto at = wanted_.find(step[value].name);
      return at == wanted_.end() || now.resting[index(value)] == *at->second;
    };
    bool is_new = false;
    for (const Node& node : step.nodes) {
      bool has_all = true;
      for_each_operand(
          node, [&](ValueId read) { has_all = has_all && is_right(read); });
      if (!has_all) {
        continue;
      }
      for (const ValueId result : node.results) {
        const std::string& name = step[result].name;
        if (!is_right(result) && known.contains(name) &&
            can_decide(name, *wanted_.at(name))) {
          decide(name, *wanted_.at(name));
          is_new = true;
        }
      }
    }
    return is_new;
  }

  const Graph& shrunk_;
  const Function& step_;
  Plan plan_;
  std::unordered_map<std::string, const Layout*> wanted_;
  // What words say by themselves: states and gradients follow parameters.
  std::unordered_set<std::string> followers_;
  std::map<std::string, Layout> decided_;
  bool may_be_partial_ = true;
};

// For every value of the whole step what its likes have in the shrunk one.
std::vector<Decision> for_all_layers(
    const Function& whole,
    const Function& shrunk,
    const std::map<std::string, Layout>& decided) {
  std::map<std::pair<std::string, std::string>, const Layout*> by_pattern;
  for (const Value& value : shrunk.values) {
    const auto at = decided.find(value.name);
    if (at != decided.end()) {
      by_pattern.emplace(
          std::pair{layer_pattern(value.name), print(value.type)}, &at->second);
    }
  }
  std::unordered_set<std::string> in_shrunk;
  for (const Value& value : shrunk.values) {
    in_shrunk.insert(value.name);
  }
  std::vector<Decision> out;
  for (const Value& value : whole.values) {
    const auto exact = decided.find(value.name);
    if (exact != decided.end()) {
      out.push_back({.pattern = value.name, .layout = exact->second});
      continue;
    }
    const auto at =
        by_pattern.find({layer_pattern(value.name), print(value.type)});
    if (at != by_pattern.end() && !in_shrunk.contains(value.name)) {
      out.push_back({.pattern = value.name, .layout = *at->second});
    }
  }
  return out;
}

// Where a byte costs so many seconds. A row of bytes would have the solver
// branch for long; with a price the programme stays one of few numbers.
std::optional<Chosen> choose_at(const ChoiceProblem& problem, double price) {
  ChoiceProblem priced = problem;
  for (ChoiceProblem::Choice& choice : priced.choices) {
    for (size_t i = 0; i < choice.seconds.size(); ++i) {
      choice.seconds[i] += price * choice.bytes[i];
    }
  }
  std::optional<Chosen> chosen = choose(priced);
  if (chosen) {
    const Chosen real = cost_of(problem, chosen->options);
    chosen->seconds = real.seconds;
    chosen->bytes = real.bytes;
  }
  return chosen;
}

}  // namespace

std::vector<SearchedLayouts> layout_menu(
    const Graph& graph,
    const ShrunkStep& shrunk,
    const Cluster& cluster,
    const LayoutQuestion& question,
    int most) {
  const CountedKernels rough;
  Parallel words;
  words.data = question.batch_parts;
  const Plan base = expand(words, shrunk.graph, cluster.device);
  const LayoutSpace space = layout_space(
      lay_out(shrunk.graph, base),
      base.mesh,
      {kTensorAxis, question.tensor},
      counts_of(shrunk));
  const LayoutCosts costs(space, cluster, question.micro_batches);
  const ChoiceProblem problem = layout_problem(space, costs);
  std::vector<SearchedLayouts> menu;
  double price = 0;
  for (int i = 0; i < kMostPrices && std::ssize(menu) < most; ++i) {
    const std::optional<Chosen> chosen = choose_at(problem, price);
    if (!chosen) {
      break;
    }
    price = price == 0 ? kFirstPrice * chosen->seconds / chosen->bytes
                       : kPriceGrowth * price;
    if (!menu.empty() && chosen->bytes >= menu.back().bytes) {
      continue;
    }
    const std::vector<Layout> resting = resting_layouts(space, *chosen);
    const std::map<std::string, Layout> decided =
        LineWriter(shrunk.graph, base, space, resting).run();
    if (decided.empty()) {
      break;
    }
    menu.push_back(
        {.decisions =
             for_all_layers(step_of(graph), step_of(shrunk.graph), decided),
         .seconds = chosen->seconds,
         .bytes = chosen->bytes,
         .is_proved = chosen->is_proved,
         .is_relaxed = chosen->is_relaxed});
  }
  return menu;
}

}  // namespace weft
