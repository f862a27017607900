// SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include "profile/node_costs.h"
#include "profile/signatures.h"
#include "profile/tally.h"

#include <algorithm>
#include <chrono>

namespace weft {
namespace {

constexpr size_t kLargestAtPeak = 10;

Peak find_peak(const Function& step, const Profile& profile) {
  Peak peak;
  const auto most =
      std::max_element(profile.live_bytes.begin(), profile.live_bytes.end());
  if (most == profile.live_bytes.end()) {
    return peak;
  }
  peak.bytes = *most;
  peak.node = static_cast<NodeId>(most - profile.live_bytes.begin());
  const Node& node = step.nodes[index(peak.node)];
  peak.name = step[node.results.front()].name;
  peak.op = node.op;
  peak.phase = node.phase;
  peak.alive_bytes = live_bytes_by_kind(profile.lifetimes, peak.node);
  peak.scratch_bytes = profile.nodes[index(peak.node)].scratch_bytes;

  std::vector<const Storage*> alive;
  for (const Storage& storage : profile.lifetimes.storages) {
    if (is_alive(storage, peak.node)) {
      alive.push_back(&storage);
    }
  }
  const auto shown = alive.begin() + static_cast<std::ptrdiff_t>(std::min(
                                         alive.size(), kLargestAtPeak));
  std::partial_sort(
      alive.begin(), shown, alive.end(), [](const auto* a, const auto* b) {
        // Storages lie in one array, in order.
        return a->bytes != b->bytes ? a->bytes > b->bytes : a < b;
      });
  for (auto each = alive.begin(); each != shown; ++each) {
    peak.largest.push_back(
        {step[(*each)->value].name, (*each)->kind, (*each)->bytes});
  }
  return peak;
}

}  // namespace

int64_t total(const PhaseFlops& flops) {
  return flops.forward + flops.backward + flops.recompute + flops.optimizer;
}

double arithmetic_intensity(const Costs& costs) {
  return costs.moved_bytes == 0 ? 0.0
                                : static_cast<double>(total(costs.flops)) /
                                      static_cast<double>(costs.moved_bytes);
}

Profile profile(const Graph& graph) {
  const auto start = std::chrono::steady_clock::now();
  const Function& step = step_of(graph);
  Profile result;
  result.model = graph.name;
  const std::vector<int32_t> signature_of = signatures(step);
  result.nodes = node_costs(step, signature_of);
  result.lifetimes = lifetimes(step);
  result.live_bytes = live_bytes(step, result.lifetimes);
  std::vector<int64_t> flops;
  for (size_t i = 0; i < result.nodes.size(); ++i) {
    result.live_bytes[i] += result.nodes[i].scratch_bytes;
    flops.push_back(result.nodes[i].flops);
  }
  result.peak = find_peak(step, result);
  add_up(graph, step, result);
  result.layer_classes =
      layer_classes(step, result.lifetimes, signature_of, flops);
  const std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - start;
  result.profile_seconds = spent.count();
  return result;
}

}  // namespace weft
