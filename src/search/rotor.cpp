// SPDX-License-Identifier: Apache-2.0
// Going through the chain from its start, a run of units is either kept or made
// again together from what was kept before it. The state is how many slots are
// taken by what is kept; beside them there must be room for the longest run.
// That room is one of the lengths of runs, each tried in turn.
#include "search/rotor.h"

#include "base/error.h"

#include <algorithm>
#include <limits>
#include <set>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Chain {
 public:
  Chain(const std::vector<ChainUnit>& units, int64_t budget, int64_t slots)
      : units_(units),
        slots_(std::max<int64_t>(slots, 1)),
        slot_bytes_(std::max<int64_t>((budget + slots_ - 1) / slots_, 1)),
        limit_(budget / slot_bytes_) {}

  std::optional<ChainChoice> run() {
    std::optional<ChainChoice> best;
    for (const int64_t room : rooms()) {
      if (room > limit_) {
        break;
      }
      std::optional<ChainChoice> now = with_room(room);
      if (now && (!best || now->extra_seconds < best->extra_seconds)) {
        best = std::move(now);
      }
    }
    return best;
  }

 private:
  int64_t in_slots(int64_t bytes) const {
    return (bytes + slot_bytes_ - 1) / slot_bytes_;
  }

  // What a run takes while it is made again; its last output is kept anyway.
  int64_t run_bytes(size_t begin, size_t end) const {
    int64_t bytes = 0;
    for (size_t i = begin; i < end; ++i) {
      bytes += units_[i].kept_bytes;
    }
    return bytes - units_[end - 1].output_bytes;
  }

  std::set<int64_t> rooms() const {
    std::set<int64_t> out = {0};
    for (size_t begin = 0; begin < units_.size(); ++begin) {
      for (size_t end = begin + 1; end <= units_.size(); ++end) {
        out.insert(in_slots(run_bytes(begin, end)));
      }
    }
    return out;
  }

  // How a unit or run that ends here was come by.
  struct From {
    size_t begin = 0;
    int64_t used = 0;
    bool is_again = false;
  };

  std::optional<ChainChoice> with_room(int64_t room) const {
    const size_t count = units_.size();
    const auto most = static_cast<size_t>(limit_ - room);
    // least[i][m]: seconds for the first i units with m slots kept.
    std::vector<std::vector<double>> least(
        count + 1, std::vector<double>(most + 1, kNever));
    std::vector<std::vector<From>> from(count + 1, std::vector<From>(most + 1));
    least[0][0] = 0;
    for (size_t begin = 0; begin < count; ++begin) {
      for (size_t used = 0; used <= most; ++used) {
        if (least[begin][used] == kNever) {
          continue;
        }
        const auto go =
            [&](size_t end, int64_t bytes, double more, bool again) {
              const size_t now = used + static_cast<size_t>(in_slots(bytes));
              const double seconds = least[begin][used] + more;
              if (now <= most && seconds < least[end][now]) {
                least[end][now] = seconds;
                from[end][now] = {begin, static_cast<int64_t>(used), again};
              }
            };
        go(begin + 1, units_[begin].kept_bytes, 0, false);
        double seconds = 0;
        for (size_t end = begin + 1; end <= count; ++end) {
          seconds += units_[end - 1].forward_seconds;
          if (in_slots(run_bytes(begin, end)) > room) {
            break;
          }
          go(end, units_[end - 1].output_bytes, seconds, true);
        }
      }
    }
    const auto found =
        std::min_element(least[count].begin(), least[count].end());
    if (*found == kNever) {
      return std::nullopt;
    }
    return choice(
        from, static_cast<int64_t>(found - least[count].begin()), *found);
  }

  ChainChoice choice(
      const std::vector<std::vector<From>>& from,
      int64_t used,
      double seconds) const {
    ChainChoice out;
    out.is_again.resize(units_.size());
    out.keeps_output.resize(units_.size(), true);
    out.extra_seconds = seconds;
    int64_t kept = 0;
    int64_t longest = 0;
    for (size_t end = units_.size(); end > 0;) {
      const From& step = from[end][static_cast<size_t>(used)];
      for (size_t i = step.begin; i < end; ++i) {
        out.is_again[i] = step.is_again;
        out.keeps_output[i] = !step.is_again || i + 1 == end;
      }
      if (step.is_again) {
        kept += units_[end - 1].output_bytes;
        longest = std::max(longest, run_bytes(step.begin, end));
      } else {
        kept += units_[end - 1].kept_bytes;
      }
      used = step.used;
      end = step.begin;
    }
    out.peak_bytes = kept + longest;
    return out;
  }

  const std::vector<ChainUnit>& units_;
  const int64_t slots_;
  const int64_t slot_bytes_;
  const int64_t limit_;
};

}  // namespace

std::optional<ChainChoice> rotor(
    const std::vector<ChainUnit>& chain, int64_t budget_bytes, int64_t slots) {
  if (budget_bytes < 0) {
    return std::nullopt;
  }
  return Chain(chain, budget_bytes, slots).run();
}

}  // namespace weft
