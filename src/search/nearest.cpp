// SPDX-License-Identifier: Apache-2.0
#include "search/nearest.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "profile/text_table.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>

namespace weft {
namespace {

// How many times as many nodes are thought of, at the most.
constexpr int64_t kMostTimes = 64;

// One thing that the user has said, and the limits without it.
struct Relaxed {
  std::string without;
  SearchLimits limits;
};

std::vector<Relaxed> relaxations(const SearchLimits& limits) {
  std::vector<Relaxed> out;
  for (const auto& [key, value] : limits.fixed) {
    out.push_back({cat("fix ", key, "=", value), limits});
    out.back().limits.fixed.erase(key);
  }
  for (const std::string& word : limits.forbidden) {
    out.push_back({cat("forbid ", word), limits});
    out.back().limits.forbidden.erase(word);
  }
  return out;
}

int64_t needed_bytes(const Tried& tried) {
  return tried.simulated_bytes.value_or(tried.estimate.needed_bytes);
}

// nullptr where memory is the reason of none. Bounds count where there is
// nothing else: the search has run out of time.
const Tried* least_needed(const SearchResult& result) {
  const Tried* least = nullptr;
  const auto need = [](const Tried& tried) {
    return std::pair(tried.is_bound, needed_bytes(tried));
  };
  for (const Tried& tried : result.tried) {
    if (needed_bytes(tried) > 0 &&
        (least == nullptr || need(tried) < need(*least))) {
      least = &tried;
    }
  }
  return least;
}

// Of what the user leaves open, what takes the least memory, by estimates
// alone.
SearchOptions frugal(const SearchOptions& options, SearchLimits limits) {
  const auto settle = [&](const std::string& key, const std::string& value) {
    if (!limits.forbidden.contains(key)) {
      limits.fixed.emplace(key, value);
    }
  };
  settle("recompute", std::string(name(RecomputePolicy::Full)));
  const auto data = limits.fixed.find("data");
  if (data == limits.fixed.end() || data->second != "1") {
    settle("zero", "3");
  }
  SearchOptions out = options;
  out.limits = std::move(limits);
  out.most_instructions = 0;
  out.takes_first_fit = true;
  out.progress = nullptr;
  return out;
}

// Parameters and optimizer states, of which every one is on some rank.
int64_t resident_bytes(const Function& step) {
  int64_t bytes = 0;
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Parameter || input.kind == InputKind::State) {
      bytes += storage_bytes(step[input.value].type);
    }
  }
  return bytes;
}

bool fits(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  const int64_t budget_bytes =
      options.max_bytes.value_or(cluster.device.memory_bytes);
  if (resident_bytes(step_of(graph)) / device_count(cluster) > budget_bytes) {
    return false;
  }
  try {
    return search(graph, cluster, options).plan.has_value();
  } catch (const UserError&) {
    // No mesh at all.
    return false;
  }
}

// With how many members of the outermost group it fits; none: not with any
// number that was tried.
std::optional<int64_t> fitting_count(
    const Graph& graph, Cluster cluster, const SearchOptions& options) {
  int64_t& count = cluster.groups.back().count;
  int64_t too_few = count;
  const int64_t most = kMostTimes * count;
  do {
    count *= 2;
    if (count > most) {
      return std::nullopt;
    }
    if (fits(graph, cluster, options)) {
      break;
    }
    too_few = count;
  } while (true);
  int64_t enough = count;
  while (enough - too_few > 1) {
    count = (enough + too_few) / 2;
    (fits(graph, cluster, options) ? enough : too_few) = count;
  }
  return enough;
}

// What the members of the outermost group are, for people: "nodes".
std::string members_name(const Cluster& cluster) {
  const Group& group = cluster.groups.back();
  if (!group.member.empty()) {
    return cat(group.member, "s");
  }
  return cluster.groups.size() == 1
             ? "devices"
             : cat(cluster.groups[cluster.groups.size() - 2].name, "s");
}

std::string more_of_them(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  if (cluster.groups.empty()) {
    return "";
  }
  const std::optional<int64_t> count = fitting_count(graph, cluster, options);
  if (!count) {
    return "";
  }
  Cluster larger = cluster;
  larger.groups.back().count = *count;
  return cat(
      "with ",
      *count,
      " ",
      members_name(cluster),
      " in place of ",
      cluster.groups.back().count,
      cluster.groups.size() > 1 ? cat(" (", device_count(larger), " devices)")
                                : "");
}

}  // namespace

std::string nearest(
    const Graph& graph,
    const Cluster& cluster,
    const SearchOptions& options,
    const SearchResult& result) {
  const Tried* least = least_needed(result);
  if (least == nullptr) {
    return result.tried.empty() ? "" : result.tried.front().reason;
  }
  std::vector<std::string> ways;
  for (const Relaxed& relaxed : relaxations(options.limits)) {
    if (fits(graph, cluster, frugal(options, relaxed.limits))) {
      ways.push_back(cat("without ", relaxed.without));
    }
  }
  if (options.max_bytes && *options.max_bytes < cluster.device.memory_bytes) {
    SearchOptions whole = frugal(options, options.limits);
    whole.max_bytes = std::nullopt;
    if (fits(graph, cluster, whole)) {
      ways.push_back(
          cat("into the ",
              bytes_text(cluster.device.memory_bytes),
              " that a device has"));
    }
  }
  const std::string more =
      more_of_them(graph, cluster, frugal(options, options.limits));
  if (!more.empty()) {
    ways.push_back(more);
  }
  return cat(
      "the least that any plan needs is ",
      bytes_text(needed_bytes(*least)),
      " a rank, by ",
      print(least->candidate),
      ways.empty() ? "; take a smaller model, or devices with more memory"
                   : cat("; it fits ", join(ways, ", or "), ", by estimates"));
}

SearchResult find_plan(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  SearchResult result = search(graph, cluster, options);
  for (const std::string& fault : result.faults) {
    std::cerr << cat("weft: warning: ", fault, "\n") << std::flush;
  }
  if (!result.plan) {
    if (options.progress) {
      options.progress("nothing fits; looking for what would");
    }
    const std::string near = nearest(graph, cluster, options, result);
    throw UserError(
        least_needed(result) != nullptr
            ? cat("no plan fits ",
                  bytes_text(result.budget_bytes),
                  " a rank on @",
                  cluster.name,
                  ": ",
                  near)
            : cat("no plan can be made for @", cluster.name, ": ", near));
  }
  return result;
}

std::string why_no_mesh(
    int64_t ranks,
    int64_t ranks_a_node,
    int64_t rows,
    const SearchLimits& limits) {
  // So many rows go into any mesh and its micro-batches.
  const auto micro = limits.fixed.find("micro-batches");
  const int64_t times =
      micro == limits.fixed.end() ? 1 : read_integer(micro->second).value();
  std::set<int64_t> near;
  for (const Candidate& candidate :
       candidates(ranks, ranks_a_node, ranks * times, limits)) {
    const int64_t parts = candidate.words.data * candidate.words.expert * times;
    near.insert(rows / parts * parts);
    near.insert((rows / parts + 1) * parts);
  }
  near.erase(0);
  const std::string begin = cat(
      "no mesh of ",
      ranks,
      ranks == 1 ? " rank" : " ranks",
      limits.fixed.empty() && limits.forbidden.empty() ? ""
                                                       : " with these words");
  if (near.empty()) {
    std::vector<std::string> ways;
    for (const Relaxed& relaxed : relaxations(limits)) {
      if (!candidates(ranks, ranks_a_node, ranks * times, relaxed.limits)
               .empty()) {
        ways.push_back(relaxed.without);
      }
    }
    return cat(
        begin,
        " can be made; leave out ",
        ways.empty() ? "some of them" : join(ways, " or "));
  }
  const auto above = near.upper_bound(rows);
  std::vector<std::string> ways;
  if (above != near.begin()) {
    ways.push_back(cat(*std::prev(above)));
  }
  if (above != near.end()) {
    ways.push_back(cat(*above));
  }
  return cat(
      begin,
      " shares a batch of ",
      rows,
      " rows evenly; take a batch of ",
      join(ways, " or "),
      limits.fixed.empty() && limits.forbidden.empty()
          ? ""
          : ", or leave out one of the words");
}

}  // namespace weft
