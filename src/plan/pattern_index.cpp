// SPDX-License-Identifier: Apache-2.0
#include "plan/pattern_index.h"

#include <algorithm>

namespace weft {

void PatternIndex::add(std::string_view pattern) {
  const size_t number = patterns_.size();
  patterns_.push_back(pattern);
  const size_t star = pattern.rfind('*');
  if (star == std::string_view::npos) {
    by_name_[pattern].push_back(number);
    return;
  }
  std::string_view end = pattern.substr(star + 1);
  end.remove_prefix(end.size() - std::min(end.size(), kMostLookedUp));
  by_end_[key_of(end)].push_back(number);
  end_lengths_.insert(end.size());
}

// Another for each end.
uint64_t PatternIndex::key_of(std::string_view end) {
  uint64_t key = end.size();
  for (const char c : end) {
    key = key << 8 | static_cast<unsigned char>(c);
  }
  return key;
}

bool PatternIndex::has_match(std::string_view name) const {
  return last_match(name).has_value();
}

std::optional<size_t> PatternIndex::last_match(std::string_view name) const {
  std::optional<size_t> last;
  for_each_match(
      name, [&](size_t number) { last = std::max(last.value_or(0), number); });
  return last;
}

const Decision* decision_for(
    const Plan& plan,
    const PatternIndex& decisions,
    std::string_view value_name) {
  const std::optional<size_t> last = decisions.last_match(value_name);
  return last ? &plan.decisions[*last] : nullptr;
}

}  // namespace weft
