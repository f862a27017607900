// SPDX-License-Identifier: Apache-2.0
// The search, and what backward makes again.
#include "base/error.h"
#include "binding.h"
#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "search/recompute_policy.h"
#include "search/search.h"
#include "search/search_print.h"
#include "search/units.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace py = pybind11;

namespace weft {
namespace {

// As JSON. Throws UserError where nothing fits, with what would.
std::string find_plan(
    const Graph& graph,
    const std::string& cluster_name,
    const std::vector<std::string>& fix,
    const std::vector<std::string>& forbid,
    std::optional<int64_t> max_bytes,
    std::optional<double> time_limit_seconds) {
  const Cluster cluster = load_cluster(cluster_name);
  SearchOptions options;
  for (const std::string& word : fix) {
    fix_word(options.limits, word);
  }
  for (const std::string& word : forbid) {
    forbid_word(options.limits, word);
  }
  options.max_bytes = max_bytes;
  options.time_limit_seconds = time_limit_seconds;
  const SearchResult result = search(graph, cluster, options);
  WEFT_CHECK_USER(
      result.plan.has_value(),
      "no plan fits: ",
      nearest(graph, cluster, options, result));
  return to_json(result, cluster).dump();
}

}  // namespace

void bind_search(py::module_& module) {
  module.def(
      "search",
      find_plan,
      py::arg("graph"),
      py::arg("cluster"),
      py::arg("fix") = std::vector<std::string>(),
      py::arg("forbid") = std::vector<std::string>(),
      py::arg("max_bytes") = std::nullopt,
      py::arg("time_limit_seconds") = std::nullopt);
  // The plan with another policy, as text.
  module.def(
      "set_recompute",
      [](const Graph& graph, const std::string& text, const std::string& word) {
        Plan plan = parse_plan(text, "plan");
        const std::optional<RecomputePolicy> policy = recompute_policy(word);
        WEFT_CHECK_USER(policy.has_value(), "no policy is called ", word);
        const Function& step = step_of(graph);
        set_recompute(plan, step, step_units(step), *policy);
        return print(plan);
      });
}

}  // namespace weft
