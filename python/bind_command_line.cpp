// SPDX-License-Identifier: Apache-2.0
// The program `weft` in a Python process.
#include "base/error.h"
#include "binding.h"
#include "cli/cli.h"
#include "cli/load_model.h"
#include "graph/graph.h"

#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace weft {
namespace {

// What `capture(model, settings)` of Python gives: a weft.capture.Captured.
PythonCapture calls(py::function capture) {
  return [capture = std::move(capture)](
             const std::string& model,
             const std::vector<std::string>& settings) {
    const py::gil_scoped_acquire acquire;
    py::object captured;
    try {
      captured = capture(model, settings);
    } catch (const py::error_already_set& error) {
      if (!error.matches(py::module_::import("weft").attr("UserError"))) {
        throw;
      }
      throw UserError(py::str(error.value()));
    }
    LoadedModel loaded;
    // Nobody else sees the graph, which is large.
    loaded.graph = std::move(captured.attr("graph").cast<Graph&>());
    loaded.build_seconds = captured.attr("build_seconds").cast<double>();
    loaded.capture_seconds = captured.attr("capture_seconds").cast<double>();
    return loaded;
  };
}

int run_words(const std::vector<std::string>& words, py::function capture) {
  set_python_capture(calls(std::move(capture)));
  std::vector<const char*> argv = {"weft"};
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  const py::gil_scoped_release release;
  const int status =
      run_command_line(static_cast<int>(argv.size()), argv.data());
  std::cout.flush();
  return status;
}

}  // namespace

void bind_command_line(py::module_& module) {
  module.def("run_command_line", run_words);
}

}  // namespace weft
