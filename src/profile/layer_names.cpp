// SPDX-License-Identifier: Apache-2.0
#include "profile/layer_names.h"

#include "base/number.h"
#include "base/text.h"

#include <algorithm>
#include <map>
#include <optional>

namespace weft {
namespace {

// More parts than this are not written out.
constexpr size_t kMostParts = 6;

std::string_view part_at(std::string_view path, size_t depth) {
  for (; depth > 0; --depth) {
    const size_t dot = path.find('.');
    if (dot == std::string_view::npos) {
      return {};
    }
    path.remove_prefix(dot + 1);
  }
  return path.substr(0, path.find('.'));
}

bool is_below(std::string_view path, std::string_view prefix) {
  return prefix.empty() ||
         (path.starts_with(prefix) && path.size() > prefix.size() &&
          path[prefix.size()] == '.');
}

// How many nodes of one copy lie in each part below a prefix, in order of
// appearance.
using PartCounts = std::vector<std::pair<std::string_view, size_t>>;

PartCounts count_parts(
    const std::vector<std::string_view>& paths,
    std::string_view prefix,
    size_t depth) {
  PartCounts counts;
  for (const std::string_view path : paths) {
    const std::string_view part =
        is_below(path, prefix) ? part_at(path, depth) : std::string_view{};
    if (part.empty()) {
      continue;
    }
    const auto known =
        std::find_if(counts.begin(), counts.end(), [&](const auto& count) {
          return count.first == part;
        });
    if (known == counts.end()) {
      counts.emplace_back(part, 1);
    } else {
      ++known->second;
    }
  }
  return counts;
}

std::string_view most_frequent(const PartCounts& counts) {
  const auto most = std::max_element(
      counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      });
  return most == counts.end() ? std::string_view{} : most->first;
}

// The parts that only one copy has, when they hold most nodes of every copy.
std::vector<std::string> own_parts(
    const std::vector<PartCounts>& counts, const CopyPaths& copies) {
  std::map<std::string_view, int> owners;
  for (const PartCounts& copy : counts) {
    for (const auto& [part, nodes] : copy) {
      ++owners[part];
    }
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < copies.size(); ++i) {
    size_t covered = 0;
    for (const auto& [part, nodes] : counts[i]) {
      if (owners[part] == 1) {
        parts.emplace_back(part);
        covered += nodes;
      }
    }
    if (2 * covered <= copies[i].size()) {
      return {};
    }
  }
  return parts;
}

bool is_counting(const std::vector<std::string>& parts) {
  const std::optional<int64_t> first = read_integer(parts.front());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!first || read_integer(parts[i]) != *first + static_cast<int64_t>(i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

PathPattern path_pattern(const CopyPaths& copies) {
  PathPattern pattern;
  for (size_t depth = 0;; ++depth) {
    std::vector<PartCounts> counts;
    std::vector<std::string> most;
    for (const auto& paths : copies) {
      counts.push_back(count_parts(paths, pattern.prefix, depth));
      most.emplace_back(most_frequent(counts.back()));
      if (most.back().empty()) {
        return {};
      }
    }
    pattern.parts = own_parts(counts, copies);
    if (!pattern.parts.empty()) {
      return pattern;
    }
    std::vector<std::string> distinct = most;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(
        std::unique(distinct.begin(), distinct.end()), distinct.end());
    if (distinct.size() == copies.size() && copies.size() > 1) {
      pattern.parts = most;
      return pattern;
    }
    if (distinct.size() != 1) {
      return {};
    }
    pattern.prefix += (depth == 0 ? "" : ".") + most.front();
  }
}

std::string print(const PathPattern& pattern) {
  if (pattern.parts.empty()) {
    return "";
  }
  std::string inside;
  if (pattern.parts.size() > 2 && is_counting(pattern.parts)) {
    inside = pattern.parts.front() + ".." + pattern.parts.back();
  } else if (pattern.parts.size() <= kMostParts) {
    inside = join(pattern.parts, ",");
  } else {
    inside = cat(
        pattern.parts[0], ",", pattern.parts[1], ",...,", pattern.parts.back());
  }
  return cat(pattern.prefix, pattern.prefix.empty() ? "{" : ".{", inside, "}");
}

int shared_depth(std::string_view a, std::string_view b) {
  int depth = 0;
  while (true) {
    const std::string_view part_a = a.substr(0, a.find('.'));
    const std::string_view part_b = b.substr(0, b.find('.'));
    if (part_a.empty() || part_a != part_b) {
      return depth;
    }
    ++depth;
    a.remove_prefix(std::min(a.size(), part_a.size() + 1));
    b.remove_prefix(std::min(b.size(), part_b.size() + 1));
  }
}

}  // namespace weft
