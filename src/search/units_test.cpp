// SPDX-License-Identifier: Apache-2.0
#include "search/units.h"

#include "ops/kernel_memory.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

int asked = 0;

// A kernel that is asked runs, on as many rows as a step has: a search for
// other machines does not wait for that.
TEST(Units, AreFoundWithoutAskingKernels) {
  const Graph graph = parse_graph(
      "graph @g\nfunc @step {\n"
      "  input %x : f32[1, 4, 16, 8] = batch \"0\"\n"
      "  input %w : f32[4, 4, 3, 3] = parameter \"w\" trained\n"
      "forward:\n"
      "  %y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, "
      "[0, 0], 1) : f32[1, 4, 16, 8]\n"
      "  return loss = %y\n}\n",
      "test");
  const Function& step = step_of(graph);
  asked = 0;
  ask_kernels([](const Function&, const Node&) -> std::optional<KernelMemory> {
    ++asked;
    return std::nullopt;
  });
  step_units(step);
  const int by_units = asked;
  node_costs(step, signatures(step));
  const int by_costs = asked;
  ask_kernels(nullptr);
  EXPECT_EQ(by_units, 0);
  EXPECT_GT(by_costs, 0);
}

}  // namespace
}  // namespace weft
