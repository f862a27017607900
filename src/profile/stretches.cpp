// SPDX-License-Identifier: Apache-2.0
// Equal symbols are necessary for equal layers, and cheap to find (see
// repetitions.h); here the operands are compared one by one.
#include "profile/repetitions.h"
#include "profile/structure.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weft {
namespace {

// Layers with equal symbols may still differ in turn: five that read one mask,
// then one that reads another. So multiples of the period are tried too.
constexpr int32_t kLargestTurn = 8;

// What comparing node i with node i + period says.
struct Comparison {
  bool equal = true;
  // Values that node i + period takes from the copy before it, and what node i
  // takes in their place. The first copy then begins at `earliest` or later
  // and at `latest` or earlier.
  std::vector<std::pair<ValueId, ValueId>> entries;
  int32_t earliest = 0;
  int32_t latest = INT32_MAX;
};

bool reads_alike(
    const ForwardOperand& a, const ForwardOperand& b, int32_t period) {
  const auto is_first = [&](const ForwardOperand& operand) {
    return operand.read_ago == 0 || operand.read_ago >= period;
  };
  return a.read_ago == b.read_ago || (is_first(a) && is_first(b));
}

void compare(
    const ForwardOperand& a,
    const ForwardOperand& b,
    int32_t period,
    Comparison& result) {
  using Source = ForwardOperand::Source;
  const bool is_same_view = a.view == b.view;
  if (a.base == b.base && is_same_view) {
    return;
  }
  if (b.source != Source::Node) {
    const bool alike = b.source == Source::Parameter ? reads_alike(a, b, period)
                                                     : b.source == Source::Own;
    result.equal =
        result.equal && a.source == b.source && alike && is_same_view;
    return;
  }
  const int32_t mirrored = b.maker - period;
  if (a.source == Source::Node && a.maker == mirrored) {
    result.equal = result.equal && a.result == b.result && is_same_view;
    return;
  }
  // Equal if `a` comes from before the first copy and `b` from inside it.
  result.entries.emplace_back(b.value, a.value);
  result.earliest = std::max({result.earliest, mirrored + 1, a.maker + 1});
  result.latest = std::min(result.latest, b.maker);
}

Comparison compare(
    const ForwardSequence& sequence, int32_t position, int32_t period) {
  Comparison result;
  const auto a = sequence.operands_of(position);
  const int32_t next = position + period;
  const auto b = sequence.operands_of(next);
  // Equal symbols have equally many operands, unless hashes collided.
  if (sequence.symbols[static_cast<size_t>(position)] !=
          sequence.symbols[static_cast<size_t>(next)] ||
      a.size() != b.size()) {
    result.equal = false;
    return result;
  }
  for (size_t i = 0; i < a.size() && result.equal; ++i) {
    compare(a[i], b[i], period, result);
  }
  return result;
}

// A stretch that grows to the left, node by node.
class Growing {
 public:
  Growing(int32_t end, int32_t period, std::vector<Stretch>& found)
      : period_(period), found_(found) {
    restart(end);
  }

  // Takes in the node before `begin`, or says that it cannot.
  bool grow(const Comparison& comparison) {
    const int32_t position = begin_ - 1;
    const int32_t earliest = std::max(earliest_, comparison.earliest);
    if (!comparison.equal || position < earliest) {
      return false;
    }
    for (const auto& [next, first] : comparison.entries) {
      const auto known = std::find_if(
          entries_.begin(), entries_.end(), [&, value = next](const auto& e) {
            return e.first == value;
          });
      if (known == entries_.end()) {
        entries_.emplace_back(next, first);
      } else if (known->second != first) {
        return false;
      }
    }
    earliest_ = earliest;
    latest_ = std::min(latest_, comparison.latest);
    begin_ = position;
    return true;
  }

  // Ends this stretch; the next one grows from `end`.
  void close(int32_t end) {
    if (end_ - begin_ >= period_ && begin_ <= latest_) {
      found_.push_back({begin_, end_ + period_, period_});
    }
    restart(end);
  }

 private:
  void restart(int32_t end) {
    begin_ = end;
    end_ = end;
    earliest_ = 0;
    latest_ = INT32_MAX;
    entries_.clear();
  }

  int32_t period_;
  std::vector<Stretch>& found_;
  // Node i is known to equal node i + period for i in [begin_, end_).
  int32_t begin_ = 0;
  int32_t end_ = 0;
  int32_t earliest_ = 0;
  int32_t latest_ = INT32_MAX;
  std::vector<std::pair<ValueId, ValueId>> entries_;
};

// Adds the stretches inside [begin, end); true when one covers all of it.
bool add_stretches(
    const ForwardSequence& sequence,
    int32_t begin,
    int32_t end,
    int32_t period,
    std::vector<Stretch>& found) {
  Growing stretch(end - period, period, found);
  const size_t before = found.size();
  for (int32_t i = end - period - 1; i >= begin; --i) {
    const Comparison comparison = compare(sequence, i, period);
    if (stretch.grow(comparison)) {
      continue;
    }
    stretch.close(i + 1);
    if (!stretch.grow(comparison)) {
      stretch.close(i);
    }
  }
  stretch.close(begin);
  return found.size() == before + 1 && found.back().begin == begin &&
         found.back().end == end;
}

}  // namespace

std::vector<Stretch> find_stretches(const ForwardSequence& sequence) {
  std::vector<Stretch> found;
  for (const Repetition& each : find_repetitions(sequence.symbols)) {
    for (int32_t turn = 1; turn <= kLargestTurn; ++turn) {
      const int32_t period = each.period * turn;
      if (2 * period > each.end - each.begin ||
          add_stretches(sequence, each.begin, each.end, period, found)) {
        break;
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.period) <
           std::tie(b.begin, b.end, b.period);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace weft
