// SPDX-License-Identifier: Apache-2.0
// Time and memory of a stage grow with every unit, and an earlier stage needs
// no less memory for the same units. So for a limit of time, filling one stage
// after the other as far as time and memory allow, the last one first, finds a
// cut if there is one; and the least limit is found by halving. Where weights
// wait, later stages may need more: then a cut may be missed that has hardly
// more units than stages.
#include "search/cut.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {
namespace {

constexpr int kHalvings = 30;
// Where halving ends: the slowest stage is that near to the fastest it can be.
constexpr double kNearEnough = 5e-4;

// The least count above 0 whose bytes fit: of 0 they do not, of `high` they do,
// as those of both say. Bytes fall with the count, nearly along a line, which
// is followed before the rest is halved.
template <typename BytesOf>
int32_t least_that_fits(
    int64_t low_bytes,
    int32_t high,
    int64_t high_bytes,
    int64_t budget,
    const BytesOf& bytes_of) {
  constexpr int kFollowed = 4;
  int32_t low = 0;
  for (int i = 0; high - low > 1; ++i) {
    const double share = static_cast<double>(low_bytes - budget) /
                         static_cast<double>(low_bytes - high_bytes);
    const auto along = static_cast<int32_t>(std::ceil(share * (high - low)));
    const int32_t middle = i < kFollowed
                               ? std::clamp(low + along, low + 1, high - 1)
                               : (low + high) / 2;
    const int64_t bytes = bytes_of(middle);
    if (bytes <= budget) {
      high = middle;
      high_bytes = bytes;
    } else {
      low = middle;
      low_bytes = bytes;
    }
  }
  return high;
}

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
        budget_(budget),
        stages_(static_cast<size_t>(stage_count(candidate.words))) {
    bounds_.push_back(0);
    bounds_.insert(bounds_.end(), cuts.places.begin(), cuts.places.end());
    for (const int32_t unit : bounds_) {
      seconds_.push_back(base_.before_seconds[static_cast<size_t>(unit)]);
    }
  }

  std::optional<std::vector<Stage>> run() const {
    return static_cast<int64_t>(stages_) == words_.pipeline ? best_cut()
                                                            : even_cut();
  }

 private:
  Stage stage(size_t begin, size_t end, int32_t whole, size_t number) const {
    return costs_.stage(
        bounds_[begin], bounds_[end], whole, static_cast<int64_t>(number));
  }

  // The stage between two bounds with as few units made again whole as fit;
  // none when nothing does.
  std::optional<Stage> fitting(size_t begin, size_t end, size_t number) const {
    Stage out = stage(begin, end, 0, number);
    if (total(out.memory) <= budget_) {
      return out;
    }
    if (!candidate_.may_mix) {
      return std::nullopt;
    }
    const auto bytes_with = [&](int32_t whole) {
      return total(stage(begin, end, whole, number).memory);
    };
    const int32_t units = bounds_[end] - bounds_[begin];
    const int64_t least = bytes_with(units);
    if (least > budget_) {
      return std::nullopt;
    }
    return stage(
        begin,
        end,
        least_that_fits(total(out.memory), units, least, budget_, bytes_with),
        number);
  }

  // Where the longest stage begins that ends at `end` and takes no longer than
  // the limit: at `earliest` or later, and at `latest` or earlier, which is
  // known to do if it is before `end`. At `end`: nowhere.
  size_t begin_of_longest(
      size_t earliest,
      size_t latest,
      size_t end,
      size_t number,
      double limit) const {
    const auto is_within = [&](size_t begin) {
      const std::optional<Stage> found = fitting(begin, end, number);
      return found && found->seconds() <= limit;
    };
    // What is made again only adds to this.
    const auto first = std::partition_point(
        seconds_.begin() + static_cast<std::ptrdiff_t>(earliest),
        seconds_.begin() + static_cast<std::ptrdiff_t>(end),
        [&](double before) { return seconds_[end] - before > limit; });
    auto low = static_cast<size_t>(first - seconds_.begin());
    size_t high = std::min(latest, end);
    if (low >= high || is_within(low)) {
      return std::min(low, high);
    }
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (is_within(middle) ? high : low) = middle;
    }
    return high;
  }

  // Where stages begin, the last one first: each as long as may be within the
  // limit, up to one that there is nothing for. `less` and `more` are what
  // smaller and larger limits gave: stages begin between where theirs do.
  std::vector<size_t> fill(
      double limit,
      const std::vector<size_t>& less,
      const std::vector<size_t>& more) const {
    std::vector<size_t> begins;
    size_t end = bounds_.size() - 1;
    for (size_t i = 0; i < stages_; ++i) {
      // As many stages lie before it, each of which has something.
      const size_t number = stages_ - 1 - i;
      const bool is_first = number == 0;
      const size_t begin = begin_of_longest(
          i < more.size() ? more[i] : number,
          i < less.size() ? less[i] : end,
          end,
          number,
          limit);
      if (begin == end || (is_first && begin != 0)) {
        break;
      }
      begins.push_back(begin);
      end = begin;
    }
    return begins;
  }

  std::vector<Stage> stages_from(const std::vector<size_t>& begins) const {
    std::vector<Stage> out;
    for (size_t number = 0; number < stages_; ++number) {
      const size_t i = stages_ - 1 - number;
      const size_t end = i == 0 ? bounds_.size() - 1 : begins[i - 1];
      out.push_back(*fitting(begins[i], end, number));
    }
    return out;
  }

  std::optional<std::vector<Stage>> best_cut() const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    std::vector<size_t> begins = fill(kAny, {}, {});
    if (begins.size() < stages_) {
      return std::nullopt;
    }
    std::vector<Stage> best = stages_from(begins);
    std::vector<size_t> less;
    double high = slowest(best);
    double low = std::max(
        base_.slowest_seconds,
        base_.before_seconds.back() / static_cast<double>(stages_));
    // Where memory leaves them free, stages that each take a unit more than
    // their share are a cut.
    const double enough = low + base_.slowest_seconds;
    for (int i = 0;
         stages_ > 1 && i < kHalvings && high - low > kNearEnough * high;
         ++i) {
      const double middle = i == 0 && enough < high ? enough : (low + high) / 2;
      std::vector<size_t> now = fill(middle, less, begins);
      if (now.size() == stages_) {
        best = stages_from(now);
        high = slowest(best);
        begins = std::move(now);
      } else {
        low = middle;
        less = std::move(now);
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

  // By time alone; then of every position as few units are made again whole as
  // its memory asks for.
  std::optional<std::vector<Stage>> even_cut() const {
    const double share = seconds_.back() / static_cast<double>(stages_);
    std::vector<Stage> out;
    size_t begin = 0;
    for (size_t number = 0; number < stages_; ++number) {
      const size_t latest = bounds_.size() - (stages_ - number);
      const size_t end =
          number + 1 == stages_
              ? latest
              : nearest_bound(
                    begin, latest, share * static_cast<double>(number + 1));
      out.push_back(stage(begin, end, 0, number));
      begin = end;
    }
    for (int64_t position = 0; position < words_.pipeline; ++position) {
      if (!make_fit(out, position)) {
        return std::nullopt;
      }
    }
    return out;
  }

  // Behind `begin` and up to `latest`, the one that has nearest to so many
  // seconds before it.
  size_t nearest_bound(size_t begin, size_t latest, double wanted) const {
    const auto first =
        seconds_.begin() + static_cast<std::ptrdiff_t>(begin) + 1;
    const auto last = seconds_.begin() + static_cast<std::ptrdiff_t>(latest);
    auto found = std::lower_bound(first, last, wanted);
    if (found != first && wanted - *(found - 1) <= *found - wanted) {
      --found;
    }
    return static_cast<size_t>(found - seconds_.begin());
  }

  // As many units of each of the position's stages, whose memory is that of all
  // of them. False when nothing fits.
  bool make_fit(std::vector<Stage>& stages, int64_t position) const {
    const auto first = static_cast<size_t>(position);
    const auto step = static_cast<size_t>(words_.pipeline);
    const auto bytes_with = [&](int32_t whole) {
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
      return total(all);
    };
    const int64_t most = bytes_with(0);
    if (most <= budget_) {
      return true;
    }
    int32_t high = 0;
    for (size_t i = first; i < stages.size(); i += step) {
      high = std::max(high, stages[i].end - stages[i].begin);
    }
    if (!candidate_.may_mix) {
      return false;
    }
    const int64_t least = bytes_with(high);
    if (least > budget_) {
      return false;
    }
    // The stages are left as what was asked for last.
    bytes_with(least_that_fits(most, high, least, budget_, bytes_with));
    return true;
  }

  const Parallel& words_;
  const Candidate& candidate_;
  const StageCosts& costs_;
  const UnitTable& base_;
  const int64_t budget_;
  const size_t stages_;
  // Stages begin and end at these units; and what the units before each take.
  std::vector<int32_t> bounds_;
  std::vector<double> seconds_;
};

}  // namespace

Cuts cuts_of(const StepUnits& units) {
  Cuts cuts;
  for (int32_t i = 1; i <= units.size(); ++i) {
    if (i == units.size() ||
        !units.units[static_cast<size_t>(i)].stage_pattern.empty()) {
      cuts.places.push_back(i);
    }
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
