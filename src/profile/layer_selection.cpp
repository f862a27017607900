// SPDX-License-Identifier: Apache-2.0
#include "profile/layer_selection.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weft {
namespace {

// What crosses the boundaries of all copies of a run.
struct Seams {
  int64_t bytes = 0;
  int64_t levels = 0;

  auto operator<=>(const Seams&) const = default;
};

struct Candidate {
  LayerRun run;
  Seams seams;
};

// What a choice of disjoint runs is worth, the weightiest reason first; larger
// is better.
struct Worth {
  int64_t covered = 0;
  int64_t fewer_runs = 0;
  int64_t copies = 0;
  int64_t fewer_bytes = 0;
  int64_t fewer_levels = 0;

  auto operator<=>(const Worth&) const = default;
};

Worth operator+(const Worth& worth, const Candidate& candidate) {
  const LayerRun& run = candidate.run;
  return {
      worth.covered + run.end() - run.begin,
      worth.fewer_runs - 1,
      worth.copies + run.count,
      worth.fewer_bytes - candidate.seams.bytes,
      worth.fewer_levels - candidate.seams.levels,
  };
}

template <typename Number>
std::vector<int64_t> prefix_sums(const std::vector<Number>& numbers) {
  std::vector<int64_t> sums(numbers.size() + 1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    sums[i + 1] = sums[i] + static_cast<int64_t>(numbers[i]);
  }
  return sums;
}

class Selector {
 public:
  Selector(const std::vector<Stretch>& stretches, const LayerSigns& signs)
      : stretches_(stretches),
        signs_(signs),
        parameter_reads_(prefix_sums(signs.reads_parameter)),
        flops_(prefix_sums(signs.flops)) {}

  std::vector<LayerRun> run() {
    select(0, static_cast<int32_t>(signs_.flops.size()), -1);
    return std::move(selected_);
  }

 private:
  void select(int32_t begin, int32_t end, int32_t parent) {
    for (LayerRun run : best_disjoint(candidates(begin, end))) {
      run.parent = parent;
      const auto here = static_cast<int32_t>(selected_.size());
      selected_.push_back(run);
      select(run.begin, run.begin + run.period, here);
    }
  }

  std::vector<Candidate> candidates(int32_t begin, int32_t end) const {
    std::vector<Candidate> found;
    for (Stretch each : stretches_) {
      each.begin = std::max(each.begin, begin);
      each.end = std::min(each.end, end);
      if (each.end - each.begin >= 2 * each.period && is_layer(each)) {
        add_candidates(each, found);
      }
    }
    return found;
  }

  // The best place for the copies, and others in case that a neighbour covers
  // more by laying claim to it.
  void add_candidates(
      const Stretch& each, std::vector<Candidate>& found) const {
    const int32_t last_begin = each.end - each.count() * each.period;
    Candidate best = at(each.begin, each.period, each.count());
    const Candidate leftmost = best;
    Candidate rightmost = best;
    for (int32_t begin = each.begin + 1; begin <= last_begin; ++begin) {
      rightmost = at(begin, each.period, each.count());
      best = rightmost.seams < best.seams ? rightmost : best;
    }
    found.insert(found.end(), {best, leftmost, rightmost});
    if (best.run.count > 2) {
      const LayerRun& run = best.run;
      found.push_back(at(run.begin + run.period, run.period, run.count - 1));
      found.push_back(at(run.begin, run.period, run.count - 1));
    }
  }

  bool is_layer(const Stretch& each) const {
    const auto begin = static_cast<size_t>(each.begin);
    const size_t end = begin + static_cast<size_t>(each.period);
    return parameter_reads_[end] > parameter_reads_[begin] &&
           flops_[end] > flops_[begin];
  }

  Candidate at(int32_t begin, int32_t period, int32_t count) const {
    Candidate made{{begin, period, count}, {}};
    for (int32_t i = begin; i <= made.run.end(); i += period) {
      made.seams.bytes += signs_.crossing_bytes[static_cast<size_t>(i)];
      made.seams.levels += signs_.shared_levels[static_cast<size_t>(i)];
    }
    return made;
  }

  // Weighted interval scheduling.
  static std::vector<LayerRun> best_disjoint(std::vector<Candidate> all) {
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.run.end(), a.run.begin, a.run.period) <
             std::tuple(b.run.end(), b.run.begin, b.run.period);
    });
    // best[i]: of the first i. before[i]: how many of them end where the i-th
    // begins, or earlier.
    std::vector<Worth> best(all.size() + 1);
    std::vector<size_t> before;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto first_after = std::upper_bound(
          all.begin(),
          all.begin() + static_cast<std::ptrdiff_t>(i),
          all[i].run.begin,
          [](int32_t begin, const auto& each) {
            return begin < each.run.end();
          });
      before.push_back(static_cast<size_t>(first_after - all.begin()));
      best[i + 1] = std::max(best[i], best[before[i]] + all[i]);
    }
    std::vector<LayerRun> chosen;
    for (size_t i = all.size(); i > 0;) {
      if (best[i] == best[i - 1]) {
        --i;
      } else {
        chosen.push_back(all[i - 1].run);
        i = before[i - 1];
      }
    }
    std::reverse(chosen.begin(), chosen.end());
    return chosen;
  }

  const std::vector<Stretch>& stretches_;
  const LayerSigns& signs_;
  // Up to each node.
  std::vector<int64_t> parameter_reads_;
  std::vector<int64_t> flops_;
  std::vector<LayerRun> selected_;
};

}  // namespace

std::vector<LayerRun> select_layers(
    const std::vector<Stretch>& stretches, const LayerSigns& signs) {
  return Selector(stretches, signs).run();
}

}  // namespace weft
