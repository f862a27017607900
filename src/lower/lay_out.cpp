// SPDX-License-Identifier: Apache-2.0
#include "lower/lay_out.h"

#include <utility>

namespace weft {
namespace {

void put(LaidOutStep step, Lowering& into) {
  into.graph = std::move(step.graph);
  into.reads = std::move(step.reads);
  into.unexpanded = std::move(step.unexpanded);
  into.layouts = std::move(step.layouts);
  into.resting = std::move(step.resting);
  into.assignments = std::move(step.assignments);
}

const LaidOutStep& known(const Lowering& lowering) {
  return lowering.memo->laid_out(lowering.plan, [&] {
    Lowering now = lowering;
    read_parameters(now);
    propagate_layouts(now);
    return taken_from(std::move(now));
  });
}

}  // namespace

LaidOutStep taken_from(Lowering lowering) {
  return {
      .graph = std::move(lowering.graph),
      .reads = std::move(lowering.reads),
      .unexpanded = std::move(lowering.unexpanded),
      .layouts = std::move(lowering.layouts),
      .resting = std::move(lowering.resting),
      .assignments = std::move(lowering.assignments)};
}

Lowering laid_out(Lowering lowering) {
  put(known(lowering), lowering);
  return lowering;
}

void lay_out(Lowering& lowering) {
  if (lowering.plan.recompute.empty() && !lowering.plan.recompute_cheap) {
    put(known(lowering), lowering);
    return;
  }
  read_parameters(lowering);
  propagate_layouts(lowering);
}

}  // namespace weft
