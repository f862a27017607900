// SPDX-License-Identifier: Apache-2.0
// What holds for every pass on every graph. What a pass does is shown by the
// texts in test/rewrite.
#include "rewrite/graph_pass.h"

#include "base/error.h"
#include "base/text.h"
#include "graph/random_graph.h"
#include "rewrite/edit.h"

#include <gtest/gtest.h>
#include <map>

namespace weft {
namespace {

// Numbers expressions, equal ones alike: what a function computes, without
// computing it.
class Meaning {
 public:
  std::map<std::string, int> outputs(const Function& function) {
    Function symbolic = function;
    for (const Input& input : function.inputs) {
      symbolic[input.value].name =
          cat(number(cat(name(input.kind), " ", input.keys[0])));
    }
    for (const Node& node : function.nodes) {
      const std::string key = call_key(symbolic, node);
      for (size_t i = 0; i < node.results.size(); ++i) {
        symbolic[node.results[i]].name = cat(number(cat(key, "#", i)));
      }
    }
    std::map<std::string, int> out;
    for (const Output& output : function.outputs) {
      out[cat(name(output.kind), " ", output.key)] =
          std::stoi(symbolic[output.value].name);
    }
    return out;
  }

 private:
  int number(const std::string& expression) {
    return numbers_.emplace(expression, static_cast<int>(numbers_.size()))
        .first->second;
  }

  std::map<std::string, int> numbers_;
};

// No storage is read after it was released, released twice, or overwritten
// while its content is still to be read.
void check_storages(const Function& function) {
  const std::vector<ValueId> storage = storages(function);
  std::vector<bool> is_released(function.values.size());
  std::vector<bool> is_overwritten(function.values.size());
  for (const Node& node : function.nodes) {
    for_each_operand(node, [&](ValueId id) {
      EXPECT_FALSE(is_released[index(storage[index(id)])])
          << print(function, node);
      EXPECT_FALSE(is_overwritten[index(id)]) << print(function, node);
    });
    if (node.overwrites != ValueId::None) {
      for (ValueId id{0}; id < node.results[0];
           id = static_cast<ValueId>(index(id) + 1)) {
        if (storage[index(id)] == storage[index(node.overwrites)]) {
          is_overwritten[index(id)] = true;
        }
      }
    }
    for (const ValueId id : node.releases) {
      EXPECT_FALSE(is_released[index(storage[index(id)])])
          << print(function, node);
      is_released[index(storage[index(id)])] = true;
    }
  }
  for (const Output& output : function.outputs) {
    EXPECT_FALSE(is_overwritten[index(output.value)]) << print(function);
  }
}

class EveryPass : public testing::TestWithParam<GraphPass> {};

TEST_P(EveryPass, KeepsTheMeaningOfRandomGraphs) {
  const std::string pass(GetParam().name);
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const Graph before = random_graph(
        {.seed = seed, .nodes = static_cast<int>(seed % 70), .repeat = 0.5});
    Graph after = before;
    ASSERT_NO_THROW(run_graph_passes({pass}, after)) << "seed " << seed;
    for (size_t i = 0; i < before.functions.size(); ++i) {
      SCOPED_TRACE(cat("seed ", seed, "\n", print(before.functions[i])));
      Meaning meaning;
      const std::map<std::string, int> kept =
          meaning.outputs(after.functions[i]);
      std::map<std::string, int> expected =
          meaning.outputs(before.functions[i]);
      if (!GetParam().keeps_outputs) {
        std::erase_if(expected, [&](const auto& output) {
          return !kept.contains(output.first);
        });
      }
      EXPECT_EQ(kept, expected);
      check_storages(before.functions[i]);
      check_storages(after.functions[i]);
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

TEST_P(EveryPass, HasNothingToDoTheSecondTime) {
  const std::string pass(GetParam().name);
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Graph once = random_graph({.seed = seed, .nodes = 60, .repeat = 0.4});
    run_graph_passes({pass}, once);
    Graph twice = once;
    run_graph_passes({pass}, twice);
    ASSERT_EQ(print(twice), print(once)) << "seed " << seed;
  }
}

TEST_P(EveryPass, TakesEmptyFunctions) {
  Graph graph = parse_graph("graph @g func @step {}", "t");
  EXPECT_NO_THROW(run_graph_passes({std::string(GetParam().name)}, graph));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    EveryPass,
    testing::ValuesIn(graph_passes()),
    [](const testing::TestParamInfo<GraphPass>& pass) {
      return join(split(pass.param.name, '-'), "_");
    });

TEST(GraphPass, AnUnknownNameIsRefusedBeforeAnyPassRuns) {
  Graph graph = random_graph({.seed = 1, .nodes = 20});
  const Graph before = graph;
  try {
    run_graph_passes({"dead-code", "fuse"}, graph);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "no pass on graphs has the name \"fuse\"; there are dead-code, "
        "common-subexpressions, fold-recompute, strip-releases, "
        "canonical-names, drop-gradient-outputs");
  }
  EXPECT_EQ(graph, before);
}

TEST(DropGradientOutputs, DropsThemAndNothingElse) {
  Graph graph = parse_graph(
      "graph @g func @step { input %w : f32[2] = parameter \"w\" trained "
      "forward: %a = aten.relu(%w) : f32[2] return loss = %a "
      "return gradient \"w\" = %a return buffer \"b\" = %a }",
      "t");
  run_graph_passes({"drop-gradient-outputs"}, graph);
  const std::vector<Output>& outputs = step_of(graph).outputs;
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[0].kind, OutputKind::Loss);
  EXPECT_EQ(outputs[1].kind, OutputKind::Buffer);
}

TEST(CallKey, TellsZerosApart) {
  const Graph graph = parse_graph(
      "graph @g func @step { forward: %a = aten.full([2], 0.0) : f32[2] "
      "%b = aten.full([2], -0.0) : f32[2] %c = aten.full([2], 0.0) : f32[2] "
      "release(%a) }",
      "t");
  const Function& step = step_of(graph);
  EXPECT_NE(call_key(step, step.nodes[0]), call_key(step, step.nodes[1]));
  EXPECT_EQ(call_key(step, step.nodes[0]), call_key(step, step.nodes[2]));
}

}  // namespace
}  // namespace weft
