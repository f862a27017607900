// SPDX-License-Identifier: Apache-2.0
#include "plan/name_patterns.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Numbers that are a whole part of a module's path stand for layers; those
// after '/' count calls.
std::string pattern_of(const std::string& name) {
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

bool says_the_same(const Decision& a, const Decision& b) {
  return a.layout == b.layout && a.compute == b.compute;
}

}  // namespace

std::vector<Decision> with_patterns(
    const std::vector<Decision>& decisions, const Function& step) {
  std::map<std::string, const Decision*> by_name;
  std::map<std::string, size_t> uses;
  for (const Decision& decision : decisions) {
    by_name[decision.pattern] = &decision;
    ++uses[pattern_of(decision.pattern)];
  }
  std::set<std::string> written;
  std::vector<Decision> out;
  for (const Decision& decision : decisions) {
    const std::string pattern = pattern_of(decision.pattern);
    if (written.contains(pattern)) {
      continue;
    }
    const bool holds =
        uses[pattern] > 1 &&
        std::all_of(
            step.values.begin(), step.values.end(), [&](const Value& value) {
              if (!matches(pattern, value.name)) {
                return true;
              }
              const auto it = by_name.find(value.name);
              return it != by_name.end() &&
                     says_the_same(*it->second, decision);
            });
    out.push_back(decision);
    if (holds) {
      out.back().pattern = pattern;
      written.insert(pattern);
    }
  }
  return out;
}

}  // namespace weft
