// SPDX-License-Identifier: Apache-2.0
#include "cli/load_model.h"

#include "base/error.h"
#include "base/text.h"
#include "capture/capture_export.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

// A folder that goes away with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "weft.XXXXXX").string();
    WEFT_CHECK_USER(
        ::mkdtemp(pattern.data()),
        "cannot make a folder for the captured graph in ",
        fs::temp_directory_path().string(),
        ": set TMPDIR to a folder with room");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

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
  std::vector<std::string> words = {
      python, "-m", "weft.capture_file", model, output};
  for (const auto& [key, value] : options.set) {
    words.push_back(cat(key, "=", value));
  }
  if (options.batch_size) {
    words.push_back(cat("batch_size=", *options.batch_size));
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

LoadedModel load_export(const std::string& model, const ModelOptions& options) {
  WEFT_CHECK_USER(
      !options.batch_size && options.set.empty(),
      model,
      ": a .pt2 file has its sizes written in; --batch-size and --set are for "
      "FILE.py:FUNCTION");
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

LoadedModel load_model(const std::string& model, const ModelOptions& options) {
  if (model.ends_with(".graph")) {
    WEFT_CHECK_USER(
        !options.batch_size && options.set.empty(),
        model,
        ": a .graph file has its sizes written in; --batch-size and --set are "
        "for FILE.py:FUNCTION");
    return load_text(model);
  }
  if (model.ends_with(".pt2")) {
    return load_export(model, options);
  }
  WEFT_CHECK_USER(
      model.find(".py") != std::string::npos,
      model,
      ": a model is FILE.py:FUNCTION, FILE.pt2 or FILE.graph");
  return load_python(model, options);
}

}  // namespace weft
