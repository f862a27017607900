// SPDX-License-Identifier: Apache-2.0
// Time and memory of a stage grow with every unit. So for a limit of time,
// filling one stage after the other as far as time and memory allow finds a cut
// if there is one; and the least limit is found by halving.
#include "search/cut.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {
namespace {

constexpr int kHalvings = 30;
// Where halving ends: the slowest stage is that near to the fastest it can be.
constexpr double kNearEnough = 5e-4;

class Cutting {
 public:
  Cutting(
      const Candidate& candidate,
      const StageCosts& costs,
      const Cuts& cuts,
      int64_t budget)
      : words_(candidate.words),
        candidate_(candidate),
        costs_(costs),
        base_(costs.base()),
        cuts_(cuts),
        budget_(budget),
        units_(cuts.units()),
        stages_(stage_count(candidate.words)) {}

  std::optional<std::vector<Stage>> run() const {
    return stages_ == words_.pipeline ? best_cut() : even_cut();
  }

 private:
  // The stage with as few units made again whole as fit; none when nothing
  // does.
  std::optional<Stage> fitting(
      int32_t begin, int32_t end, int64_t number) const {
    Stage stage = costs_.stage(begin, end, 0, number);
    if (total(stage.memory) <= budget_) {
      return stage;
    }
    if (!candidate_.may_mix) {
      return std::nullopt;
    }
    stage = costs_.stage(begin, end, end - begin, number);
    if (total(stage.memory) > budget_) {
      return std::nullopt;
    }
    int32_t low = 0;
    int32_t high = end - begin;
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      const Stage now = costs_.stage(begin, end, middle, number);
      if (total(now.memory) <= budget_) {
        high = middle;
        stage = now;
      } else {
        low = middle;
      }
    }
    return stage;
  }

  // Where a stage ends at the latest that so many follow.
  int32_t latest_end(int64_t following) const {
    return cuts_
        .places[cuts_.places.size() - 1 - static_cast<size_t>(following)];
  }

  // The last place at which a stage may end, from `begin` on and no later than
  // `end`; -1: none.
  int32_t last_cut(int32_t begin, int32_t end) const {
    const int32_t cut = cuts_.at_or_before[static_cast<size_t>(end)];
    return cut > begin ? cut : -1;
  }

  // The longest stage from `begin` on that takes no longer than the limit; time
  // and memory grow with every unit.
  std::optional<Stage> longest(
      int32_t begin, int32_t most, int64_t number, double limit) const {
    // What is made again only adds to this.
    const std::vector<double>& seconds = base_.before_seconds;
    const auto beyond = std::upper_bound(
        seconds.begin() + begin + 1,
        seconds.begin() + most + 1,
        seconds[static_cast<size_t>(begin)] + limit);
    most = last_cut(begin, static_cast<int32_t>(beyond - seconds.begin()) - 1);
    std::optional<Stage> best;
    if (most < 0) {
      return best;
    }
    best = fitting(begin, most, number);
    if (best && best->seconds() <= limit) {
      return best;
    }
    best.reset();
    int32_t low = begin;
    int32_t high = most;
    while (high - low > 1) {
      const int32_t end = last_cut(low, (low + high) / 2);
      if (end < 0) {
        low = (low + high) / 2;
        continue;
      }
      const std::optional<Stage> now = fitting(begin, end, number);
      if (now && now->seconds() <= limit) {
        best = now;
        low = (low + high) / 2;
      } else {
        high = end;
      }
    }
    return best;
  }

  std::optional<std::vector<Stage>> fill(double limit) const {
    std::vector<Stage> out;
    int32_t begin = 0;
    for (int64_t number = 0; number < stages_; ++number) {
      const int64_t left = stages_ - number - 1;
      const std::optional<Stage> best =
          left > 0 ? longest(begin, latest_end(left), number, limit)
                   : fitting(begin, units_, number);
      if (!best || best->seconds() > limit) {
        return std::nullopt;
      }
      begin = best->end;
      out.push_back(*best);
    }
    return out;
  }

  std::optional<std::vector<Stage>> best_cut() const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    std::optional<std::vector<Stage>> best = fill(kAny);
    if (!best || stages_ == 1) {
      return best;
    }
    double high = slowest(*best);
    double low = std::max(
        base_.slowest_seconds,
        base_.before_seconds.back() / static_cast<double>(stages_));
    // Where memory leaves them free, stages that each take a unit more than
    // their share are a cut.
    const double enough = low + base_.slowest_seconds;
    for (int i = 0; i < kHalvings && high - low > kNearEnough * high; ++i) {
      const double middle = i == 0 && enough < high ? enough : (low + high) / 2;
      std::optional<std::vector<Stage>> now = fill(middle);
      if (now) {
        high = slowest(*now);
        best = std::move(now);
      } else {
        low = middle;
      }
    }
    return best;
  }

  static double slowest(const std::vector<Stage>& stages) {
    double seconds = 0;
    for (const Stage& stage : stages) {
      seconds = std::max(seconds, stage.seconds());
    }
    return seconds;
  }

  // Of the places where a stage from `begin` on may end, up to `most`, which is
  // one of them, the one that has nearest to so many seconds before it.
  int32_t nearest_cut(int32_t begin, int32_t most, double wanted) const {
    const std::vector<double>& seconds = base_.before_seconds;
    const auto at = static_cast<int32_t>(
        std::lower_bound(
            seconds.begin() + begin + 1, seconds.begin() + most, wanted) -
        seconds.begin());
    const int32_t below = last_cut(begin, at - 1);
    int32_t above = at;
    while (last_cut(above - 1, above) < 0) {
      ++above;
    }
    const auto off = [&](int32_t end) {
      return std::abs(seconds[static_cast<size_t>(end)] - wanted);
    };
    return below < 0 || off(above) < off(below) ? above : below;
  }

  // By time alone; then of every position as few units are made again whole as
  // its memory asks for.
  std::optional<std::vector<Stage>> even_cut() const {
    const double share =
        base_.before_seconds.back() / static_cast<double>(stages_);
    std::vector<Stage> out;
    int32_t begin = 0;
    for (int64_t number = 0; number < stages_; ++number) {
      const int64_t left = stages_ - number - 1;
      const int32_t end = left == 0
                              ? units_
                              : nearest_cut(
                                    begin,
                                    latest_end(left),
                                    share * static_cast<double>(number + 1));
      out.push_back(costs_.stage(begin, end, 0, number));
      begin = end;
    }
    for (int64_t position = 0; position < words_.pipeline; ++position) {
      if (!make_fit(out, position)) {
        return std::nullopt;
      }
    }
    return out;
  }

  // As many units of each of the position's stages, whose memory is that of all
  // of them. False when nothing fits.
  bool make_fit(std::vector<Stage>& stages, int64_t position) const {
    const auto first = static_cast<size_t>(position);
    const auto step = static_cast<size_t>(words_.pipeline);
    const auto fits_with = [&](int32_t whole) {
      MemoryParts all;
      for (size_t i = first; i < stages.size(); i += step) {
        Stage& stage = stages[i];
        stage = costs_.stage(
            stage.begin,
            stage.end,
            std::min(whole, stage.end - stage.begin),
            static_cast<int64_t>(i));
        add_stage(all, stage.memory);
      }
      for (size_t i = first; i < stages.size(); i += step) {
        stages[i].memory = all;
      }
      return total(all) <= budget_;
    };
    if (fits_with(0)) {
      return true;
    }
    int32_t low = 0;
    int32_t high = 0;
    for (size_t i = first; i < stages.size(); i += step) {
      high = std::max(high, stages[i].end - stages[i].begin);
    }
    if (!candidate_.may_mix || !fits_with(high)) {
      return false;
    }
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      (fits_with(middle) ? high : low) = middle;
    }
    return fits_with(high);
  }

  const Parallel& words_;
  const Candidate& candidate_;
  const StageCosts& costs_;
  const UnitTable& base_;
  const Cuts& cuts_;
  const int64_t budget_;
  const int32_t units_;
  const int64_t stages_;
};

}  // namespace

Cuts cuts_of(const StepUnits& units) {
  Cuts cuts;
  cuts.at_or_before.push_back(0);
  for (int32_t i = 1; i <= units.size(); ++i) {
    if (i == units.size() ||
        !units.units[static_cast<size_t>(i)].stage_pattern.empty()) {
      cuts.places.push_back(i);
    }
    cuts.at_or_before.push_back(cuts.places.empty() ? 0 : cuts.places.back());
  }
  return cuts;
}

std::optional<std::vector<Stage>> cut_stages(
    const Candidate& candidate,
    const StageCosts& costs,
    const Cuts& cuts,
    int64_t budget_bytes) {
  return Cutting(candidate, costs, cuts, budget_bytes).run();
}

}  // namespace weft
