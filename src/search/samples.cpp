// SPDX-License-Identifier: Apache-2.0
#include "search/samples.h"

#include "base/error.h"
#include "lower/lower.h"
#include "ops/kernel_memory.h"
#include "plan/plan.h"
#include "search/refusal.h"
#include "search/space.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

namespace weft {
namespace {

int64_t least_divisor(int64_t of) {
  for (int64_t i = 2; i * i <= of; ++i) {
    if (of % i == 0) {
      return i;
    }
  }
  return of;
}

SampleKey without_policy(SampleKey key) {
  key.recompute = RecomputePolicy::None;
  return key;
}

bool asked_together(RecomputePolicy a, RecomputePolicy b) {
  const auto is_between = [](RecomputePolicy policy) {
    return policy != RecomputePolicy::None && policy != RecomputePolicy::Full;
  };
  return a == b || (is_between(a) && is_between(b));
}

size_t core_count() {
  return std::max(std::thread::hardware_concurrency(), 1U);
}

}  // namespace

Samples::Samples(
    const Graph& graph, const StepUnits& units, const Cluster& cluster)
    : graph_(graph),
      units_(units),
      cluster_(cluster),
      rows_(batch_rows(graph)),
      fewest_parts_(least_divisor(rows_)),
      memo_(std::make_shared<LoweringMemo>()) {
  for (const RecomputePolicy policy : kRecomputePolicies) {
    Plan plan;
    set_recompute(plan, step_of(graph), units, policy);
    const auto same =
        std::find_if(again_.begin(), again_.end(), [&](const auto& other) {
          return other.second.recompute == plan.recompute &&
                 other.second.recompute_cheap == plan.recompute_cheap;
        });
    same_policy_[policy] = same == again_.end() ? policy : same->first;
    again_.emplace(policy, std::move(plan));
  }
}

std::vector<UnitCost> Samples::costs(const SampleKey& key) {
  if (rows_ % key.batch_parts != 0) {
    return sample_costs(graph_, units_, key, cluster_);
  }
  Family& family = family_of(key);
  const int64_t rows = rows_ / key.batch_parts;
  if (Between* known = between(family, rows)) {
    if (const Program* program = known->program->at(rows)) {
      return play_sample(*program, *known->shape, units_, key, cluster_);
    }
  }
  if (!family.lowered.contains(rows)) {
    lower_around(key);
  }
  const Lowered& one = family.lowered.at(rows);
  WEFT_CHECK_USER(one.reason.empty(), one.reason);
  return play_sample(one.sized.program, one.shape, units_, key, cluster_);
}

void Samples::expect(const SampleKey& key) {
  expected_.insert(without_policy(key));
}

Samples::Family& Samples::family_of(const SampleKey& key) {
  SampleKey any = key;
  any.batch_parts = 0;
  any.recompute = same_policy_.at(key.recompute);
  return families_[any];
}

Samples::Words& Samples::words_of(const SampleKey& key) {
  return words_[without_policy(key)];
}

Samples::Lowered Samples::lower(const SampleKey& key, Words& words) const {
  const CountedKernels rough;
  Lowered out;
  out.sized.rows = rows_ / key.batch_parts;
  out.reason = refusal_of([&] {
    std::call_once(words.is_expanded, [&] {
      words.plan = expand(weft::words_of(key), graph_, cluster_.device);
    });
    Plan plan = words.plan;
    const Plan& again = again_.at(key.recompute);
    plan.recompute = again.recompute;
    plan.recompute_cheap = again.recompute_cheap;
    out.sized.program = lower_first_rank(graph_, plan, memo_);
    out.shape = sample_shape(out.sized.program, units_);
  });
  return out;
}

// What is not known yet of the key's words and is asked for together: nothing
// recomputed, which every other policy builds on and whose time rules most
// candidates out; then either everything recomputed, whose memory rules them
// out, or all policies between. The first policy is lowered with the most rows,
// too. The others are lowered with the most rows instead, once that has helped
// the first. The largest come first, so that all cores end together: later
// policies recompute more.
std::vector<SampleKey> Samples::unknown_policies(const SampleKey& key) {
  const int64_t rows = rows_ / key.batch_parts;
  const int64_t most_rows = rows_ / fewest_parts_;
  const RecomputePolicy none = kRecomputePolicies[0];
  SampleKey first = key;
  first.recompute = none;
  const RecomputePolicy wanted = same_policy_.at(key.recompute);
  const bool is_of_use = between(family_of(first), rows) != nullptr;
  std::vector<SampleKey> keys;
  for (const RecomputePolicy policy : kRecomputePolicies) {
    if (same_policy_.at(policy) != policy ||
        (policy != none && !asked_together(policy, wanted))) {
      continue;
    }
    SampleKey one = key;
    one.recompute = policy;
    SampleKey most = one;
    most.batch_parts = fewest_parts_;
    Family& family = family_of(one);
    const bool has_most = family.lowered.contains(most_rows);
    if (!family.lowered.contains(rows) && between(family, rows) == nullptr) {
      keys.push_back(is_of_use && !has_most ? most : one);
    }
    if (policy == none && rows < most_rows && !has_most) {
      keys.push_back(most);
    }
  }
  std::reverse(keys.begin(), keys.end());
  return keys;
}

// The key, and what will be asked for next: where it rules out others, the same
// with the sequence split or not. Words of both kinds in turns, for what those
// of one kind have in common only one core can find.
std::vector<SampleKey> Samples::keys_around(const SampleKey& key) {
  // What one has asked for goes by its policy's stand-in.
  SampleKey wanted = key;
  wanted.recompute = same_policy_.at(key.recompute);
  const std::vector<SampleKey> same = unknown_policies(key);
  SampleKey other = key;
  other.sequence = !key.sequence;
  const bool is_next = (wanted.recompute == RecomputePolicy::None ||
                        wanted.recompute == RecomputePolicy::Full) &&
                       expected_.contains(without_policy(other));
  const std::vector<SampleKey> next =
      is_next ? unknown_policies(other) : std::vector<SampleKey>();
  std::vector<SampleKey> keys;
  for (size_t i = 0; i < std::max(same.size(), next.size()); ++i) {
    for (const std::vector<SampleKey>* one : {&same, &next}) {
      if (i < one->size()) {
        keys.push_back((*one)[i]);
      }
    }
  }
  if (std::find(keys.begin(), keys.end(), wanted) == keys.end()) {
    keys.push_back(wanted);
  }
  return keys;
}

// Other numbers of rows, with nothing recomputed, as long as a core would wait
// for others: the smallest micro-batches first, which are asked for first.
void Samples::fill_cores(std::vector<SampleKey>& keys, const SampleKey& key) {
  SampleKey alike = without_policy(key);
  Family& family = family_of(alike);
  for (auto one = expected_.rbegin();
       one != expected_.rend() && keys.size() % core_count() != 0;
       ++one) {
    alike.batch_parts = one->batch_parts;
    const int64_t rows = rows_ / one->batch_parts;
    if (*one == alike && rows_ % one->batch_parts == 0 &&
        !family.lowered.contains(rows) && between(family, rows) == nullptr &&
        std::find(keys.begin(), keys.end(), alike) == keys.end()) {
      keys.push_back(alike);
    }
  }
}

void Samples::lower_around(const SampleKey& key) {
  std::vector<SampleKey> keys = keys_around(key);
  fill_cores(keys, key);
  lower_all(keys);
}

SampleKey Samples::with_most_rows(SampleKey key) const {
  key.batch_parts = fewest_parts_;
  key.recompute = kRecomputePolicies[0];
  return key;
}

std::optional<SampleKey> Samples::largest(const SampleKey& key) {
  const SampleKey most = with_most_rows(key);
  const int64_t rows = rows_ / fewest_parts_;
  if (!family_of(most).lowered.contains(rows)) {
    std::set<SampleKey> keys = {most};
    for (const SampleKey& expected : expected_) {
      const SampleKey other = with_most_rows(expected);
      if (!family_of(other).lowered.contains(rows)) {
        keys.insert(other);
      }
    }
    lower_all({keys.begin(), keys.end()});
  }
  return family_of(most).lowered.at(rows).reason.empty() ? std::optional(most)
                                                         : std::nullopt;
}

// At the same time, on as many cores as there are.
void Samples::lower_all(const std::vector<SampleKey>& keys) {
  std::vector<Words*> words;
  for (const SampleKey& one : keys) {
    words.push_back(&words_of(one));
  }
  std::vector<Lowered> done(keys.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < keys.size(); i = next++) {
      done[i] = lower(keys[i], *words[i]);
    }
  };
  const size_t threads = std::min(core_count(), keys.size());
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < threads; ++i) {
    others.push_back(std::async(std::launch::async, work));
  }
  work();
  for (std::future<void>& other : others) {
    other.get();
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    family_of(keys[i]).lowered[done[i].sized.rows] = std::move(done[i]);
    ++lowered_;
  }
}

// None where it has to be lowered.
Samples::Between* Samples::between(Family& family, int64_t rows) const {
  const auto many = family.lowered.upper_bound(rows);
  if (many == family.lowered.begin() || many == family.lowered.end()) {
    return nullptr;
  }
  const auto few = std::prev(many);
  // The whole batch in one part has no axis to split it.
  if (few->first == rows || many->first == rows_ ||
      !few->second.reason.empty() || !many->second.reason.empty()) {
    return nullptr;
  }
  const auto [at, is_new] =
      family.between.try_emplace({few->first, many->first});
  if (is_new) {
    at->second = {
        ResizableProgram::between(few->second.sized, many->second.sized),
        &few->second.shape};
  }
  return at->second.program ? &at->second : nullptr;
}

}  // namespace weft
