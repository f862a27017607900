// SPDX-License-Identifier: Apache-2.0
#include "plan/name_patterns.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace weft {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string layer_pattern(const std::string& name) {
  const size_t path_end = std::min(name.find('/'), name.size());
  std::string pattern;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < path_end && is_digit(name[end])) {
      ++end;
    }
    const bool is_part =
        end > i && (i == 0 || name[i - 1] == '.') &&
        (end == name.size() || name[end] == '.' || name[end] == '/');
    if (is_part) {
      pattern += '*';
      i = end;
    } else {
      pattern += name[i++];
    }
  }
  return pattern;
}

namespace {

bool says_the_same(const Decision& a, const Decision& b) {
  return a.layout == b.layout && a.compute == b.compute;
}

}  // namespace

std::vector<Decision> with_patterns(
    const std::vector<Decision>& decisions, const Function& step) {
  std::unordered_map<std::string_view, const Decision*> by_name;
  std::unordered_map<std::string, std::vector<const Decision*>> by_pattern;
  std::vector<std::string> patterns;
  for (const Decision& decision : decisions) {
    by_name[decision.pattern] = &decision;
    patterns.push_back(layer_pattern(decision.pattern));
    by_pattern[patterns.back()].push_back(&decision);
  }
  // Whether all that the pattern matches have decisions that say the same.
  const auto holds = [&](const std::string& pattern) {
    const std::vector<const Decision*>& all = by_pattern.at(pattern);
    const auto agrees = [&](const Decision* other) {
      return says_the_same(*other, *all.front());
    };
    if (all.size() == 1 || !std::all_of(all.begin(), all.end(), agrees)) {
      return false;
    }
    // Most names differ in how they end.
    const std::string_view end =
        std::string_view(pattern).substr(pattern.rfind('*') + 1);
    return std::all_of(
        step.values.begin(), step.values.end(), [&](const Value& value) {
          if (!value.name.ends_with(end) || !matches(pattern, value.name)) {
            return true;
          }
          const auto it = by_name.find(value.name);
          return it != by_name.end() && agrees(it->second);
        });
  };
  std::unordered_map<std::string, bool> known;
  std::unordered_set<std::string> written;
  std::vector<Decision> out;
  for (size_t i = 0; i < decisions.size(); ++i) {
    const std::string& pattern = patterns[i];
    if (written.contains(pattern)) {
      continue;
    }
    const auto [at, is_new] = known.try_emplace(pattern, false);
    if (is_new) {
      at->second = holds(pattern);
    }
    out.push_back(decisions[i]);
    if (at->second) {
      out.back().pattern = pattern;
      written.insert(pattern);
    }
  }
  return out;
}

}  // namespace weft
