// SPDX-License-Identifier: Apache-2.0
#include "search/what_if.h"

#include "base/error.h"
#include "base/text.h"
#include "search/nearest.h"

namespace weft {

WhatIf what_if(
    const Graph& graph,
    const Cluster& cluster,
    const SearchOptions& options,
    const std::vector<ClusterChange>& changes) {
  WhatIf out;
  out.changes = changes;
  Cluster budgeted = cluster;
  SearchOptions now = options;
  if (options.max_bytes) {
    budgeted.device.memory_bytes = *options.max_bytes;
    now.max_bytes = std::nullopt;
  }
  if (options.progress) {
    now.progress = [&](const std::string& text) {
      options.progress(cat("what if ", print(changes), ": ", text));
    };
  }
  out.cluster = changed(std::move(budgeted), changes);
  try {
    out.result = find_plan(graph, out.cluster, now);
  } catch (const UserError& error) {
    out.reason = error.what();
  }
  return out;
}

}  // namespace weft
