// SPDX-License-Identifier: Apache-2.0
#include "cli/load_model.h"

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/capture_export.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/number_flags.h"
#include "cli/temporary_folder.h"
#include "cli/terminal.h"
#include "cli/wait_for_python.h"
#include "ops/verify_calls.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

// As `python -P -m MODULE` (-P is newer than the oldest Python we run on): a
// torch.py in the folder where `weft` is called is none of ours. And what
// importing PyTorch makes is not looked through for garbage again and again, a
// quarter of the time.
std::vector<std::string> python_words(
    const std::string& python, std::string_view module) {
  return {
      python,
      "-c",
      cat("import sys; sys.path[:1] == [''] and sys.path.pop(0); import gc; "
          "gc.disable(); import runpy; runpy.run_module('",
          module,
          "', run_name='__main__')")};
}

// A search makes and drops many small lists, in several threads: with jemalloc
// it takes a third less time. Where the build found none, glibc's allocator
// takes a twentieth less when it keeps more of them at hand. What the user has
// set stays.
void choose_allocator() {
#ifdef WEFT_JEMALLOC
  if (::access(WEFT_JEMALLOC, R_OK) == 0) {
    ::setenv("LD_PRELOAD", WEFT_JEMALLOC, 0);
    return;
  }
#endif
  ::setenv(
      "GLIBC_TUNABLES",
      "glibc.malloc.tcache_count=60000:glibc.malloc.tcache_max=1024",
      0);
}

PythonCapture& capture_here() {
  static PythonCapture capture;
  return capture;
}

// `named` as the user says; "" for the one beside `weft`.
std::string interpreter(const std::string& named) {
  if (!named.empty()) {
    return named;
  }
  std::error_code ignored;
  const fs::path beside =
      fs::read_symlink("/proc/self/exe", ignored).parent_path() / "python";
  if (fs::exists(beside, ignored)) {
    return beside.string();
  }
  const char* variable = std::getenv("WEFT_PYTHON");
  return variable ? variable : "python3";
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
    // Nobody would wait for what it finds.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    choose_allocator();
    ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
  }
  return wait_for_python(child);
}

[[noreturn]] void fail_python(
    const std::string& model, const std::string& python, int code) {
  throw UserError(
      cat(model,
          ": the Python process that captures it ended with ",
          code,
          code == 127 ? cat(" (is there a ", python, " with Weft installed?)")
                      : std::string()));
}

// KEY=VALUE, as weft.capture_file takes them.
std::vector<std::string> capture_words(const ModelOptions& options) {
  std::vector<std::string> words;
  for (const auto& [key, value] : options.set) {
    words.push_back(cat(key, "=", value));
  }
  if (options.batch_size) {
    words.push_back(cat("batch_size=", *options.batch_size));
  }
  if (options.precision != "f32") {
    words.push_back(cat("capture:precision=", options.precision));
  }
  if (!options.loss.empty()) {
    words.push_back(cat("capture:loss=", options.loss));
  }
  if (options.evaluation) {
    words.emplace_back("capture:evaluation=true");
  }
  for (const auto& [key, type] : options.batch_types) {
    words.push_back(cat("batch:", key, "=", type));
  }
  return words;
}

LoadedModel load_python(const std::string& model, const ModelOptions& options) {
  const std::vector<std::string> settings = capture_words(options);
  if (capture_here()) {
    return capture_here()(model, settings);
  }
  const TemporaryFolder folder;
  const std::string output = folder.file("model.graph");
  const std::string python = interpreter(options.python);
  std::vector<std::string> words = python_words(python, "weft.capture_file");
  words.insert(words.end(), {model, output});
  words.insert(words.end(), settings.begin(), settings.end());
  const int code = run(words);
  if (code != 0) {
    fail_python(model, python, code);
  }
  const auto report = parse_json<nlohmann::json>(read_file(output + ".json"));
  WEFT_CHECK_USER(
      !report.contains("error"), report.value("error", std::string()));
  LoadedModel loaded;
  loaded.graph = parse_graph(read_file(output), model);
  loaded.build_seconds = report.at("build_seconds");
  loaded.capture_seconds = report.at("capture_seconds");
  loaded.hugging_face = report.value("hugging_face", std::string());
  return loaded;
}

// What is written down already takes nothing that says how to write it down.
void refuse_capture_options(
    const std::string& model, const ModelOptions& options) {
  WEFT_CHECK_USER(
      !options.batch_size && options.set.empty() &&
          options.precision == "f32" && options.loss.empty(),
      model,
      ": it has its sizes, its precision and its loss written in; "
      "--batch-size, "
      "--set, --precision and --loss are for FILE.py:FUNCTION");
  WEFT_CHECK_USER(
      !options.evaluation,
      model,
      ": it is a training step, which would train on what it shall evaluate; "
      "evaluation is for FILE.py:FUNCTION");
}

// Nor does it take other batches than those that it was written down for.
void refuse_other_batches(
    const std::string& model, const ModelOptions& options, const Graph& graph) {
  const Function& step = step_of(graph);
  for (const auto& [key, type] : options.batch_types) {
    for (const Input& input : step.inputs) {
      WEFT_CHECK_USER(
          input.kind != InputKind::Batch || input.keys.front() != key ||
              print(step[input.value].type) == type,
          model,
          ": its batch has ",
          print(step[input.value].type),
          " as ",
          quote(key),
          ", and it is asked for ",
          type,
          ". Batches of several sizes are for FILE.py:FUNCTION");
    }
  }
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
  verify_calls(loaded.graph);
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
  command
      .add_option(
          "--loss",
          flags.loss,
          "Where the loss is in what the model returns: a place or a key")
      ->type_name("KEY");
  command.add_option("--python", flags.python, "The interpreter for FILE.py")
      ->type_name("PROGRAM");
}

void add_batch_size_flag(CLI::App& command, ModelFlags& flags) {
  command
      .add_option(
          "--batch-size",
          flags.batch_size,
          "The batch that FUNCTION is asked for")
      ->transform(whole_number(kBatchRows))
      ->type_name("N");
}

ModelOptions model_options(const ModelFlags& flags) {
  ModelOptions options;
  options.batch_size = flags.batch_size;
  options.python = flags.python;
  options.loss = flags.loss;
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

void set_python_capture(PythonCapture capture) {
  capture_here() = std::move(capture);
}

void go_on_in_python(const ModelFlags& flags) {
  if (capture_here() || !is_python_model(flags.model)) {
    return;
  }
  const std::string python = interpreter(flags.python);
  std::vector<std::string> words = python_words(python, "weft.command_line");
  words.insert(words.end(), command_line().begin(), command_line().end());
  const ProgressLine line("starting Python");
  const int code = run(words);
  if (code != 0 && code != kUserErrorStatus && code != kInternalErrorStatus) {
    fail_python(flags.model, python, code);
  }
  throw CLI::RuntimeError(code);
}

bool is_python_model(const std::string& model) {
  return !model.ends_with(".graph") && !model.ends_with(".pt2") &&
         model.find(".py") != std::string::npos;
}

LoadedModel load_model(const std::string& model, const ModelOptions& options) {
  if (model.ends_with(".graph")) {
    refuse_capture_options(model, options);
    LoadedModel loaded = load_text(model);
    refuse_other_batches(model, options, loaded.graph);
    return loaded;
  }
  if (model.ends_with(".pt2")) {
    refuse_capture_options(model, options);
    LoadedModel loaded = load_export(model);
    refuse_other_batches(model, options, loaded.graph);
    return loaded;
  }
  WEFT_CHECK_USER(
      is_python_model(model),
      model,
      ": a model is FILE.py:FUNCTION, FILE.pt2 or FILE.graph");
  return load_python(model, options);
}

}  // namespace weft
