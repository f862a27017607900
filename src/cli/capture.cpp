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
  std::string model;
  std::string output = "-";
  std::vector<std::string> settings;
  std::optional<int64_t> batch_size;
  std::string python;
};

void run_capture(const CaptureFlags& flags) {
  ModelOptions options;
  options.batch_size = flags.batch_size;
  options.python = flags.python;
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    WEFT_CHECK_USER(
        equals != std::string::npos && equals > 0,
        "--set takes key=value, found: ",
        setting);
    options.set.emplace_back(
        setting.substr(0, equals), setting.substr(equals + 1));
  }
  write_output(flags.output, print(load_model(flags.model, options).graph));
}

}  // namespace

void add_capture_command(CLI::App& app) {
  const auto flags = std::make_shared<CaptureFlags>();
  CLI::App* command = app.add_subcommand(
      "capture", "Write a model's training step down as a graph");
  command->group(kStepGroup);
  command
      ->add_option(
          "MODEL", flags->model, "FILE.py:FUNCTION, FILE.pt2 or FILE.graph")
      ->type_name("")
      ->required();
  command
      ->add_option(
          "-o,--output", flags->output, "Where to write; - for the output")
      ->type_name("FILE");
  command
      ->add_option(
          "--batch-size",
          flags->batch_size,
          "The batch that FUNCTION is asked for")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command
      ->add_option(
          "--set", flags->settings, "key=value, an argument of FUNCTION")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("");
  command->add_option("--python", flags->python, "The interpreter for FILE.py")
      ->type_name("FILE");
  command->footer(R"(Examples:
  weft capture examples/models/gpt.py:gpt2_small -o gpt.graph
  weft capture model.pt2 -o model.graph)");
  command->callback([flags] { run_capture(*flags); });
}

}  // namespace weft
