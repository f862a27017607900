// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include "base/error.h"
#include "base/readable.h"
#include "base/text.h"
#include "cli/commands.h"
#include "execute/observed_memory.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace weft {

namespace {

constexpr const char* kDescription =
    "Plans the training of a PyTorch model and runs the plan.";

constexpr const char* kExamples = R"(Examples:
  weft profile examples/models/gpt.py:gpt2_small   what a step costs
  weft train gpt.py:tiny --data src/ --steps 100    train it on text
  weft opt step.graph                              check a graph, print it anew
  weft opt --pass=fold-recompute,dead-code step.graph
  weft COMMAND --help                              all about one command

Exit status: 0 done, 2 a mistake in what was given, 70 a mistake of Weft.)";

std::vector<std::string>& given_words() {
  static std::vector<std::string> words;
  return words;
}

void print_error(std::string_view message) {
  std::cerr << "weft: error: " << readable(message) << "\n";
}

void print_internal_error(std::string_view message) {
  print_error(message);
  std::cerr
      << "This is a mistake of Weft, not yours. Please report it with the "
         "command line and the input.\n";
}

// "weft opt" while reading the arguments of opt: whose help to point to.
std::string command_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command : app.get_subcommands()) {
    name += cat(" ", command_name(*command));
  }
  return name;
}

// One line, whatever CLI11 says in several.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return join(split(text, '\n'), " ");
}

int fail_usage(const CLI::App& app, std::string_view message) {
  print_error(message);
  std::cerr << "try '" << command_name(app) << " --help'\n";
  return kUserErrorStatus;
}

// CLI11 would only say that some command is required.
std::string no_command_message(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  const std::vector<std::string> rest = app.remaining();
  return cat(
      rest.empty() ? "no command is given"
                   : cat("no command has the name '", rest[0], "'"),
      "; there are ",
      join(names, ", "));
}

int read_and_run(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::RuntimeError& error) {
    // A process that the command started has ended, and has said what is wrong.
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    const bool is_no_command =
        app.get_subcommands().empty() && app.remaining_size() > 0;
    return fail_usage(
        app, is_no_command ? no_command_message(app) : one_line(error.what()));
  }
  return app.get_subcommands().empty()
             ? fail_usage(app, no_command_message(app))
             : 0;
}

void set_up(CLI::App& app) {
  app.name("weft");
  app.set_version_flag(
      "--version", "weft " WEFT_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(0, 1);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.footer(kExamples);
  add_capture_command(app);
  add_cluster_command(app);
  add_plan_command(app);
  add_explain_command(app);
  add_profile_command(app);
  add_simulate_command(app);
  add_train_command(app);
  add_export_command(app);
  add_run_command(app);
  add_opt_command(app);
}

}  // namespace

const std::vector<std::string>& command_line() { return given_words(); }

int run_command_line(int argc, const char* const* argv) {
  given_words().assign(argv + 1, argv + argc);
  observe_kernels();
  try {
    CLI::App app(kDescription);
    set_up(app);
    return read_and_run(app, argc, argv);
  } catch (const UserError& error) {
    print_error(error.what());
    return kUserErrorStatus;
  } catch (const InternalError& error) {
    print_internal_error(error.what());
  } catch (const std::exception& error) {
    print_internal_error(cat("unexpected: ", error.what()));
  }
  return kInternalErrorStatus;
}

}  // namespace weft
