// SPDX-License-Identifier: Apache-2.0
// What a step reads of Python, for weft/fingerprint.py.
#include "binding.h"
#include "executed_code.h"
#include "state_watch.h"

namespace py = pybind11;

namespace weft {

void bind_state(py::module_& module) {
  py::class_<StateWatch>(module, "StateWatch")
      .def(py::init<py::object>(), py::arg("kind_of"))
      .def("add_module", &StateWatch::add_module)
      .def("add_item", &StateWatch::add_item)
      .def("add_class_attribute", &StateWatch::add_class_attribute)
      .def("add_cell", &StateWatch::add_cell)
      .def("keep_names", &StateWatch::keep_names)
      .def("is_same", [](StateWatch& watch) { return watch.is_same(); })
      .def("difference", [](StateWatch& watch) { return watch.difference(); })
      .def("restore", &StateWatch::restore)
      .def("refresh", &StateWatch::refresh)
      .def("__len__", &StateWatch::size);
  py::class_<ExecutedCode>(module, "ExecutedCode")
      .def(py::init<py::object>(), py::arg("entered"))
      .def("start", &ExecutedCode::start)
      .def("stop", &ExecutedCode::stop)
      .def_property_readonly("codes", &ExecutedCode::codes);
}

}  // namespace weft
