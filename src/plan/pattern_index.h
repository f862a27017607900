// SPDX-License-Identifier: Apache-2.0
// Many patterns, and which of them match a name: only those that end as the
// name does are tried.
#pragma once

#include "plan/plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

class PatternIndex {
 public:
  // The patterns of these lines, whose text it refers to.
  template <typename Line>
  explicit PatternIndex(const std::vector<Line>& lines) {
    for (const Line& line : lines) {
      add(line.pattern);
    }
  }

  // Calls `each` with the number of every line that matches, in no order that
  // means anything.
  template <typename Each>
  void for_each_match(std::string_view name, Each each) const {
    if (!by_name_.empty()) {
      if (const auto at = by_name_.find(name); at != by_name_.end()) {
        for (const size_t number : at->second) {
          each(number);
        }
      }
    }
    for (const size_t length : end_lengths_) {
      if (length > name.size()) {
        break;
      }
      const auto at = by_end_.find(key_of(name.substr(name.size() - length)));
      if (at == by_end_.end()) {
        continue;
      }
      for (const size_t number : at->second) {
        if (matches(patterns_[number], name)) {
          each(number);
        }
      }
    }
  }

  bool has_match(std::string_view name) const;
  // Of several lines the last counts.
  std::optional<size_t> last_match(std::string_view name) const;

 private:
  // Of an end, so many characters are looked up.
  static constexpr size_t kMostLookedUp = 4;

  void add(std::string_view pattern);
  static uint64_t key_of(std::string_view end);

  std::vector<std::string_view> patterns_;
  // Those without '*'.
  std::unordered_map<std::string_view, std::vector<size_t>> by_name_;
  // The others, by the end of what stands after the last '*'.
  std::unordered_map<uint64_t, std::vector<size_t>> by_end_;
  std::set<size_t> end_lengths_;
};

// The decision that counts for a value, or nullptr; `decisions` are the plan's.
const Decision* decision_for(
    const Plan& plan,
    const PatternIndex& decisions,
    std::string_view value_name);

}  // namespace weft
