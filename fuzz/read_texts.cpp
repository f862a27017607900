// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "graph/graph.h"
#include "lower/lower.h"
#include "ops/verify_calls.h"
#include "plan/plan.h"
#include "plan/schedule.h"
#include "profile/profile.h"
#include "program/program.h"
#include "program/timeline.h"
#include "reader.h"
#include "rewrite/graph_pass.h"
#include "simulate/gpt_run.h"
#include "simulate/simulate.h"

#include <algorithm>

namespace weft {
namespace {

constexpr const char* kSource = "<fuzz>";
// Of ranks, simulated one by one, and of a table of events: what is right and
// slow is not looked for here.
constexpr int64_t kMostRanks = 64;

template <typename Call>
void allow_user_errors(Call&& call) {
  try {
    call();
  } catch (const UserError&) {
    // An answer.
  }
}

// parse(print(x)) == x, by what they print: not every noun compares.
template <typename Noun, typename Parse>
void check_round_trip(const Noun& noun, Parse&& parse) {
  const std::string text = print(noun);
  std::string again;
  try {
    again = print(parse(text));
  } catch (const UserError& error) {
    throw InternalError(
        cat("its own text is refused: ", error.what(), "\n", text));
  }
  WEFT_CHECK(again == text, "printed\n", text, "and then\n", again);
}

const Cluster& small_cluster() {
  static const Cluster cluster = load_cluster("2x8xA100-80G");
  return cluster;
}

bool is_small(const Program& program) {
  int64_t ranks = 1;
  for (const Mesh& mesh : program.meshes) {
    for (const Axis& axis : mesh.axes) {
      ranks = axis.size > kMostRanks ? axis.size : ranks * axis.size;
    }
  }
  for (const Axis& axis : program.time.axes) {
    ranks = axis.size > kMostRanks ? axis.size : ranks * axis.size;
  }
  return ranks <= kMostRanks;
}

// Flops and bytes of all values together are counted in 64 bits.
bool is_small(const Function& function) {
  constexpr int64_t kMostElements = int64_t{1} << 20;
  return std::all_of(
      function.values.begin(), function.values.end(), [](const Value& value) {
        const Dims& sizes = value.type.sizes;
        return std::all_of(
                   sizes.begin(),
                   sizes.end(),
                   [](int64_t size) { return size <= kMostElements; }) &&
               element_count(value.type) <= kMostElements;
      });
}

bool is_small(const Graph& graph) {
  return std::all_of(
      graph.functions.begin(),
      graph.functions.end(),
      [](const Function& function) { return is_small(function); });
}

}  // namespace

void read_graph(std::string_view bytes) {
  allow_user_errors([&] {
    Graph graph = parse_graph(bytes, kSource);
    verify(graph);
    check_round_trip(graph, [](const std::string& text) {
      return parse_graph(text, kSource);
    });
    if (!is_small(graph)) {
      return;
    }
    allow_user_errors([&] {
      verify_calls(graph);
      profile(graph);
    });
    for (const GraphPass& pass : graph_passes()) {
      allow_user_errors([&] {
        Graph copy = graph;
        try {
          run_graph_passes({std::string(pass.name)}, copy);
        } catch (const InternalError&) {
          verify_calls(graph);
          throw;
        }
      });
    }
  });
}

void read_program(std::string_view bytes) {
  allow_user_errors([&] {
    const Program program = parse_program(bytes, kSource);
    if (!is_small(program)) {
      return;
    }
    verify(program);
    check_round_trip(program, [](const std::string& text) {
      return parse_program(text, kSource);
    });
    for (const Block& block : program.blocks) {
      if (!is_small(block.function)) {
        return;
      }
      verify_calls(block.function);
    }
    summarize(program, small_cluster());
  });
}

void read_plan(std::string_view bytes) {
  allow_user_errors([&] {
    const Plan plan = parse_plan(bytes, kSource);
    check_round_trip(plan, [](const std::string& text) {
      return parse_plan(text, kSource);
    });
  });
}

void read_cluster(std::string_view bytes) {
  allow_user_errors([&] {
    const Cluster cluster = parse_cluster(bytes, kSource);
    check_round_trip(cluster, [](const std::string& text) {
      return parse_cluster(text, kSource);
    });
  });
}

void read_schedule(std::string_view bytes) {
  allow_user_errors([&] {
    const Schedule schedule = parse_schedule(bytes, kSource);
    verify(schedule);
    check_round_trip(schedule, [](const std::string& text) {
      return parse_schedule(text, kSource);
    });
  });
}

void read_timeline(std::string_view bytes) {
  allow_user_errors([&] {
    const Timeline timeline = parse_timeline(bytes, kSource);
    verify(timeline);
    check_round_trip(timeline, [](const std::string& text) {
      return parse_timeline(text, kSource);
    });
    print(compare(timeline, timeline));
  });
}

void read_table(std::string_view bytes) {
  allow_user_errors([&] { parse_gpt_runs(bytes, kSource); });
}

void read_step(std::string_view bytes) {
  constexpr std::string_view kBetween = "\n----\n";
  const size_t middle = bytes.find(kBetween);
  if (middle == std::string_view::npos) {
    return;
  }
  allow_user_errors([&] {
    const Graph graph = parse_graph(bytes.substr(0, middle), kSource);
    verify(graph);
    if (!is_small(graph)) {
      return;
    }
    verify_calls(graph);
    const Plan plan =
        parse_plan(bytes.substr(middle + kBetween.size()), kSource);
    Program shape;
    shape.meshes = {plan.mesh};
    shape.time = plan.time;
    if (!is_small(shape)) {
      return;
    }
    const Program program = lower(graph, plan, small_cluster());
    summarize(program, small_cluster());
  });
}

}  // namespace weft
