// SPDX-License-Identifier: Apache-2.0
// The verbs of the command line, each in a file of its own: `weft opt` is
// opt.cpp. cli.cpp puts them together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

// The headings of `weft --help`, under which a verb stands.
constexpr const char* kStepGroup = "A training step";
constexpr const char* kTextGroup = "Texts";

// Adds the verb to the program. Its work is done when the command line has been
// read; it throws UserError for what the user can mend.
void add_capture_command(CLI::App& app);
void add_cluster_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_opt_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_simulate_command(CLI::App& app);
void add_train_command(CLI::App& app);

// The words of the command line after the program's name.
const std::vector<std::string>& command_line();

// The whole file, or the standard input for "-".
std::string read_input(const std::string& path);
// To the file, or to the standard output for "-".
void write_output(const std::string& path, std::string_view content);

}  // namespace weft
