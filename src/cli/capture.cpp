// SPDX-License-Identifier: Apache-2.0
// weft capture: a model in, the Graph of its training step out.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "graph/graph.h"

#include <CLI/CLI.hpp>
#include <memory>

namespace weft {
namespace {

struct CaptureFlags {
  ModelFlags model;
  std::string output = "-";
};

void run_capture(const CaptureFlags& flags) {
  go_on_in_python(flags.model);
  write_output(
      flags.output,
      print(load_model(flags.model.model, model_options(flags.model)).graph));
}

}  // namespace

void add_capture_command(CLI::App& app) {
  const auto flags = std::make_shared<CaptureFlags>();
  CLI::App* command = app.add_subcommand(
      "capture", "Write a model's training step down as a graph");
  command->group(kStepGroup);
  add_model_flags(*command, flags->model);
  command->get_option("MODEL")->required();
  add_batch_size_flag(*command, flags->model);
  command
      ->add_option(
          "-o,--output", flags->output, "Where to write; - for the output")
      ->type_name("FILE");
  command->footer(R"(Examples:
  weft capture examples/models/gpt.py:gpt2_small -o gpt.graph
  weft capture model.pt2 -o model.graph)");
  command->callback([flags] { run_capture(*flags); });
}

}  // namespace weft
