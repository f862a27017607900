// SPDX-License-Identifier: Apache-2.0
// Which code of Python runs in this thread: functions are told of before their
// first line.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <unordered_map>
#include <vector>

namespace weft {

class ExecutedCode {
 public:
  // `entered(frame)` is called for every function at its first call, and at
  // every call where it has answered True.
  explicit ExecutedCode(pybind11::object entered);
  ~ExecutedCode();
  ExecutedCode(const ExecutedCode&) = delete;
  ExecutedCode& operator=(const ExecutedCode&) = delete;

  // Between the two, a profiler that was there goes on to be called.
  void start();
  // Throws what `entered` threw.
  void stop();

  const std::vector<pybind11::object>& codes() const { return codes_; }

 private:
  static int on_event(
      PyObject* self, PyFrameObject* frame, int event, PyObject* argument);
  void on_call(PyFrameObject* frame);

  pybind11::object entered_;
  // With whether it is told of again.
  std::unordered_map<const PyCodeObject*, bool> seen_;
  std::vector<pybind11::object> codes_;
  std::vector<pybind11::error_already_set> errors_;
  bool is_on_ = false;
  Py_tracefunc outer_ = nullptr;
  pybind11::object outer_argument_;
};

}  // namespace weft
