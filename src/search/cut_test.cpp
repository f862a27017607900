// SPDX-License-Identifier: Apache-2.0
#include "search/cut.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace weft {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// Units of random costs: made again whole, one takes longer and keeps less.
struct Chain {
  Candidate candidate;
  UnitTable base;
  UnitTable whole;
  Cuts cuts;
  int64_t budget_bytes = 0;
};

int64_t one_of(std::mt19937& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

Chain random_chain(std::mt19937& random) {
  const auto units = static_cast<int32_t>(one_of(random, 3, 9));
  std::vector<UnitCost> base;
  std::vector<UnitCost> whole;
  std::vector<int32_t> stands_for;
  StepUnits step;
  for (int32_t i = 0; i < units; ++i) {
    UnitCost cost;
    cost.forward_seconds = static_cast<double>(one_of(random, 1, 40));
    cost.backward_seconds = 2 * cost.forward_seconds;
    cost.kept_bytes = one_of(random, 20, 100);
    cost.parameter_bytes = one_of(random, 0, 50);
    base.push_back(cost);
    cost.backward_seconds += cost.forward_seconds;
    cost.kept_bytes = one_of(random, 1, 15);
    whole.push_back(cost);
    stands_for.push_back(i);
    StepUnit unit;
    unit.stage_pattern = one_of(random, 0, 4) == 0 ? "" : "here";
    step.units.push_back(unit);
  }
  Chain chain;
  chain.base = unit_table(base, stands_for);
  chain.whole = unit_table(whole, stands_for);
  chain.cuts = cuts_of(step);
  chain.candidate.words.pipeline =
      std::min(one_of(random, 1, 4), chain.cuts.most_stages());
  chain.candidate.words.micro_batches = one_of(random, 1, 4);
  chain.candidate.words.schedule = "1f1b";
  chain.candidate.may_mix = one_of(random, 0, 3) > 0;
  chain.budget_bytes = one_of(random, 50, 700);
  return chain;
}

// Every count in turn.
double least_seconds_of_stage(
    const Chain& chain, int32_t begin, int32_t end, int64_t number) {
  const StageCosts costs(chain.candidate, chain.base, chain.whole);
  const int32_t most = chain.candidate.may_mix ? end - begin : 0;
  for (int32_t whole = 0; whole <= most; ++whole) {
    const Stage stage = costs.stage(begin, end, whole, number);
    if (total(stage.memory) <= chain.budget_bytes) {
      return stage.seconds();
    }
  }
  return kNone;
}

// Every cut of the units from `begin` on into the stages from `number` on.
double least_of_all(const Chain& chain, int32_t begin, int64_t number) {
  const int32_t units = chain.cuts.units();
  if (number + 1 == chain.candidate.words.pipeline) {
    return least_seconds_of_stage(chain, begin, units, number);
  }
  double least = kNone;
  for (const int32_t end : chain.cuts.places) {
    if (end > begin && end < units) {
      least = std::min(
          least,
          std::max(
              least_seconds_of_stage(chain, begin, end, number),
              least_of_all(chain, end, number + 1)));
    }
  }
  return least;
}

TEST(Cut, IsTheBestOfAll) {
  std::mt19937 random(7);
  int cut = 0;
  int mixed = 0;
  for (int i = 0; i < 2000; ++i) {
    const Chain chain = random_chain(random);
    const double least = least_of_all(chain, 0, 0);
    const StageCosts costs(chain.candidate, chain.base, chain.whole);
    const std::optional<std::vector<Stage>> found =
        cut_stages(chain.candidate, costs, chain.cuts, chain.budget_bytes);
    ASSERT_EQ(found.has_value(), least < kNone) << i;
    if (!found) {
      continue;
    }
    ++cut;
    double slowest = 0;
    int32_t begin = 0;
    for (const Stage& stage : *found) {
      EXPECT_EQ(stage.begin, begin) << i;
      EXPECT_LE(total(stage.memory), chain.budget_bytes) << i;
      begin = stage.end;
      slowest = std::max(slowest, stage.seconds());
      mixed +=
          stage.whole_again > 0 && stage.whole_again < stage.end - stage.begin;
    }
    EXPECT_EQ(begin, chain.cuts.units()) << i;
    // Halving ends that near to it.
    EXPECT_LE(slowest, least * 1.0005) << i;
  }
  EXPECT_GT(cut, 500);
  EXPECT_GT(mixed, 200);
}

}  // namespace
}  // namespace weft
