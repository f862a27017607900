// SPDX-License-Identifier: Apache-2.0
// Every candidate is estimated. In the order of their estimates those that a
// program can be made for in reasonable time are lowered and simulated, until
// none that is left can be faster: a rank computes, or its wires are taken, for
// longer than the best takes in all. What is too large for that is taken by its
// estimate.
#include "search/search.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/kernel_memory.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"
#include "profile/text_table.h"
#include "search/estimate.h"
#include "search/nearest.h"
#include "search/trial.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
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
// So much more than there is may turn out to fit.
constexpr double kDoubtful = 1.3;
// A candidate that small is lowered rather than doubted, where what stays from
// step to step fits.
constexpr int64_t kSmallSize = 1000;
constexpr double kAnyTimes = 1000;
// Who computes for so many times what another takes in all is not looked at,
// and who takes that much longer than what is too large to be lowered is not
// lowered.
constexpr double kFarOff = 2;
// Of words that come so near to the best all policies are tried, where they are
// lowered quickly.
constexpr double kNear = 1.05;
// What was not simulated is taken where it is expected to be so much faster
// than all that was: its memory is as uncertain as its time.
constexpr double kWorthADoubt = 0.95;
// Of what others needed, to their estimates at the least, a candidate may need
// so much: no less is hoped for while nothing fits.
constexpr double kHopedFor = 0.8;
// How often the work is set aside anew while nothing that was lowered fits.
constexpr int kMostRounds = 4;
// So many of the best are tried with searched layouts.
constexpr size_t kMostSearched = 3;
// How many fit is shown this often.
constexpr size_t kProgressEvery = 200;

using Clock = std::chrono::steady_clock;

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
        begin_(Clock::now()),
        peak_seconds_(std::async(
            std::launch::async,
            [&] { return seconds_at_peak(step_of(graph), cluster.device); })),
        estimator_(graph, cluster),
        trials_(
            graph,
            cluster,
            options.max_bytes.value_or(cluster.device.memory_bytes),
            options.decisions,
            estimator_) {
    result_.budget_bytes = trials_.budget_bytes();
  }

  SearchResult run() {
    result_.ranks = device_count(cluster_);
    result_.rows = batch_rows(graph_);
    verify(options_.limits, result_.ranks);
    count_tokens();
    result_.peak_seconds = peak_seconds_.get();
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
    const std::vector<Candidate> all =
        candidates(result_.ranks, node, result_.rows, options_.limits);
    WEFT_CHECK_USER(
        !all.empty(),
        why_no_mesh(result_.ranks, node, result_.rows, options_.limits));
    estimator_.expect(all);
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
      is_any = is_any || ((tried.reason.empty() || tried.is_doubtful) &&
                          !is_hopeless(tried));
    }
    sort();
    return is_any;
  }

  // Whether it may be faster than all that were simulated.
  bool can_win(const Candidate& candidate, double least_seconds) const {
    const double share = is_small(candidate) ? kSmallBusyShare : kBusyShare;
    return best_simulated_ < 0 || share * least_seconds < best_simulated_;
  }

  // Whether it needs too much, going by its estimate and by what those needed
  // that were lowered, all in vain.
  bool is_hopeless(const Tried& tried) const {
    return is_in_need_ && best_simulated_ < 0 &&
           kHopedFor * least_memory_share_ *
                   static_cast<double>(total(tried.estimate.memory)) >
               static_cast<double>(result_.budget_bytes);
  }

  // Those that fit or nearly do, by their estimates alike: lowering settles
  // which do. The fastest first.
  std::vector<Tried*> in_order() {
    std::vector<Tried*> out;
    for (Tried& tried : result_.tried) {
      if (tried.reason.empty() || tried.is_doubtful) {
        out.push_back(&tried);
      }
    }
    if (!is_in_need_) {
      std::stable_sort(
          out.begin(), out.end(), [&](const Tried* a, const Tried* b) {
            return is_far_over(*a) != is_far_over(*b)
                       ? is_far_over(*b)
                       : a->seconds() < b->seconds();
          });
    }
    return out;
  }

  // What the fastest takes that can only be taken by its estimate; infinite
  // where none can.
  double seconds_by_estimate() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Tried& tried : result_.tried) {
      if (tried.reason.empty() &&
          size_of(tried.candidate) > options_.most_instructions) {
        least = std::min(least, tried.estimate.step_seconds);
      }
    }
    return least;
  }

  void simulate_in_order() {
    const double enough = kFarOff * seconds_by_estimate();
    for (Tried* tried : in_order()) {
      if (tried->estimate.step_seconds > enough &&
          !is_small(tried->candidate)) {
        continue;
      }
      const double least =
          std::max(tried->estimate.busy_seconds, tried->estimate.wire_seconds);
      if (tried->simulated_seconds || !can_win(tried->candidate, least) ||
          is_hopeless(*tried)) {
        continue;
      }
      if (size_of(tried->candidate) > left_ || is_out_of_time()) {
        result_.is_proved = false;
        continue;
      }
      simulate_one(*tried);
    }
  }

  void simulate_one(Tried& tried) {
    left_ -= size_of(tried.candidate);
    try_out(tried);
    if (tried.simulated_bytes) {
      least_memory_share_ = std::min(
          least_memory_share_,
          static_cast<double>(*tried.simulated_bytes) /
              static_cast<double>(total(tried.estimate.memory)));
    }
    if (tried.reason.empty() && tried.simulated_seconds &&
        (best_simulated_ < 0 || *tried.simulated_seconds < best_simulated_)) {
      best_simulated_ = *tried.simulated_seconds;
    }
    if (!tried.reason.empty()) {
      reopen(tried.candidate.words);
    }
  }

  void try_out(Tried& tried) {
    say(cat("simulating ", print(tried.candidate)));
    ++result_.simulated;
    tried.is_doubtful = false;
    trials_.run(tried, is_small(tried.candidate));
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

  void finish() {
    result_.samples = estimator_.samples();
    result_.lowered_samples = estimator_.lowered();
    if (!result_.tried.empty() && result_.tried.front().reason.empty()) {
      result_.plan = trials_.plan_for(result_.tried.front());
      verify(*result_.plan, graph_);
    }
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  const Clock::time_point begin_;
  std::future<double> peak_seconds_;
  Estimator estimator_;
  Trials trials_;
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
  // What may still be lowered and simulated.
  int64_t left_ = 0;
  // The least so far; -1: none.
  double best_simulated_ = -1;
  // Candidates came back that were not looked at before.
  bool has_more_ = false;
  // Nothing that was lowered fits.
  bool is_in_need_ = false;
  // Of what was lowered, what a rank needs to what was estimated, the least.
  double least_memory_share_ = 1;
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
