// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline_cut.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace weft {
namespace {

// What an element costs that is only read and written, and a byte that is sent,
// in operations.
constexpr double kElementCost = 4;
constexpr double kSentByteCost = 64;

// A place where forward may be cut.
struct CutPlace {
  NodeId node = NodeId::None;
  // Of all nodes before it.
  double cost_before = 0;
  // What later nodes read of earlier ones.
  double crossing_bytes = 0;
  std::string pattern = "";
};

// Where less crosses than at the neighbours, or as much, and a module begins.
std::vector<CutPlace> cut_places(const Function& step) {
  std::vector<NodeId> forward;
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    if (step.nodes[i].phase == Phase::Forward) {
      forward.push_back(static_cast<NodeId>(i));
    }
  }
  // By value, the last node of forward that reads it.
  std::vector<NodeId> last(step.values.size(), NodeId::None);
  for (const NodeId node : forward) {
    for (const ValueId read : operands(step.nodes[index(node)])) {
      last[index(read)] = node;
    }
  }
  std::vector<CutPlace> all;
  std::vector<double> ends(step.nodes.size() + 1, 0);
  double crossing = 0;
  double cost = 0;
  for (const NodeId id : forward) {
    all.push_back({id, cost, crossing});
    const Node& node = step.nodes[index(id)];
    double largest = 0;
    for (const ValueId result : node.results) {
      const TensorType& type = step[result].type;
      largest = std::max(largest, static_cast<double>(element_count(type)));
      const NodeId reader = last[index(result)];
      // A view of an input is made wherever it is read.
      const bool is_of_input =
          is_view(node) && !operands(node).empty() &&
          step[operands(node).front()].node == NodeId::None;
      if (reader != NodeId::None && !is_of_input) {
        const auto bytes = static_cast<double>(
            element_count(type) * element_bytes(type.dtype));
        crossing += bytes;
        ends[index(reader)] += bytes;
      }
    }
    crossing -= ends[index(id)];
    cost += static_cast<double>(flops_of(step, node)) + kElementCost * largest;
  }
  const std::vector<std::string> patterns = stage_patterns(step);
  std::vector<CutPlace> out = {{NodeId::None, 0, 0}};
  for (size_t i = 1; i < all.size(); ++i) {
    const bool is_least = all[i].crossing_bytes <= all[i - 1].crossing_bytes &&
                          (i + 1 == all.size() ||
                           all[i].crossing_bytes <= all[i + 1].crossing_bytes);
    if (is_least) {
      all[i].pattern = patterns[index(all[i].node)];
      if (!all[i].pattern.empty()) {
        out.push_back(all[i]);
      }
    }
  }
  out.push_back({NodeId::None, cost, 0});
  return out;
}

}  // namespace

std::vector<std::string> stage_patterns(const Function& step) {
  std::vector<std::string> patterns(step.nodes.size());
  // Beginnings of names, each up to a dot or a slash, that were seen before.
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    if (step.nodes[i].phase != Phase::Forward) {
      continue;
    }
    const std::string_view name = step[step.nodes[i].results.front()].name;
    for (size_t end = name.find_first_of("./"); end != std::string::npos;
         end = name.find_first_of("./", end + 1)) {
      const bool is_new = seen.insert(name.substr(0, end + 1)).second;
      if (is_new && patterns[i].empty()) {
        patterns[i] = cat(name.substr(0, end + 1), "*");
      }
    }
  }
  return patterns;
}

std::vector<StageCut> stage_cuts(const Function& step) {
  std::vector<StageCut> cuts;
  for (const CutPlace& place : cut_places(step)) {
    if (!place.pattern.empty()) {
      cuts.push_back({place.node, place.pattern});
    }
  }
  return cuts;
}

std::vector<StageStart> balanced_stages(const Function& step, int64_t stages) {
  const std::vector<CutPlace> places = cut_places(step);
  const auto count = static_cast<size_t>(stages);
  WEFT_CHECK_USER(
      places.size() > count,
      "forward can be cut where modules begin, at ",
      places.size() - 2,
      " place(s), too few for ",
      stages,
      " stages; take fewer, or write `stage` lines into a plan");
  // least[s][i]: the cost of the costliest of s + 1 stages that end before
  // place i; from[s][i]: where the last of them begins.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(
      count, std::vector<double>(places.size(), kNever));
  std::vector<std::vector<size_t>> from(
      count, std::vector<size_t>(places.size(), 0));
  const auto cost = [&](size_t begin, size_t end) {
    return places[end].cost_before - places[begin].cost_before +
           kSentByteCost * places[begin].crossing_bytes;
  };
  for (size_t end = 1; end < places.size(); ++end) {
    least[0][end] = cost(0, end);
  }
  for (size_t s = 1; s < count; ++s) {
    for (size_t end = s + 1; end < places.size(); ++end) {
      for (size_t begin = end; begin-- > s;) {
        // Whoever begins earlier costs more.
        if (places[end].cost_before - places[begin].cost_before >
            least[s][end]) {
          break;
        }
        const double now = std::max(least[s - 1][begin], cost(begin, end));
        if (now <= least[s][end]) {
          least[s][end] = now;
          from[s][end] = begin;
        }
      }
    }
  }
  std::vector<StageStart> starts;
  size_t end = places.size() - 1;
  for (size_t s = count; s-- > 1;) {
    end = from[s][end];
    starts.push_back({places[end].pattern});
  }
  std::reverse(starts.begin(), starts.end());
  return starts;
}

}  // namespace weft
