// SPDX-License-Identifier: Apache-2.0
// The root of a repetition, rotated to be smallest, is a Lyndon word; and the
// longest Lyndon word that starts at i ends where the next smaller suffix
// starts. So one pass over the next smaller suffixes, in an order of the
// symbols and in the opposite order, meets every repetition (Bannai et al.,
// "The runs theorem", 2017). What is left is to ask how far two positions
// agree, to the right and to the left: by hashes of prefixes.
#include "profile/repetitions.h"

#include <algorithm>
#include <tuple>

namespace weft {
namespace {

uint64_t scramble(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// How far a sequence agrees with itself from two positions on.
class Agreement {
 public:
  explicit Agreement(const std::vector<int32_t>& sequence)
      : sequence_(sequence), size_(static_cast<int32_t>(sequence.size())) {
    prefix_.resize(sequence.size() + 1);
    power_.resize(sequence.size() + 1);
    power_[0] = 1;
    for (size_t i = 0; i < sequence.size(); ++i) {
      const uint64_t symbol = scramble(static_cast<uint64_t>(sequence[i]));
      prefix_[i + 1] = prefix_[i] * kBase + symbol;
      power_[i + 1] = power_[i] * kBase;
    }
  }

  // The number of equal elements starting at a and at b > a.
  int32_t right(int32_t a, int32_t b) const {
    return longest(
        size_ - b, [&](int32_t n) { return hash(a, n) == hash(b, n); });
  }

  // The number of equal elements ending just before a and before b > a.
  int32_t left(int32_t a, int32_t b) const {
    return longest(
        a, [&](int32_t n) { return hash(a - n, n) == hash(b - n, n); });
  }

  // Is the suffix at a smaller than the one at b > a? A prefix comes first.
  bool is_smaller(int32_t a, int32_t b, bool opposite) const {
    const int32_t same = right(a, b);
    if (b + same == size_) {
      return false;
    }
    return (at(a + same) < at(b + same)) != opposite;
  }

 private:
  static constexpr uint64_t kBase = 0x5851f42d4c957f2du;

  int32_t at(int32_t i) const { return sequence_[static_cast<size_t>(i)]; }

  uint64_t hash(int32_t begin, int32_t count) const {
    const auto first = static_cast<size_t>(begin);
    const auto length = static_cast<size_t>(count);
    return prefix_[first + length] - prefix_[first] * power_[length];
  }

  // The largest n <= limit with agrees(n). Most agreements are short, so the
  // search doubles before it halves.
  template <typename Agrees>
  static int32_t longest(int32_t limit, Agrees&& agrees) {
    int32_t low = 0;
    int32_t step = 1;
    while (low + step <= limit && agrees(low + step)) {
      low += step;
      step *= 2;
    }
    int32_t high = std::min(limit, low + step - 1);
    while (low < high) {
      const int32_t middle = low + (high - low + 1) / 2;
      if (agrees(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  const std::vector<int32_t>& sequence_;
  int32_t size_;
  std::vector<uint64_t> prefix_;
  std::vector<uint64_t> power_;
};

}  // namespace

std::vector<Repetition> find_repetitions(const std::vector<int32_t>& sequence) {
  const auto size = static_cast<int32_t>(sequence.size());
  const Agreement agreement(sequence);
  std::vector<Repetition> found;
  std::vector<int32_t> next_smaller(sequence.size());
  for (const bool opposite : {false, true}) {
    for (int32_t i = size - 1; i >= 0; --i) {
      int32_t next = i + 1;
      while (next < size && agreement.is_smaller(i, next, opposite)) {
        next = next_smaller[static_cast<size_t>(next)];
      }
      next_smaller[static_cast<size_t>(i)] = next;
      const int32_t period = next - i;
      const int32_t before = agreement.left(i, next);
      const int32_t after = agreement.right(i, next);
      if (before + after >= period) {
        found.push_back({i - before, next + after, period});
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
