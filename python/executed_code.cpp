// SPDX-License-Identifier: Apache-2.0
#include "executed_code.h"

#include <frameobject.h>
#include <utility>

namespace py = pybind11;

namespace weft {

ExecutedCode::ExecutedCode(py::object entered) : entered_(std::move(entered)) {}

ExecutedCode::~ExecutedCode() {
  errors_.clear();
  stop();
}

void ExecutedCode::start() {
  const PyThreadState* thread = PyThreadState_Get();
  outer_ = thread->c_profilefunc;
  outer_argument_ = py::reinterpret_borrow<py::object>(thread->c_profileobj);
  is_on_ = true;
  PyEval_SetProfile(&on_event, py::capsule(this, [](void*) {}).ptr());
}

void ExecutedCode::stop() {
  if (is_on_) {
    is_on_ = false;
    PyEval_SetProfile(outer_, outer_argument_.ptr());
    outer_argument_ = py::object();
  }
  if (!errors_.empty()) {
    py::error_already_set error = std::move(errors_.front());
    errors_.clear();
    throw error;
  }
}

int ExecutedCode::on_event(
    PyObject* self, PyFrameObject* frame, int event, PyObject* argument) {
  auto* watch = static_cast<ExecutedCode*>(PyCapsule_GetPointer(self, nullptr));
  if (event == PyTrace_CALL) {
    watch->on_call(frame);
  }
  return watch->outer_ == nullptr
             ? 0
             : watch->outer_(
                   watch->outer_argument_.ptr(), frame, event, argument);
}

void ExecutedCode::on_call(PyFrameObject* frame) {
  const auto code = py::reinterpret_steal<py::object>(
      reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  const auto [found, is_new] = seen_.try_emplace(
      reinterpret_cast<const PyCodeObject*>(code.ptr()), false);
  if (!is_new && !found->second) {
    return;
  }
  if (is_new) {
    codes_.push_back(code);
  }
  // What is called may enter other functions.
  bool& is_told_again = found->second;
  try {
    const py::object answer = entered_(
        py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(frame)));
    is_told_again = answer.is(py::bool_(true));
  } catch (py::error_already_set& error) {
    errors_.push_back(std::move(error));
  }
}

}  // namespace weft
