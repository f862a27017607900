// SPDX-License-Identifier: Apache-2.0
#include "state_watch.h"

#include "base/error.h"
#include "state_values.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace py = pybind11;

namespace weft {

using Kind = Remembered::Kind;

namespace {

// Containers with more elements are watched by their length, and what lies
// deeper than this by identity: a model may hold a whole vocabulary.
constexpr Py_ssize_t kMaxElements = 4096;
constexpr size_t kMaxDepth = 8;
constexpr size_t kMaxObjects = 4;
constexpr int64_t kMaxValues = 400'000;

bool is_plain_type(const PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  return object == Py_None || type == &PyBool_Type || type == &PyLong_Type ||
         type == &PyFloat_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type ||
         object == Py_Ellipsis;
}

}  // namespace

StateWatch::StateWatch(py::object kind_of)
    : kind_of_(std::move(kind_of)), names_(py::none()), modes_(torch_modes()) {}

const std::string& StateWatch::kind_of(PyTypeObject* type) {
  const auto [found, is_new] = kinds_.try_emplace(type);
  if (is_new) {
    found->second = kind_of_(borrowed(reinterpret_cast<PyObject*>(type)))
                        .cast<std::string>();
  }
  return found->second;
}

void StateWatch::add_module(
    const std::string& path, const py::object& module, bool is_own) {
  Node node;
  node.is_module = true;
  node.is_own = is_own;
  add_node(path, module.ptr(), std::move(node));
}

void StateWatch::add_item(
    const std::string& path, const py::dict& dict, const py::object& key) {
  Root root{path, Place::Item, dict, key, {}};
  Stack on_path;
  const py::object now = current(root);
  root.value = remember(path, now.ptr(), on_path);
  roots_.push_back(std::move(root));
}

void StateWatch::add_class_attribute(
    const std::string& path, const py::object& owner, const py::object& key) {
  Root root{path, Place::ClassAttribute, owner, key, {}};
  Stack on_path;
  const py::object now = current(root);
  root.value = remember(path, now.ptr(), on_path);
  roots_.push_back(std::move(root));
}

void StateWatch::add_cell(
    const std::string& path, const py::object& cell, const py::object& value) {
  Root root{path, Place::Cell, cell, py::none(), {}};
  Stack on_path;
  root.value = remember(path, value.ptr(), on_path);
  roots_.push_back(std::move(root));
}

py::object StateWatch::current(const Root& root) {
  PyObject* found = nullptr;
  switch (root.place) {
    case Place::Item:
      found = PyDict_GetItemWithError(root.owner.ptr(), root.key.ptr());
      break;
    case Place::ClassAttribute:
      found = PyDict_GetItemWithError(
          reinterpret_cast<PyTypeObject*>(root.owner.ptr())->tp_dict,
          root.key.ptr());
      break;
    case Place::Cell:
      found = PyCell_GET(root.owner.ptr());
      break;
  }
  return borrowed(found);
}

uint32_t StateWatch::add_node(
    const std::string& path, PyObject* object, Node node) {
  if (const auto found = node_of_.find(object); found != node_of_.end()) {
    return found->second;
  }
  const auto number = static_cast<uint32_t>(nodes_.size());
  node_of_.emplace(object, number);
  node.path = path;
  node.object = borrowed(object);
  node.depth = node.is_own ? 0 : depth_ + 1;
  nodes_.push_back(std::make_unique<Node>(std::move(node)));
  fill_node(*nodes_[number]);
  return number;
}

void StateWatch::fill_node(Node& node) {
  const size_t outer = std::exchange(depth_, node.depth);
  fill_children(node);
  depth_ = outer;
}

void StateWatch::fill_children(Node& node) {
  const py::object dict = py::getattr(node.object, "__dict__", py::none());
  Stack on_path;
  node.children.clear();
  if (const auto held = held_by_callable(node.object.ptr()); !held.empty()) {
    for (const char* name : held) {
      const py::object value = py::getattr(node.object, name, py::none());
      node.children.emplace_back(
          py::str(name),
          remember(cat(node.path, ".", name), value.ptr(), on_path));
    }
    return;
  }
  if (!PyDict_Check(dict.ptr())) {
    // Members that are declared (__slots__).
    for (const py::handle cls :
         borrowed(reinterpret_cast<PyObject*>(Py_TYPE(node.object.ptr())))
             .attr("__mro__")) {
      const py::object slots = py::getattr(cls, "__slots__", py::tuple());
      for (const py::handle name : py::isinstance<py::str>(slots)
                                       ? py::make_tuple(slots)
                                       : py::tuple(slots)) {
        const py::object value = py::getattr(node.object, name, py::none());
        node.children.emplace_back(
            borrowed(name.ptr()),
            remember(
                cat(node.path, ".", text_of(name.ptr())),
                value.ptr(),
                on_path));
      }
    }
    return;
  }
  node.dict = dict;
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  while (PyDict_Next(dict.ptr(), &position, &key, &value)) {
    const std::string name = text_of(key);
    const std::string path = cat(node.path, ".", name);
    const bool is_part =
        node.is_module && PyDict_Check(value) &&
        (name == "_parameters" || name == "_buffers" || name == "_modules");
    node.children.emplace_back(
        borrowed(key),
        is_part ? remember_members(node.path, value, node.is_own)
                : remember(path, value, on_path));
  }
}

Remembered StateWatch::remember_members(
    const std::string& path, PyObject* mapping, bool is_own) {
  Remembered made{.kind = Kind::Mapping, .object = borrowed(mapping)};
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  while (PyDict_Next(mapping, &position, &key, &value)) {
    Remembered child;
    if (THPVariable_Check(value)) {
      child = remember_tensor(
          cat(path, ".", text_of(key)),
          value,
          is_own ? Kind::Parameter : Kind::Tensor);
    } else if (is_own || value == Py_None) {
      child = {.kind = Kind::Identity, .object = borrowed(value)};
    } else {
      Node node;
      node.is_module = true;
      child = {
          .kind = Kind::Object,
          .number =
              add_node(cat(path, ".", text_of(key)), value, std::move(node)),
          .object = borrowed(value)};
    }
    made.children.emplace_back(borrowed(key), std::move(child));
    ++count_;
  }
  return made;
}

Remembered StateWatch::remember_tensor(
    const std::string& path, PyObject* value, Kind kind) {
  Remembered made{
      .kind = kind,
      .object = borrowed(value),
      .mark =
          std::make_shared<Remembered::TensorMark>(THPVariable_Unpack(value))};
  Stack on_path;
  const std::array<PyObject*, 2> hooks = hooks_of(value);
  if (hooks[0] != nullptr || hooks[1] != nullptr) {
    for (PyObject* each : hooks) {
      made.children.emplace_back(
          py::none(), remember(cat(path, "'s hooks"), each, on_path));
    }
  }
  return made;
}

Remembered StateWatch::remember(
    const std::string& path, PyObject* value, Stack& on_path) {
  ++count_;
  Remembered made{.kind = Kind::Identity, .object = borrowed(value)};
  if (value == nullptr) {
    return made;
  }
  if (is_plain_type(value)) {
    made.kind = Kind::Plain;
    return made;
  }
  if (THPVariable_Check(value)) {
    const at::Tensor& tensor = THPVariable_Unpack(value);
    const bool is_dense =
        tensor.layout() == at::kStrided && !tensor.is_nested();
    return is_dense ? remember_tensor(path, value, Kind::Tensor) : made;
  }
  const bool is_deep =
      on_path.size() >= kMaxDepth || count_ > kMaxValues ||
      std::find(on_path.begin(), on_path.end(), value) != on_path.end();
  const bool is_sequence = PyList_Check(value) || PyTuple_Check(value);
  if (is_sequence || PyDict_Check(value) || PyAnySet_Check(value)) {
    const Py_ssize_t size = element_count(value);
    if (is_deep || size > kMaxElements) {
      made.kind = Kind::Length;
      made.number = static_cast<uint32_t>(size);
      return made;
    }
  }
  const std::string kind =
      is_sequence || PyDict_Check(value) || PyAnySet_Check(value)
          ? ""
          : kind_of(Py_TYPE(value));
  on_path.push_back(value);
  if (is_sequence || kind == "sequence") {
    made.kind = Kind::Sequence;
    const auto size = static_cast<size_t>(element_count(value));
    for (size_t i = 0; i < size; ++i) {
      const py::object item = element(value, i);
      made.children.emplace_back(
          py::none(), remember(cat(path, "[", i, "]"), item.ptr(), on_path));
    }
  } else if (PyDict_Check(value)) {
    made.kind = Kind::Mapping;
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    while (PyDict_Next(value, &position, &key, &item)) {
      made.children.emplace_back(
          borrowed(key),
          remember(cat(path, "[", text_of(key), "]"), item, on_path));
    }
  } else if (PyAnySet_Check(value)) {
    made.kind = Kind::Set;
    for (const py::handle item : borrowed(value)) {
      made.children.emplace_back(
          borrowed(item.ptr()),
          Remembered{.kind = Kind::Plain, .object = borrowed(item.ptr())});
    }
  } else if (kind == "plain") {
    made.kind = Kind::Plain;
  } else if (kind == "left") {
    made.kind = Kind::Left;
  } else if (kind == "array") {
    made.kind = Kind::Array;
    made.content = bytes_of(value);
  } else if (kind == "random") {
    made.kind = Kind::Random;
    made.content = random_state(value);
  } else if (
      !is_deep && depth_ < kMaxObjects &&
      (kind == "object" || kind == "record" || kind == "module" ||
       (kind == "callable" && !held_by_callable(value).empty()))) {
    Node node;
    node.is_filtered = kind != "record" && kind != "callable";
    node.is_module = kind == "module";
    made.kind = Kind::Object;
    made.number = add_node(path, value, std::move(node));
  }
  on_path.pop_back();
  return made;
}

bool StateWatch::is_relevant(PyObject* name) const {
  return names_.is_none() || PySet_Contains(names_.ptr(), name) == 1;
}

void StateWatch::keep_names(const py::object& names) {
  names_ = names;
  for (const std::unique_ptr<Node>& node : nodes_) {
    for (auto& [key, value] : node->children) {
      if (node->is_filtered && !is_relevant(key.ptr())) {
        value = {};
      }
    }
  }
  std::erase_if(roots_, [&](const Root& root) {
    return root.place == Place::ClassAttribute && !is_relevant(root.key.ptr());
  });
  mark_live();
}

void StateWatch::mark_live() {
  for (const std::unique_ptr<Node>& node : nodes_) {
    node->is_live = false;
  }
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (node->is_module && node->is_own) {
      node->is_live = true;
      for (const auto& [key, value] : node->children) {
        mark_live(value);
      }
    }
  }
  for (const Root& root : roots_) {
    mark_live(root.value);
  }
}

void StateWatch::mark_live(const Remembered& value) {
  if (value.kind == Kind::Object) {
    Node& node = *nodes_[value.number];
    if (!node.is_live) {
      node.is_live = true;
      for (const auto& [key, child] : node.children) {
        mark_live(child);
      }
    }
    return;
  }
  for (const auto& [key, child] : value.children) {
    mark_live(child);
  }
}

int64_t StateWatch::size() const {
  int64_t count = static_cast<int64_t>(roots_.size());
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (node->is_live) {
      count += static_cast<int64_t>(node->children.size());
    }
  }
  return count;
}

void StateWatch::refresh() {
  modes_ = torch_modes();
  count_ = 0;
  Stack on_path;
  // Objects that are met again keep their number.
  for (size_t i = 0; i < nodes_.size(); ++i) {
    fill_node(*nodes_[i]);
  }
  for (Root& root : roots_) {
    const py::object now = current(root);
    root.value = remember(root.path, now.ptr(), on_path);
  }
  if (!names_.is_none()) {
    keep_names(names_);
  }
}

}  // namespace weft
