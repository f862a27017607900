// SPDX-License-Identifier: Apache-2.0
#include "search/layout_problem.h"

#include "base/text.h"
#include "graph/graph.h"
#include "plan/parallel.h"
#include "search/test_step.h"

#include <gtest/gtest.h>
#include <random>

namespace weft {
namespace {

LayoutSpace space_of(const Graph& graph, int64_t data, int64_t tensor) {
  Parallel words;
  words.data = data;
  const Plan plan = expand(words, graph);
  return layout_space(lay_out(graph, plan), plan.mesh, {"tensor", tensor, {}});
}

// By all ways to compute the nodes; given these, where each value lies best is
// a matter of that value alone.
double least_of_all(const LayoutSpace& space, const ChoiceProblem& problem) {
  std::vector<std::vector<const ChoiceProblem::Meeting*>> at(
      problem.choices.size());
  for (const ChoiceProblem::Meeting& meeting : problem.meetings) {
    at[meeting.at].push_back(&meeting);
  }
  std::vector<size_t> options(space.nodes.size(), 0);
  double least = kImpossible;
  while (true) {
    double total = 0;
    for (size_t i = 0; i < options.size(); ++i) {
      total += problem.choices[i].seconds[options[i]];
    }
    for (size_t i = options.size(); i < problem.choices.size(); ++i) {
      double best = kImpossible;
      for (size_t k = 0; k < problem.choices[i].seconds.size(); ++k) {
        double now = problem.choices[i].seconds[k];
        for (const ChoiceProblem::Meeting* meeting : at[i]) {
          std::vector<bool> is_paid(meeting->seconds[k].size(), false);
          for (const ChoiceProblem::Party& party : meeting->parties) {
            const size_t need = party.needs[options[party.choice]];
            now += is_paid[need] ? 0 : meeting->seconds[k][need];
            is_paid[need] = true;
          }
        }
        best = std::min(best, now);
      }
      total += best;
    }
    least = std::min(least, total);
    size_t i = 0;
    while (i < options.size() &&
           ++options[i] == problem.choices[i].seconds.size()) {
      options[i++] = 0;
    }
    if (i == options.size()) {
      return least;
    }
  }
}

// Products, sums and functions of what came before, five nodes of them.
Graph random_step(std::mt19937& random) {
  const auto below = [&](size_t end) {
    return std::uniform_int_distribution<size_t>(0, end - 1)(random);
  };
  const int64_t rows = int64_t{32} << below(4);
  struct Known {
    std::string name;
    int64_t width;
  };
  std::vector<Known> known = {{"batch.0", int64_t{64} << below(4)}};
  std::string inputs =
      cat("  input %batch.0 : f32[",
          rows,
          ", ",
          known.front().width,
          "] = batch \"0\"\n");
  std::string nodes;
  const auto add = [&](const std::string& call, int64_t width) {
    const std::string name = cat("v", known.size());
    nodes += cat("  %", name, " = ", call, " : f32[", rows, ", ", width, "]\n");
    known.push_back({name, width});
  };
  for (size_t i = 0; i < 5; ++i) {
    const Known from = known[below(known.size())];
    const Known other = known[below(known.size())];
    const size_t kind = below(4);
    if (kind == 0) {
      add(cat("aten.gelu(%", from.name, ")"), from.width);
    } else if (kind == 1 && other.width == from.width) {
      add(cat("aten.add.Tensor(%", from.name, ", %", other.name, ")"),
          from.width);
    } else {
      const int64_t width = int64_t{64} << below(5);
      inputs +=
          cat("  input %w",
              i,
              " : f32[",
              from.width,
              ", ",
              width,
              "] = parameter \"w",
              i,
              "\" trained\n");
      add(cat("aten.mm(%", from.name, ", %w", i, ")"), width);
    }
  }
  return parse_graph(
      cat("graph @random\n\nfunc @step {\n",
          inputs,
          "forward:\n",
          nodes,
          "  %loss = aten.sum(%",
          known.back().name,
          ") : f32[]\n  return loss = %loss\n}\n"),
      "random");
}

TEST(LayoutProblem, IsSolvedAsByTryingAllWays) {
  std::mt19937 random(3);
  int split = 0;
  for (int i = 0; i < 40; ++i) {
    const Graph graph = random_step(random);
    const LayoutSpace space = space_of(graph, i % 3 == 0 ? 2 : 1, 4);
    const double rate = i % 2 == 0 ? 1e9 : 1e11;
    const Cluster cluster = test_cluster(8, 1e11, rate);
    const LayoutCosts costs(space, cluster, 1);
    const ChoiceProblem problem = layout_problem(space, costs);
    const auto chosen = choose(problem);
    ASSERT_TRUE(chosen) << i;
    const double least = least_of_all(space, problem);
    EXPECT_NEAR(chosen->seconds, least, 1e-7 * least) << i;
    const double whole =
        cost_of(problem, std::vector<size_t>(problem.choices.size(), 0))
            .seconds;
    split += chosen->seconds < whole ? 1 : 0;
  }
  // Splitting is worth something in most of them.
  EXPECT_GE(split, 20);
}

TEST(LayoutProblem, FindsColumnsThenRows) {
  // Few rows, so that weights are what is large.
  const Graph graph = chain_step(2, 64, 256, 1024);
  const LayoutSpace space = space_of(graph, 1, 4);
  const Cluster cluster = test_cluster(4, 1e11, 1e9);
  const LayoutCosts costs(space, cluster, 1);
  const auto chosen = choose(layout_problem(space, costs));
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->is_relaxed);
  const std::vector<Layout> resting = resting_layouts(space, *chosen);
  const auto layout = [&](const std::string& name) {
    for (size_t i = 0; i < resting.size(); ++i) {
      if (space.step()[space.values[i].value].name == name) {
        return print(resting[i]);
      }
    }
    return std::string("none");
  };
  EXPECT_EQ(layout("l.0.up"), "[tensor, -]");
  EXPECT_EQ(layout("l.0.down"), "[-, tensor]");
  EXPECT_EQ(layout("l.0/gelu"), "[-, tensor]");
}

TEST(LayoutProblem, LessMemoryTakesMoreTime) {
  // Many rows: parts of the batch are fastest, with all weights on every rank.
  const Graph graph = chain_step(2, 1024, 64, 256);
  const LayoutSpace space = space_of(graph, 1, 4);
  const Cluster cluster = test_cluster(4, 1e11, 1e10);
  const LayoutCosts costs(space, cluster, 1);
  const ChoiceProblem problem = layout_problem(space, costs);
  const auto fastest = choose(problem);
  ASSERT_TRUE(fastest);
  const auto smaller = choose(problem, 0.9 * fastest->bytes);
  ASSERT_TRUE(smaller);
  EXPECT_LE(smaller->bytes, 0.9 * fastest->bytes);
  EXPECT_GT(smaller->seconds, fastest->seconds);
}

}  // namespace
}  // namespace weft
