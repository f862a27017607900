// SPDX-License-Identifier: Apache-2.0
#include "plan/name_patterns.h"

#include "plan/pattern_index.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

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
  if (decisions.empty()) {
    return {};
  }
  // What could stand in place of several decisions, the first of which it says.
  struct Line {
    std::string pattern;
    const Decision* first = nullptr;
    // All that it matches have decisions that say the same.
    bool holds = false;
    bool is_written = false;
  };
  if (decisions.empty()) {
    return {};
  }
  std::unordered_map<std::string_view, const Decision*> by_name;
  std::unordered_map<std::string, size_t> line_of;
  std::vector<Line> lines;
  std::vector<size_t> line_for;
  for (const Decision& decision : decisions) {
    by_name[decision.pattern] = &decision;
    std::string pattern = layer_pattern(decision.pattern);
    const auto [at, is_new] = line_of.try_emplace(pattern, lines.size());
    line_for.push_back(at->second);
    if (is_new) {
      lines.push_back({.pattern = std::move(pattern), .first = &decision});
    } else {
      lines[at->second].holds = true;
    }
  }
  const PatternIndex patterns(lines);
  for (const Value& value : step.values) {
    patterns.for_each_match(value.name, [&](size_t number) {
      Line& line = lines[number];
      if (line.holds) {
        const auto decided = by_name.find(value.name);
        line.holds = decided != by_name.end() &&
                     says_the_same(*decided->second, *line.first);
      }
    });
  }
  std::vector<Decision> out;
  for (size_t i = 0; i < decisions.size(); ++i) {
    Line& line = lines[line_for[i]];
    if (line.is_written) {
      continue;
    }
    out.push_back(decisions[i]);
    if (line.holds) {
      out.back().pattern = line.pattern;
      line.is_written = true;
    }
  }
  return out;
}

}  // namespace weft
