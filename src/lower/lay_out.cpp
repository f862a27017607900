// SPDX-License-Identifier: Apache-2.0
#include "lower/lay_out.h"

#include <utility>

namespace weft {
namespace {

LaidOutStep find_layouts(const Lowering& lowering) {
  Lowering out = lowering;
  read_parameters(out);
  propagate_layouts(out);
  return {
      .graph = std::move(out.graph),
      .reads = std::move(out.reads),
      .unexpanded = std::move(out.unexpanded),
      .layouts = std::move(out.layouts),
      .resting = std::move(out.resting),
      .assignments = std::move(out.assignments)};
}

}  // namespace

Lowering laid_out(const Lowering& lowering) {
  const LaidOutStep& found = lowering.memo->laid_out(
      lowering.plan, [&] { return find_layouts(lowering); });
  Lowering out = lowering;
  out.graph = found.graph;
  out.reads = found.reads;
  out.unexpanded = found.unexpanded;
  out.layouts = found.layouts;
  out.resting = found.resting;
  out.assignments = found.assignments;
  return out;
}

void lay_out(Lowering& lowering) {
  if (lowering.plan.recompute.empty() && !lowering.plan.recompute_cheap) {
    Lowering out = laid_out(lowering);
    std::swap(lowering.graph, out.graph);
    std::swap(lowering.reads, out.reads);
    std::swap(lowering.unexpanded, out.unexpanded);
    std::swap(lowering.layouts, out.layouts);
    std::swap(lowering.resting, out.resting);
    std::swap(lowering.assignments, out.assignments);
    return;
  }
  read_parameters(lowering);
  propagate_layouts(lowering);
}

}  // namespace weft
