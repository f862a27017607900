// SPDX-License-Identifier: Apache-2.0
// The search, and what backward makes again.
#include "base/error.h"
#include "binding.h"
#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/parallel.h"
#include "plan/plan.h"
#include "rewrite/training.h"
#include "search/nearest.h"
#include "search/recompute_policy.h"
#include "search/search_print.h"
#include "search/units.h"
#include "search/what_if.h"
#include "search/words_layouts.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace py = pybind11;

namespace weft {
namespace {

// As JSON. Throws UserError where nothing fits, with what would.
std::string search_json(
    const Graph& graph,
    const std::string& cluster_name,
    const std::vector<std::string>& fix,
    const std::vector<std::string>& forbid,
    std::optional<int64_t> max_bytes,
    std::optional<double> time_limit_seconds,
    std::optional<double> price,
    const std::vector<std::string>& what_ifs,
    bool keep_gradients) {
  Cluster cluster = load_cluster(cluster_name);
  if (price) {
    set_price_per_hour(cluster, *price);
  }
  std::vector<std::vector<ClusterChange>> changes;
  for (const std::string& text : what_ifs) {
    changes.push_back(parse_cluster_changes(text));
    changed(cluster, changes.back());
  }
  SearchOptions options;
  for (const std::string& word : fix) {
    fix_word(options.limits, word);
  }
  for (const std::string& word : forbid) {
    forbid_word(options.limits, word);
  }
  options.max_bytes = max_bytes;
  options.time_limit_seconds = time_limit_seconds;
  // As training runs it.
  Graph trained = graph;
  if (!keep_gradients) {
    drop_gradient_outputs(trained);
  }
  const SearchResult result = find_plan(trained, cluster, options);
  std::vector<WhatIf> found;
  for (const std::vector<ClusterChange>& each : changes) {
    found.push_back(what_if(trained, cluster, options, each));
  }
  return to_json(result, cluster, found).dump();
}

}  // namespace

void bind_search(py::module_& module) {
  module.def(
      "search",
      search_json,
      py::arg("graph"),
      py::arg("cluster"),
      py::arg("fix") = std::vector<std::string>(),
      py::arg("forbid") = std::vector<std::string>(),
      py::arg("max_bytes") = std::nullopt,
      py::arg("time_limit_seconds") = std::nullopt,
      py::arg("price") = std::nullopt,
      py::arg("what_if") = std::vector<std::string>(),
      py::arg("keep_gradients") = false);
  // The words with searched layouts, the fastest first, as texts.
  module.def(
      "plans_of_menu",
      [](const Graph& graph,
         const std::string& words,
         const std::string& cluster,
         int most) {
        std::vector<std::string> texts;
        for (const Plan& plan : plans_of_menu(
                 graph,
                 parse_parallel(words, "words"),
                 load_cluster(cluster),
                 most)) {
          texts.push_back(print(plan));
        }
        return texts;
      });
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
