// SPDX-License-Identifier: Apache-2.0
// weft opt: any text of ours in, checked and rewritten, the same kind of text
// out.
#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cluster/cluster.h"
#include "graph/graph.h"
#include "ops/op_page.h"
#include "ops/verify_calls.h"
#include "plan/plan.h"
#include "plan/schedule.h"
#include "program/program.h"
#include "rewrite/graph_pass.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

namespace weft {

namespace {

struct OptOptions {
  std::string input;
  std::string output = "-";
  std::vector<std::string> passes;
  bool list_passes = false;
  bool list_ops = false;
};

struct Text {
  std::string content;
  // As messages name it.
  std::string source;
};

// A kind of text, told by its first word.
struct Noun {
  std::string_view word;
  std::string (*run)(const Text& text, const std::vector<std::string>& passes);
};

void refuse_passes(
    const std::vector<std::string>& passes, std::string_view noun) {
  WEFT_CHECK_USER(passes.empty(), "there are no passes on a ", noun, " yet");
}

std::string opt_graph(
    const Text& text, const std::vector<std::string>& passes) {
  Graph graph = parse_graph(text.content, text.source);
  verify(graph);
  const Graph given = passes.empty() ? Graph() : graph;
  try {
    run_graph_passes(passes, graph);
  } catch (const InternalError&) {
    // Or the text's, where it calls an operator as nobody can.
    verify_calls(given);
    throw;
  }
  return print(graph);
}

std::string opt_cluster(
    const Text& text, const std::vector<std::string>& passes) {
  refuse_passes(passes, "cluster");
  const Cluster cluster = parse_cluster(text.content, text.source);
  verify(cluster);
  return print(cluster);
}

// A plan is checked against its graph when it is lowered; here it stands alone.
std::string opt_plan(const Text& text, const std::vector<std::string>& passes) {
  refuse_passes(passes, "plan");
  return print(parse_plan(text.content, text.source));
}

std::string opt_schedule(
    const Text& text, const std::vector<std::string>& passes) {
  refuse_passes(passes, "schedule");
  const Schedule schedule = parse_schedule(text.content, text.source);
  verify(schedule);
  return print(schedule);
}

std::string opt_program(
    const Text& text, const std::vector<std::string>& passes) {
  refuse_passes(passes, "program");
  const Program program = parse_program(text.content, text.source);
  verify(program);
  return print(program);
}

constexpr Noun kNouns[] = {
    {"graph", opt_graph},
    {"cluster", opt_cluster},
    {"plan", opt_plan},
    {"schedule", opt_schedule},
    {"program", opt_program}};

const Noun& noun_of(const Text& text) {
  Scanner scanner(text.content, text.source);
  for (const Noun& noun : kNouns) {
    if (scanner.looking_at(noun.word)) {
      return noun;
    }
  }
  std::vector<std::string> words;
  for (const Noun& noun : kNouns) {
    words.push_back(cat("'", noun.word, "'"));
  }
  scanner.fail_expected(cat("one of ", join(words, ", ")));
}

std::string passes_table() {
  size_t width = 0;
  for (const GraphPass& pass : graph_passes()) {
    width = std::max(width, pass.name.size());
  }
  std::string out = "Passes on graphs:\n";
  for (const GraphPass& pass : graph_passes()) {
    const std::string space(width - pass.name.size() + 2, ' ');
    out += cat("  ", pass.name, space, pass.summary, "\n");
  }
  return out;
}

void run_opt(const OptOptions& options) {
  if (options.list_passes) {
    write_output("-", passes_table());
    return;
  }
  if (options.list_ops) {
    write_output(options.output, print_op_page());
    return;
  }
  WEFT_CHECK_USER(
      !options.input.empty(), "no file given; '-' reads the standard input");
  const Text text{
      read_input(options.input),
      options.input == "-" ? "<stdin>" : options.input};
  write_output(options.output, noun_of(text).run(text, options.passes));
}

}  // namespace

void add_opt_command(CLI::App& app) {
  const auto options = std::make_shared<OptOptions>();
  CLI::App* command =
      app.add_subcommand("opt", "Check a text, run passes on it, print it");
  command->group(kTextGroup);
  command
      ->add_option(
          "FILE",
          options->input,
          "A graph, cluster, plan, schedule or program; - for the standard "
          "input")
      ->type_name("");
  command
      ->add_option("--pass", options->passes, "Passes to run, in order: a,b,c")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES");
  command
      ->add_option(
          "-o,--output", options->output, "Where to write; - for the output")
      ->type_name("FILE");
  command->add_flag(
      "--list-passes", options->list_passes, "List the passes and exit");
  command->add_flag(
      "--list-ops",
      options->list_ops,
      "Print the table of operators as Markdown and exit");
  command->footer(R"(Examples:
  weft opt step.graph
  weft opt --pass=fold-recompute,dead-code step.graph -o plain.graph
  weft opt --list-passes)");
  command->callback([options] { run_opt(*options); });
}

}  // namespace weft
