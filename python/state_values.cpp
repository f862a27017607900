// SPDX-License-Identifier: Apache-2.0
#include "state_values.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <typeinfo>

namespace py = pybind11;

namespace weft {
namespace {

constexpr Py_ssize_t kMaxArrayBytes = 1 << 20;

// A hook of Python's is a dict of them, which stays when they are removed. It
// is known by the name of its type, which PyTorch's library does not export.
template <typename PythonHook, typename Hooks>
size_t count_hooks(const Hooks& hooks, const char* name) {
  size_t count = 0;
  for (const auto& hook : hooks) {
    const auto& it = *hook;
    count += std::strstr(typeid(it).name(), name) == nullptr
                 ? 1
                 : static_cast<size_t>(PyDict_GET_SIZE(
                       static_cast<const PythonHook&>(it).dict));
  }
  return count;
}

}  // namespace

py::object borrowed(PyObject* object) {
  return py::reinterpret_borrow<py::object>(object);
}

std::string text_of(PyObject* object) {
  PyObject* text = PyObject_Str(object);
  if (text == nullptr) {
    // A class of the script's whose objects cannot be printed.
    PyErr_Clear();
    return Py_TYPE(object)->tp_name;
  }
  return py::reinterpret_steal<py::str>(text).cast<std::string>();
}

bool is_equal(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) {
    return false;
  }
  if (PyFloat_CheckExact(a)) {
    // By bits: minus zero is another number, and one that is none stays it.
    const double x = PyFloat_AS_DOUBLE(a);
    const double y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof(x)) == 0;
  }
  const int result = PyObject_RichCompareBool(a, b, Py_EQ);
  if (result < 0) {
    PyErr_Clear();
  }
  return result == 1;
}

py::object bytes_of(PyObject* array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return py::none();
  }
  py::object content = py::none();
  if (view.len <= kMaxArrayBytes) {
    content = py::reinterpret_steal<py::object>(
        PyBytes_FromStringAndSize(nullptr, view.len));
    PyBuffer_ToContiguous(
        PyBytes_AS_STRING(content.ptr()), &view, view.len, 'C');
  }
  PyBuffer_Release(&view);
  return content;
}

py::object random_state(PyObject* source) {
  const py::object object = borrowed(source);
  return py::hasattr(object, "getstate")
             ? py::object(object.attr("getstate")())
             : py::object(object.attr("bit_generator").attr("state"));
}

bool is_in_state(PyObject* source, PyObject* state) {
  const py::object now = random_state(source);
  // NumPy's have arrays in them, which do not compare as one.
  return PyDict_Check(state) ? text_of(now.ptr()) == text_of(state)
                             : is_equal(now.ptr(), state);
}

void set_random_state(PyObject* source, PyObject* state) {
  const py::object object = borrowed(source);
  if (py::hasattr(object, "setstate")) {
    object.attr("setstate")(borrowed(state));
  } else {
    object.attr("bit_generator").attr("state") = borrowed(state);
  }
}

Py_ssize_t element_count(PyObject* container) {
  if (PyList_Check(container)) {
    return PyList_GET_SIZE(container);
  }
  if (PyTuple_Check(container)) {
    return PyTuple_GET_SIZE(container);
  }
  if (PyDict_Check(container)) {
    return PyDict_GET_SIZE(container);
  }
  if (PyAnySet_Check(container)) {
    return PySet_GET_SIZE(container);
  }
  const Py_ssize_t size = PyObject_Size(container);
  if (size < 0) {
    PyErr_Clear();
  }
  return std::max<Py_ssize_t>(size, 0);
}

py::object element(PyObject* sequence, size_t i) {
  const auto at = static_cast<Py_ssize_t>(i);
  if (PyList_Check(sequence)) {
    return borrowed(PyList_GET_ITEM(sequence, at));
  }
  if (PyTuple_Check(sequence)) {
    return borrowed(PyTuple_GET_ITEM(sequence, at));
  }
  return py::reinterpret_steal<py::object>(PySequence_GetItem(sequence, at));
}

std::vector<const char*> held_by_callable(PyObject* callable) {
  if (PyMethod_Check(callable)) {
    return {"__self__"};
  }
  if (PyFunction_Check(callable)) {
    const auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    const bool has_any = function->func_defaults != nullptr ||
                         function->func_kwdefaults != nullptr ||
                         function->func_dict != nullptr;
    return has_any ? std::vector{"__defaults__", "__kwdefaults__", "__dict__"}
                   : std::vector<const char*>();
  }
  const std::string_view name = Py_TYPE(callable)->tp_name;
  return name == "functools.partial" ? std::vector{"func", "args", "keywords"}
                                     : std::vector<const char*>();
}

std::array<PyObject*, 2> hooks_of(PyObject* tensor) {
  const auto* variable = reinterpret_cast<const THPVariable*>(tensor);
  return {variable->backward_hooks, variable->post_accumulate_grad_hooks};
}

size_t accumulator_hooks(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr || meta->grad_fn_) {
    return 0;
  }
  const auto node = meta->grad_accumulator_.lock();
  // Which of them are of Python, and still there, PyTorch does not tell.
  return node == nullptr ? 0
                         : count_hooks<torch::autograd::PyFunctionPreHook>(
                               node->pre_hooks(), "PyFunctionPreHook") +
                               count_hooks<torch::autograd::PyFunctionPostHook>(
                                   node->post_hooks(), "PyFunctionPostHook");
}

}  // namespace weft
