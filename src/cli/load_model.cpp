// SPDX-License-Identifier: Apache-2.0
#include "cli/load_model.h"

#include "base/error.h"
#include "base/text.h"
#include "capture/capture_export.h"
#include "cli/temporary_folder.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

// As `python -m weft.capture_file`, but that what importing PyTorch makes is
// not looked through for garbage again and again, a quarter of the time.
constexpr const char* kCaptureFile =
    "import gc; gc.disable(); import runpy; "
    "runpy.run_module('weft.capture_file', run_name='__main__')";

std::string interpreter(const ModelOptions& options) {
  if (!options.python.empty()) {
    return options.python;
  }
  std::error_code ignored;
  const fs::path beside =
      fs::read_symlink("/proc/self/exe", ignored).parent_path() / "python";
  if (fs::exists(beside, ignored)) {
    return beside.string();
  }
  const char* named = std::getenv("WEFT_PYTHON");
  return named ? named : "python3";
}

// Runs a program to its end and gives its exit code, or 128 + the signal.
int run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  WEFT_CHECK_USER(child >= 0, "cannot start another process");
  if (child == 0) {
    ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

LoadedModel load_python(const std::string& model, const ModelOptions& options) {
  const TemporaryFolder folder;
  const std::string output = folder.file("model.graph");
  const std::string python = interpreter(options);
  std::vector<std::string> words = {python, "-c", kCaptureFile, model, output};
  for (const auto& [key, value] : options.set) {
    words.push_back(cat(key, "=", value));
  }
  if (options.batch_size) {
    words.push_back(cat("batch_size=", *options.batch_size));
  }
  if (options.precision != "f32") {
    words.push_back(cat("capture:precision=", options.precision));
  }
  if (options.evaluation) {
    words.emplace_back("capture:evaluation=true");
  }
  for (const auto& [key, type] : options.batch_types) {
    words.push_back(cat("batch:", key, "=", type));
  }
  const int code = run(words);
  WEFT_CHECK_USER(
      code == 0,
      model,
      ": the Python process that captures it ended with ",
      code,
      code == 127 ? cat(" (is there a ", python, " with Weft installed?)")
                  : std::string());
  const auto report = nlohmann::json::parse(read_file(output + ".json"));
  WEFT_CHECK_USER(
      !report.contains("error"), report.value("error", std::string()));
  LoadedModel loaded;
  loaded.graph = parse_graph(read_file(output), model);
  loaded.build_seconds = report.at("build_seconds");
  loaded.capture_seconds = report.at("capture_seconds");
  return loaded;
}

// What is written down already takes nothing that says how to write it down.
void refuse_capture_options(
    const std::string& model, const ModelOptions& options) {
  WEFT_CHECK_USER(
      !options.batch_size && options.set.empty() && options.precision == "f32",
      model,
      ": it has its sizes and its precision written in; --batch-size, --set "
      "and --precision are for FILE.py:FUNCTION");
}

LoadedModel load_export(const std::string& model) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel loaded;
  loaded.graph = capture_export(model);
  loaded.capture_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return loaded;
}

LoadedModel load_text(const std::string& model) {
  LoadedModel loaded;
  loaded.graph = parse_graph(read_file(model), model);
  verify(loaded.graph);
  return loaded;
}

}  // namespace

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option(
          "MODEL", flags.model, "FILE.py:FUNCTION, FILE.pt2 or FILE.graph")
      ->type_name("");
  command
      .add_option("--set", flags.settings, "An argument of FUNCTION; repeat")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command.add_option("--python", flags.python, "The interpreter for FILE.py")
      ->type_name("PROGRAM");
}

void add_batch_size_flag(CLI::App& command, ModelFlags& flags) {
  command
      .add_option(
          "--batch-size",
          flags.batch_size,
          "The batch that FUNCTION is asked for")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
}

ModelOptions model_options(const ModelFlags& flags) {
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
  return options;
}

LoadedModel load_model(const std::string& model, const ModelOptions& options) {
  if (model.ends_with(".graph")) {
    refuse_capture_options(model, options);
    return load_text(model);
  }
  if (model.ends_with(".pt2")) {
    refuse_capture_options(model, options);
    return load_export(model);
  }
  WEFT_CHECK_USER(
      model.find(".py") != std::string::npos,
      model,
      ": a model is FILE.py:FUNCTION, FILE.pt2 or FILE.graph");
  return load_python(model, options);
}

}  // namespace weft
