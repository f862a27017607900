// SPDX-License-Identifier: Apache-2.0
// Every candidate is estimated (survey.h); the best of them are lowered and
// simulated (selection.h), some of these with layouts that are searched, too.
#include "search/search.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/kernel_memory.h"
#include "plan/tensor_split.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"
#include "search/estimate.h"
#include "search/nearest.h"
#include "search/refusal.h"
#include "search/search_clock.h"
#include "search/selection.h"
#include "search/survey.h"
#include "search/trial.h"

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace weft {
namespace {

// So many of the best are tried with searched layouts.
constexpr size_t kMostSearched = 3;
// How many fit is shown this often.
constexpr size_t kProgressEvery = 200;

// All that forward and backward compute, at the rate of one device at its best.
double seconds_at_peak(const Function& step, const Device& device) {
  const CountedKernels rough;
  const std::vector<NodeCosts> costs = node_costs(step, signatures(step));
  double seconds = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    const Node& node = step.nodes[i];
    if (node.phase == Phase::Forward || node.phase == Phase::Backward) {
      seconds +=
          static_cast<double>(costs[i].flops) /
          flops_per_second(device, step[node.results.front()].type.dtype);
    }
  }
  return seconds;
}

class Search {
 public:
  Search(
      const Graph& graph, const Cluster& cluster, const SearchOptions& options)
      : graph_(graph),
        cluster_(cluster),
        options_(options),
        clock_(options),
        peak_seconds_(std::async(
            std::launch::async,
            [&] { return seconds_at_peak(step_of(graph), cluster.device); })),
        estimator_(graph, cluster),
        trials_(graph, cluster, options, estimator_),
        survey_(
            estimator_,
            step_of(graph),
            device_count(cluster),
            trials_.budget_bytes(),
            options.most_instructions),
        selection_(
            result_.tried,
            survey_,
            trials_,
            clock_,
            options.most_instructions) {
    result_.budget_bytes = trials_.budget_bytes();
  }

  SearchResult run() {
    result_.ranks = device_count(cluster_);
    result_.rows = batch_rows(graph_);
    verify(options_.limits, result_.ranks);
    count_tokens();
    result_.peak_seconds = peak_seconds_.get();
    const double before_estimates = clock_.seconds();
    estimate_all();
    const double before_simulation = clock_.seconds();
    const double samples = estimator_.sample_seconds();
    selection_.run();
    try_layouts();
    const double before_plan = clock_.seconds();
    finish();
    result_.seconds = clock_.seconds();
    result_.by_stage = {
        .units = before_estimates,
        .samples = samples,
        .estimates = before_simulation - before_estimates - samples,
        .simulation = before_plan - before_simulation,
        .plan = result_.seconds - before_plan};
    return std::move(result_);
  }

 private:
  void count_tokens() {
    const Function& step = step_of(graph_);
    for (const Input& input : step.inputs) {
      const TensorType& type = step[input.value].type;
      if (input.kind == InputKind::Batch) {
        const bool is_text = type.sizes.size() == 2 && !is_floating(type.dtype);
        result_.tokens = is_text ? element_count(type) : 0;
        break;
      }
    }
  }

  void estimate_all() {
    const int64_t node =
        cluster_.groups.empty() ? 1 : cluster_.groups.front().count;
    std::vector<Candidate> all = candidates(
        result_.ranks,
        node,
        result_.rows,
        options_.limits,
        expert_count(StepRules(estimator_.shrunk())));
    WEFT_CHECK_USER(
        !all.empty(),
        why_no_mesh(result_.ranks, node, result_.rows, options_.limits));
    estimator_.expect(all);
    put_in_order(all);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % kProgressEvery == 0) {
        clock_.say(cat("estimating ", i, " of ", all.size(), " candidates"));
      }
      if (clock_.is_out_of_time() && survey_.has_fit()) {
        result_.tried.push_back(
            {.candidate = all[i],
             .reason = "out of time before it was estimated"});
        continue;
      }
      result_.tried.push_back(survey_.next(all[i]));
      if (options_.takes_first_fit && survey_.has_fit()) {
        break;
      }
    }
  }

  // First those whose words compute for the least time, so that what is
  // estimated early rules out much of what comes later.
  void put_in_order(std::vector<Candidate>& all) {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < all.size(); ++i) {
      Candidate smallest = all[i];
      smallest.words.micro_batches = result_.rows;
      order.emplace_back(estimator_.floor_seconds(smallest), i);
    }
    std::sort(order.begin(), order.end());
    std::vector<Candidate> out;
    for (const auto& [seconds, i] : order) {
      out.push_back(all[i]);
    }
    all = std::move(out);
  }

  // What needs the least memory of all, where nothing fits: bounds are replaced
  // by estimates as long as they are below the least of these. Of words that
  // differ in their micro-batches alone, the smallest come first: larger ones
  // need more, but for the gradients that a single one need not sum up.
  void settle_least_bytes() {
    std::vector<Tried*> bounds;
    std::optional<int64_t> least;
    const auto count = [&](const Tried& tried) {
      const int64_t needed = tried.estimate.needed_bytes;
      if (needed > 0) {
        least = std::min(least.value_or(needed), needed);
      }
    };
    for (Tried& tried : result_.tried) {
      if (tried.is_bound) {
        bounds.push_back(&tried);
      } else {
        count(tried);
      }
    }
    std::stable_sort(
        bounds.begin(), bounds.end(), [](const Tried* a, const Tried* b) {
          const int64_t parts = a->candidate.words.micro_batches;
          const int64_t others = b->candidate.words.micro_batches;
          return std::pair(a->estimate.needed_bytes, -parts) <
                 std::pair(b->estimate.needed_bytes, -others);
        });
    // By all but the micro-batches.
    std::map<std::string, const Estimate*> smallest;
    for (Tried* tried : bounds) {
      if ((least && tried->estimate.needed_bytes >= *least) ||
          clock_.is_out_of_time()) {
        break;
      }
      Candidate any = tried->candidate;
      any.words.micro_batches = 1;
      const auto [smaller, is_first] =
          smallest.try_emplace(print(any), &tried->estimate);
      const bool sums_up = tried->candidate.words.micro_batches > 1 ||
                           tried->candidate.words.pipeline > 1;
      const Estimate& before = *smaller->second;
      const int64_t bound =
          before.needed_bytes - (sums_up ? 0 : before.memory.gradient_bytes);
      if (!is_first && least && bound >= *least) {
        tried->estimate.needed_bytes = bound;
        continue;
      }
      survey_.look_closely(*tried);
      count(*tried);
    }
  }

  bool has_fixed_layouts(std::string_view how) const {
    const auto at = options_.limits.fixed.find("layouts");
    return at != options_.limits.fixed.end() && at->second == how;
  }

  // Of the best candidates, in their order, those that share a micro-batch
  // along `tensor` alone.
  std::vector<Candidate> best_for_layouts() const {
    std::vector<Candidate> out;
    for (const Tried& tried : result_.tried) {
      Candidate now = tried.candidate;
      now.words.sequence = false;
      now.has_searched_layouts = true;
      if (out.size() < kMostSearched && tried.reason.empty() &&
          now.words.tensor.size() == 1 && now.words.context == 1 &&
          now.words.expert == 1 &&
          std::find(out.begin(), out.end(), now) == out.end()) {
        out.push_back(now);
      }
    }
    return out;
  }

  void try_layouts() {
    const bool is_must = has_fixed_layouts("searched");
    if ((!options_.searches_layouts && !is_must) ||
        has_fixed_layouts("words") ||
        options_.limits.forbidden.contains("layouts")) {
      return;
    }
    bool has_one = false;
    for (const Candidate& candidate : best_for_layouts()) {
      if (clock_.is_out_of_time()) {
        break;
      }
      clock_.say(cat("searching layouts for ", print(candidate)));
      Tried tried = {.candidate = candidate};
      survey_.look_at(tried, false);
      const bool can_be = tried.reason.empty() || tried.is_doubtful;
      if (can_be && !survey_.is_too_large(candidate)) {
        selection_.try_out(tried);
      }
      has_one = has_one || tried.reason.empty();
      result_.tried.push_back(std::move(tried));
    }
    WEFT_CHECK_USER(
        has_one || !is_must,
        "layouts=searched is asked for, and of the plans that fit none shares "
        "a layer over tensor; leave it out, or fix tensor=2 or more");
    for (Tried& tried : result_.tried) {
      if (is_must && tried.reason.empty() &&
          !tried.candidate.has_searched_layouts) {
        tried.reason = "layouts=searched is asked for";
        tried.is_doubtful = false;
      }
    }
    selection_.sort();
  }

  void finish() {
    result_.is_proved = selection_.is_proved();
    result_.is_out_of_time = clock_.has_run_out();
    result_.simulated = selection_.simulated();
    result_.samples = estimator_.samples();
    result_.lowered_samples = estimator_.lowered();
    while (!result_.plan && !result_.tried.empty() &&
           result_.tried.front().reason.empty()) {
      Tried& best = result_.tried.front();
      Plan plan;
      best.reason = refusal_of([&] {
        plan = trials_.plan_for(best);
        verify(plan, graph_);
      });
      if (best.reason.empty()) {
        result_.plan = std::move(plan);
      } else {
        selection_.sort();
      }
    }
    if (!result_.plan && !options_.takes_first_fit) {
      settle_least_bytes();
    }
    note_faults();
  }

  void note_faults() {
    std::set<std::string> seen;
    for (const Tried& tried : result_.tried) {
      if (is_fault(tried.reason) && seen.insert(tried.reason).second) {
        result_.faults.push_back(
            cat(print(tried.candidate), ": ", tried.reason));
      }
    }
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  SearchClock clock_;
  std::future<double> peak_seconds_;
  SearchResult result_;
  Estimator estimator_;
  Trials trials_;
  Survey survey_;
  Selection selection_;
};

}  // namespace

// In a thread of its own, and so with memory of its own: in what capture has
// left in pieces, finding room for as many small lists takes a third longer.
SearchResult search(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  return std::async(
             std::launch::async,
             [&] {
               const auto workings =
                   std::make_shared<Search>(graph, cluster, options);
               SearchResult result = workings->run();
               result.workings = workings;
               return result;
             })
      .get();
}

double flops_utilisation(const SearchResult& result, const Tried& tried) {
  return result.peak_seconds /
         (static_cast<double>(result.ranks) * tried.seconds());
}

Plan plan_of(
    const Graph& graph,
    const StepUnits& units,
    const Candidate& candidate,
    const Estimate& estimate,
    const Device& device,
    const std::vector<Decision>* layouts) {
  std::future<Plan> again = std::async(std::launch::async, [&] {
    Plan out;
    set_recompute(out, step_of(graph), units, estimate.recompute);
    return out;
  });
  Plan plan = layouts == nullptr
                  ? expand(candidate.words, graph, device)
                  : expand(candidate.words, *layouts, graph, device);
  if (plan.stages.size() + 1 == estimate.stage_starts.size()) {
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      const auto unit = static_cast<size_t>(estimate.stage_starts[i + 1]);
      plan.stages[i].pattern = units.units[unit].stage_pattern;
    }
  }
  Plan made_again = again.get();
  plan.recompute = std::move(made_again.recompute);
  plan.recompute_cheap = made_again.recompute_cheap;
  return plan;
}

}  // namespace weft
