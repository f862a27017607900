// SPDX-License-Identifier: Apache-2.0
// Every candidate is estimated. In the order of their estimates those that a
// program can be made for in reasonable time are lowered and simulated, until
// none that is left can be faster: a rank computes, or its wires are taken, for
// longer than the best takes in all. What is too large for that is taken by its
// estimate.
#include "search/search.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "ops/kernel_memory.h"
#include "ops/rule_memo.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"
#include "profile/text_table.h"
#include "search/estimate.h"
#include "search/nearest.h"
#include "simulate/simulate.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

namespace weft {
namespace {

// Estimates may be that far above what the simulator says of the time that a
// rank or its wires are busy.
constexpr double kBusyShare = 0.97;
// Of a candidate that is lowered quickly: with few rows a sample may be laid
// out otherwise than the step.
constexpr double kSmallBusyShare = 0.5;
// So many cuts of a step into stages are all tried.
constexpr size_t kMostCuts = 40;
// So much more than there is may turn out to fit.
constexpr double kDoubtful = 1.3;
// A candidate that small is lowered rather than doubted, where what stays from
// step to step fits.
constexpr int64_t kSmallSize = 1000;
constexpr double kAnyTimes = 1000;
// Who computes for so many times what another takes in all is not looked at.
constexpr double kFarOff = 2;
// Of words that come so near to the best all policies are tried, where they are
// lowered quickly.
constexpr double kNear = 1.05;
// What was not simulated is taken where it is expected to be so much faster
// than all that was: its memory is as uncertain as its time.
constexpr double kWorthADoubt = 0.95;
// How often the number of layers that are made again whole is put right.
constexpr int kLayerAttempts = 3;
// How often the work is set aside anew while nothing that was lowered fits.
constexpr int kMostRounds = 4;
// So many of the best are tried with searched layouts.
constexpr size_t kMostSearched = 3;
// How many fit is shown this often.
constexpr size_t kProgressEvery = 200;

using Clock = std::chrono::steady_clock;

class Search {
 public:
  Search(
      const Graph& graph, const Cluster& cluster, const SearchOptions& options)
      : graph_(graph),
        cluster_(cluster),
        options_(options),
        begin_(Clock::now()),
        estimator_(graph, cluster) {
    result_.budget_bytes =
        options.max_bytes.value_or(cluster.device.memory_bytes);
  }

  SearchResult run() {
    result_.ranks = device_count(cluster_);
    result_.rows = batch_rows(graph_);
    verify(options_.limits, result_.ranks);
    count_flops();
    const double before_estimates = seconds();
    estimate_all();
    const double before_simulation = seconds();
    const double samples = estimator_.sample_seconds();
    simulate_best();
    try_layouts();
    const double before_plan = seconds();
    finish();
    result_.seconds = seconds();
    result_.by_stage = {
        .units = before_estimates,
        .samples = samples,
        .estimates = before_simulation - before_estimates - samples,
        .simulation = before_plan - before_simulation,
        .plan = result_.seconds - before_plan};
    return std::move(result_);
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  bool is_out_of_time() {
    result_.is_out_of_time =
        result_.is_out_of_time || (options_.time_limit_seconds &&
                                   seconds() > *options_.time_limit_seconds);
    return result_.is_out_of_time;
  }

  void say(const std::string& what) const {
    if (options_.progress) {
      options_.progress(what);
    }
  }

  void count_flops() {
    const CountedKernels rough;
    const Function& step = step_of(graph_);
    const std::vector<int32_t> signature_of = signatures(step);
    const std::vector<NodeCosts> costs = node_costs(step, signature_of);
    for (size_t i = 0; i < costs.size(); ++i) {
      const Node& node = step.nodes[i];
      if (node.phase == Phase::Forward || node.phase == Phase::Backward) {
        result_.peak_seconds +=
            static_cast<double>(costs[i].flops) /
            flops_per_second(
                cluster_.device, step[node.results.front()].type.dtype);
      }
    }
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
    const std::vector<Candidate> all =
        candidates(result_.ranks, node, result_.rows, options_.limits);
    WEFT_CHECK_USER(
        !all.empty(),
        why_no_mesh(result_.ranks, node, result_.rows, options_.limits));
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % kProgressEvery == 0) {
        say(cat("estimating ", i, " of ", all.size(), " candidates"));
      }
      if (is_out_of_time() && has_fit_) {
        result_.tried.push_back(
            {.candidate = all[i],
             .reason = "out of time before it was estimated"});
        continue;
      }
      result_.tried.push_back(estimated(all[i]));
    }
    sort();
  }

  // Where others of the same words have settled it, without a look.
  Tried estimated(const Candidate& candidate) {
    Tried tried = {.candidate = candidate};
    Parallel words = candidate.words;
    if (!(words == words_)) {
      words_ = words;
      fitting_ = std::nullopt;
    }
    words.micro_batches = 1;
    const std::string key = print(words);
    const auto rejected = rejected_.find(key);
    const int64_t micro = candidate.words.micro_batches;
    if (fitting_) {
      tried.reason =
          cat("recompute=", name(*fitting_), " fits, and makes less again");
      tried.is_settled = true;
      return tried;
    }
    // All at once need no room to sum gradients up.
    const bool sums_up = micro > 1 || words.pipeline > 1;
    if (rejected != rejected_.end() && micro < rejected->second && sums_up &&
        !is_small(candidate)) {
      tried.reason =
          cat("micro-batches=", rejected->second, " needs too much already");
      return tried;
    }
    const double least = estimator_.least_seconds(candidate);
    if (best_estimate_ > 0 && least > kFarOff * best_estimate_) {
      tried.reason =
          cat("a rank computes ",
              decimals(least / best_estimate_, 1),
              " times as long as another takes in all");
      tried.least_seconds = least;
      return tried;
    }
    look_at(tried);
    if (tried.reason.empty()) {
      has_fit_ = true;
      best_estimate_ =
          best_estimate_ > 0
              ? std::min(best_estimate_, tried.estimate.step_seconds)
              : tried.estimate.step_seconds;
      if (candidate.recompute != RecomputePolicy::Full &&
          !has_whole_layers(tried)) {
        fitting_ = candidate.recompute;
      }
    }
    if (!tried.reason.empty() && !tried.is_doubtful &&
        tried.estimate.needed_bytes > 0 &&
        candidate.recompute == RecomputePolicy::Full) {
      rejected_[key] = micro;
    }
    return tried;
  }

  void look_at(Tried& tried) {
    tried.estimate = estimator_.estimate(tried.candidate, result_.budget_bytes);
    tried.reason = tried.estimate.reason;
    tried.is_settled = false;
    tried.least_seconds = 0;
    if (tried.estimate.needed_bytes > 0) {
      doubt(tried);
    }
  }

  void doubt(Tried& tried) {
    const double times =
        is_small(tried.candidate) || is_in_need_ ? kAnyTimes : kDoubtful;
    const Estimate more = estimator_.estimate(
        tried.candidate,
        static_cast<int64_t>(
            times * static_cast<double>(result_.budget_bytes)));
    const int64_t stays = more.memory.parameter_bytes + more.memory.state_bytes;
    if (more.reason.empty() && stays <= result_.budget_bytes) {
      const int64_t needed = tried.estimate.needed_bytes;
      tried.estimate = more;
      tried.estimate.needed_bytes = needed;
      tried.is_doubtful = true;
    }
  }

  // The simulator's word counts for more than the estimate's: who was not
  // simulated is taken to be as far from its estimate as the best that was, and
  // has to be clearly faster.
  void sort() {
    const Tried* best = nullptr;
    for (const Tried& tried : result_.tried) {
      if (tried.reason.empty() && tried.simulated_seconds &&
          (best == nullptr ||
           *tried.simulated_seconds < *best->simulated_seconds)) {
        best = &tried;
      }
    }
    const double times = best == nullptr
                             ? 1
                             : *best->simulated_seconds /
                                   best->estimate.step_seconds / kWorthADoubt;
    const auto expected = [&](const Tried& tried) {
      return tried.simulated_seconds.value_or(
          times * tried.estimate.step_seconds);
    };
    std::stable_sort(
        result_.tried.begin(),
        result_.tried.end(),
        [&](const Tried& a, const Tried& b) {
          if (a.reason.empty() != b.reason.empty()) {
            return a.reason.empty();
          }
          if (a.is_doubtful != b.is_doubtful) {
            return a.is_doubtful;
          }
          if (a.is_doubtful && is_in_need_) {
            return total(a.estimate.memory) < total(b.estimate.memory);
          }
          if (a.is_doubtful && is_far_over(a) != is_far_over(b)) {
            return is_far_over(b);
          }
          return (a.reason.empty() || a.is_doubtful) &&
                 expected(a) < expected(b);
        });
  }

  bool is_far_over(const Tried& tried) const {
    return static_cast<double>(tried.estimate.needed_bytes) >
           kDoubtful * static_cast<double>(result_.budget_bytes);
  }

  // Instructions of all ranks, roughly.
  int64_t size_of(const Candidate& candidate) const {
    return static_cast<int64_t>(step_of(graph_).nodes.size()) * result_.ranks /
           candidate.words.pipeline * candidate.words.micro_batches;
  }

  // Lowered quickly.
  bool is_small(const Candidate& candidate) const {
    return size_of(candidate) <= kSmallSize;
  }

  void simulate_best() {
    result_.is_proved = true;
    for (int round = 0; round < kMostRounds; ++round) {
      left_ = options_.most_instructions;
      do {
        has_more_ = false;
        simulate_in_order();
        reopen_far_off();
        reopen_near();
        sort();
      } while (has_more_);
      if (best_simulated_ >= 0 || is_out_of_time() || !look_further()) {
        break;
      }
    }
    is_in_need_ = false;
    sort();
    confirm_best();
  }

  // Nothing that was lowered fits. Then estimates reject nothing that can be
  // lowered, unless what stays from step to step is too much, and what needs
  // the least comes first. False when all of it was lowered, or a candidate
  // that cannot be seems to fit.
  bool look_further() {
    is_in_need_ = true;
    bool is_any = false;
    for (Tried& tried : result_.tried) {
      const bool can_be =
          size_of(tried.candidate) <= options_.most_instructions;
      if (tried.reason.empty() && !can_be) {
        return false;
      }
      if (tried.simulated_bytes || !can_be) {
        continue;
      }
      if (tried.estimate.stage_starts.empty()) {
        look_at(tried);
      }
      is_any = is_any || tried.reason.empty() || tried.is_doubtful;
    }
    sort();
    return is_any;
  }

  // Whether it may be faster than all that were simulated.
  bool can_win(const Candidate& candidate, double least_seconds) const {
    const double share = is_small(candidate) ? kSmallBusyShare : kBusyShare;
    return best_simulated_ < 0 || share * least_seconds < best_simulated_;
  }

  void simulate_in_order() {
    for (Tried& tried : result_.tried) {
      if (!tried.reason.empty() && !tried.is_doubtful) {
        break;
      }
      const double least =
          std::max(tried.estimate.busy_seconds, tried.estimate.wire_seconds);
      if (tried.simulated_seconds || !can_win(tried.candidate, least)) {
        continue;
      }
      if (size_of(tried.candidate) > left_ || is_out_of_time()) {
        result_.is_proved = false;
        continue;
      }
      simulate_one(tried);
    }
  }

  void simulate_one(Tried& tried) {
    left_ -= size_of(tried.candidate);
    try_out(tried);
    if (tried.reason.empty() && tried.simulated_seconds &&
        (best_simulated_ < 0 || *tried.simulated_seconds < best_simulated_)) {
      best_simulated_ = *tried.simulated_seconds;
    }
    if (!tried.reason.empty()) {
      reopen(tried.candidate.words);
    }
  }

  // What is taken by its estimate may not fit: where that can be, it is lowered
  // after all, and what would be taken in its place.
  void confirm_best() {
    left_ = options_.most_instructions;
    while (true) {
      Tried& best = result_.tried.front();
      if (!best.reason.empty() || best.simulated_seconds ||
          size_of(best.candidate) > left_ || is_out_of_time()) {
        return;
      }
      simulate_one(best);
      sort();
    }
  }

  // What one of these words had settled, that does not fit after all: the next
  // policy that seems to, and those before it.
  void reopen(const Parallel& words) {
    for (Tried& tried : result_.tried) {
      if (!tried.is_settled || !(tried.candidate.words == words)) {
        continue;
      }
      look_at(tried);
      has_more_ = true;
      if (tried.reason.empty() && !has_whole_layers(tried)) {
        break;
      }
    }
  }

  // What seemed to compute for too long beside an estimate that no simulated
  // step has come up to.
  void reopen_far_off() {
    const bool is_any = std::any_of(
        result_.tried.begin(), result_.tried.end(), [](const Tried& tried) {
          return tried.reason.empty();
        });
    if (best_simulated_ < 0 && is_any) {
      return;
    }
    for (Tried& tried : result_.tried) {
      if (tried.least_seconds > 0 && size_of(tried.candidate) <= left_ &&
          can_win(tried.candidate, tried.least_seconds)) {
        look_at(tried);
        has_more_ = true;
      }
    }
  }

  // Making less again is no proof where stages wait for each other.
  void reopen_near() {
    for (const Tried& near : result_.tried) {
      if (!near.reason.empty() || !is_small(near.candidate) ||
          near.simulated_seconds.value_or(kNear * best_simulated_ + 1) >
              kNear * best_simulated_) {
        continue;
      }
      for (Tried& tried : result_.tried) {
        if (tried.is_settled && tried.candidate.words == near.candidate.words) {
          look_at(tried);
          has_more_ = true;
        }
      }
    }
  }

  // Lowers it, and where layers are made again for want of room does so again
  // with as many of them as there really is room for.
  void try_out(Tried& tried) {
    say(cat("simulating ", print(tried.candidate)));
    ++result_.simulated;
    tried.is_doubtful = false;
    int64_t budget = result_.budget_bytes;
    Tried best = tried;
    for (int attempt = 0; attempt < kLayerAttempts; ++attempt) {
      Tried now = tried;
      lower_and_simulate(now);
      const bool is_better = now.reason.empty() &&
                             (!best.simulated_seconds ||
                              *now.simulated_seconds < *best.simulated_seconds);
      if (attempt == 0 || is_better) {
        best = now;
      }
      const int64_t off =
          now.simulated_bytes.value_or(0) - result_.budget_bytes;
      if (!tried.candidate.may_mix || !now.simulated_bytes ||
          (off <= 0 && !has_whole_layers(tried))) {
        break;
      }
      budget -= off;
      Estimate other = estimator_.estimate(tried.candidate, budget);
      if (!other.reason.empty() ||
          (other.recompute == tried.estimate.recompute &&
           other.stage_starts == tried.estimate.stage_starts)) {
        break;
      }
      tried.estimate = std::move(other);
    }
    tried = std::move(best);
    if (!is_small(tried.candidate) || tried.estimate.stage_starts.size() < 2 ||
        !tried.simulated_bytes) {
      return;
    }
    std::vector<std::vector<int32_t>> cuts;
    if (each_cut({0}, tried.estimate.stage_starts.size(), cuts)) {
      try_cuts(cuts, tried);
    } else if (tried.reason.empty()) {
      shift_stages(tried);
    }
  }

  // All ways to cut units into stages, as first units; false: too many.
  bool each_cut(
      const std::vector<int32_t>& starts,
      size_t stages,
      std::vector<std::vector<int32_t>>& out) const {
    if (starts.size() == stages) {
      out.push_back(starts);
      return out.size() <= kMostCuts;
    }
    for (int32_t i = starts.back() + 1; i < estimator_.units().size(); ++i) {
      if (estimator_.units()
              .units[static_cast<size_t>(i)]
              .stage_pattern.empty()) {
        continue;
      }
      std::vector<int32_t> more = starts;
      more.push_back(i);
      if (!each_cut(more, stages, out)) {
        return false;
      }
    }
    return true;
  }

  // The fastest that fits, by the simulator.
  void try_cuts(const std::vector<std::vector<int32_t>>& cuts, Tried& tried) {
    const Tried first = tried;
    for (const std::vector<int32_t>& starts : cuts) {
      if (starts == first.estimate.stage_starts) {
        continue;
      }
      Tried now = first;
      now.estimate.stage_starts = starts;
      now.simulated_seconds.reset();
      lower_and_simulate(now);
      if (now.reason.empty() &&
          (!tried.reason.empty() ||
           *now.simulated_seconds < *tried.simulated_seconds)) {
        tried = std::move(now);
      }
    }
  }

  // What stages wait for each other is not in the estimate's cut: where
  // lowering is quick, their beginnings are moved as long as that is faster.
  void shift_stages(Tried& tried) {
    bool is_faster = tried.estimate.stage_starts.size() > 1;
    while (is_faster) {
      is_faster = false;
      for (size_t i = 1; i < tried.estimate.stage_starts.size(); ++i) {
        for (const int32_t by : {-1, 1}) {
          Tried now = tried;
          if (shift(now.estimate.stage_starts, i, by)) {
            lower_and_simulate(now);
            if (now.reason.empty() &&
                *now.simulated_seconds < *tried.simulated_seconds) {
              tried = std::move(now);
              is_faster = true;
            }
          }
        }
      }
    }
  }

  // To the next place where a stage can begin; false: there is none.
  bool shift(std::vector<int32_t>& starts, size_t stage, int32_t by) const {
    const int32_t after = stage + 1 < starts.size() ? starts[stage + 1]
                                                    : estimator_.units().size();
    for (int32_t unit = starts[stage] + by;
         unit > starts[stage - 1] && unit < after;
         unit += by) {
      if (!estimator_.units()
               .units[static_cast<size_t>(unit)]
               .stage_pattern.empty()) {
        starts[stage] = unit;
        return true;
      }
    }
    return false;
  }

  static bool has_whole_layers(const Tried& tried) {
    return std::any_of(
        tried.estimate.recompute.begin(),
        tried.estimate.recompute.end(),
        [](RecomputePolicy policy) { return policy == RecomputePolicy::Full; });
  }

  void lower_and_simulate(Tried& tried) {
    tried.reason.clear();
    try {
      LowerOptions quick;
      quick.verify_each = false;
      quick.rules = rules_;
      const Program program = lower(graph_, plan_for(tried), cluster_, quick);
      tried.memories = rank_memories(program);
      const int64_t most = fullest(tried.memories)->peak_bytes;
      tried.simulated_bytes = most;
      if (most > result_.budget_bytes) {
        tried.reason =
            cat("a rank needs ",
                human_bytes(static_cast<double>(most)),
                " of ",
                human_bytes(static_cast<double>(result_.budget_bytes)));
        return;
      }
      tried.simulated_seconds = summarize(program, cluster_).step_seconds;
    } catch (const UserError& error) {
      tried.reason = error.what();
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
      if (is_out_of_time()) {
        break;
      }
      say(cat("searching layouts for ", print(candidate)));
      Tried tried = {.candidate = candidate};
      look_at(tried);
      const bool can_be = tried.reason.empty() || tried.is_doubtful;
      if (can_be && size_of(candidate) <= options_.most_instructions) {
        try_out(tried);
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
    sort();
  }

  Plan plan_for(const Tried& tried) {
    Plan plan = plan_of(
        graph_,
        estimator_.units(),
        tried.candidate,
        tried.estimate,
        cluster_.device,
        estimator_.layouts_of(tried.candidate));
    plan.decisions.insert(
        plan.decisions.end(),
        options_.decisions.begin(),
        options_.decisions.end());
    return plan;
  }

  void finish() {
    result_.samples = estimator_.samples();
    result_.lowered_samples = estimator_.lowered();
    if (!result_.tried.empty() && result_.tried.front().reason.empty()) {
      result_.plan = plan_for(result_.tried.front());
      verify(*result_.plan, graph_);
    }
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  const Clock::time_point begin_;
  Estimator estimator_;
  SearchResult result_;
  bool has_fit_ = false;
  // The least step of those that fit so far; 0: none does.
  double best_estimate_ = 0;
  // Of the words that are being looked at, the first policy that needs no layer
  // made again whole.
  std::optional<RecomputePolicy> fitting_;
  Parallel words_;
  // By words but for micro-batches, their number with which even Full is too
  // much: fewer of them are larger.
  std::map<std::string, int64_t> rejected_;
  // Of the nodes of the whole step.
  const std::shared_ptr<RuleMemo> rules_ = std::make_shared<RuleMemo>();
  // What may still be lowered and simulated.
  int64_t left_ = 0;
  // The least so far; -1: none.
  double best_simulated_ = -1;
  // Candidates came back that were not looked at before.
  bool has_more_ = false;
  // Nothing that was lowered fits.
  bool is_in_need_ = false;
};

}  // namespace

SearchResult search(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  return Search(graph, cluster, options).run();
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
  Plan plan = layouts == nullptr
                  ? expand(candidate.words, graph, device)
                  : expand(candidate.words, *layouts, graph, device);
  if (plan.stages.size() + 1 == estimate.stage_starts.size()) {
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      const auto unit = static_cast<size_t>(estimate.stage_starts[i + 1]);
      plan.stages[i].pattern = units.units[unit].stage_pattern;
    }
  }
  set_recompute(plan, step_of(graph), units, estimate.recompute);
  return plan;
}

}  // namespace weft
