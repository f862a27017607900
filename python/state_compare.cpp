// SPDX-License-Identifier: Apache-2.0
// What has changed since it was remembered, and how it is put back.
#include "base/error.h"
#include "state_values.h"
#include "state_watch.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace py = pybind11;

namespace weft {

using Kind = Remembered::Kind;

namespace {

constexpr size_t kAhead = 2;

void prefetch(const std::vector<std::pair<py::object, Remembered>>& children) {
  for (const auto& [key, value] : children) {
    if (value.kind != Kind::Ignored && value.kind != Kind::Plain) {
      __builtin_prefetch(value.object.ptr());
      for (const auto& [inner, item] : value.children) {
        __builtin_prefetch(item.object.ptr());
      }
    }
  }
}

}  // namespace

bool StateWatch::is_same() {
  if (modes_ != torch_modes()) {
    return false;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // What is compared lies all over memory, and waiting for it is the cost.
    if (i + kAhead < nodes_.size() && nodes_[i + kAhead]->is_live) {
      prefetch(nodes_[i + kAhead]->children);
    }
    if (nodes_[i]->is_live && !is_same(*nodes_[i])) {
      return false;
    }
  }
  for (const Root& root : roots_) {
    if (!is_same(root.value, current(root).ptr())) {
      return false;
    }
  }
  return true;
}

bool StateWatch::is_same(const Node& node) const {
  if (!node.dict) {
    for (const auto& [key, value] : node.children) {
      const py::object now = py::getattr(node.object, key, py::none());
      if (!is_same(value, now.ptr())) {
        return false;
      }
    }
    return true;
  }
  if (static_cast<size_t>(PyDict_GET_SIZE(node.dict.ptr())) !=
      node.children.size()) {
    return is_same_slowly(node);
  }
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  PyObject* now = nullptr;
  auto child = node.children.begin();
  while (PyDict_Next(node.dict.ptr(), &position, &key, &now)) {
    if (child->first.ptr() != key) {
      return is_same_slowly(node);
    }
    if (!is_same(child->second, now)) {
      return false;
    }
    ++child;
  }
  return true;
}

// In another order, or with attributes that came or went.
bool StateWatch::is_same_slowly(const Node& node) const {
  for (const auto& [key, value] : node.children) {
    PyObject* now = PyDict_GetItemWithError(node.dict.ptr(), key.ptr());
    if (value.kind != Kind::Ignored &&
        (now == nullptr || !is_same(value, now))) {
      return false;
    }
  }
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  PyObject* now = nullptr;
  while (PyDict_Next(node.dict.ptr(), &position, &key, &now)) {
    const bool is_known = std::any_of(
        node.children.begin(), node.children.end(), [&](const auto& each) {
          return each.first.ptr() == key;
        });
    if (!is_known && (!node.is_filtered || is_relevant(key))) {
      return false;
    }
  }
  return true;
}

bool StateWatch::is_same(const Remembered& before, PyObject* now) const {
  PyObject* const was = before.object.ptr();
  switch (before.kind) {
    case Kind::Ignored:
      return true;
    case Kind::Identity:
    case Kind::Object:
    case Kind::Random:
      return now == was;
    case Kind::Left:
      return now != nullptr && Py_TYPE(now) == Py_TYPE(was);
    case Kind::Length:
      return now == was && element_count(now) == before.number;
    case Kind::Plain:
      return now == was || (now != nullptr && is_equal(was, now));
    default:
      break;
  }
  if (now == nullptr || Py_TYPE(now) != Py_TYPE(was)) {
    return false;
  }
  const size_t size = before.children.size();
  switch (before.kind) {
    case Kind::Sequence:
      if (static_cast<size_t>(element_count(now)) != size) {
        return false;
      }
      for (size_t i = 0; i < size; ++i) {
        if (!is_same(before.children[i].second, element(now, i).ptr())) {
          return false;
        }
      }
      return true;
    case Kind::Mapping: {
      if (static_cast<size_t>(PyDict_GET_SIZE(now)) != size) {
        return false;
      }
      Py_ssize_t position = 0;
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      auto child = before.children.begin();
      while (PyDict_Next(now, &position, &key, &value)) {
        if ((key != child->first.ptr() && !is_equal(child->first.ptr(), key)) ||
            !is_same(child->second, value)) {
          return false;
        }
        ++child;
      }
      return true;
    }
    case Kind::Set:
      if (static_cast<size_t>(PySet_GET_SIZE(now)) != size) {
        return false;
      }
      return std::all_of(
          before.children.begin(),
          before.children.end(),
          [&](const auto& child) {
            return PySet_Contains(now, child.first.ptr()) == 1;
          });
    case Kind::Array:
      return now == was &&
             (before.content.is_none() ||
              is_equal(before.content.ptr(), bytes_of(now).ptr()));
    default:
      break;
  }
  return is_same_tensor(before, now);
}

bool StateWatch::is_same_tensor(const Remembered& before, PyObject* now) const {
  if (now != before.object.ptr() && !before.mark->is_hollow) {
    return false;
  }
  const at::Tensor& tensor = THPVariable_Unpack(now);
  if (!before.mark->has_type(tensor)) {
    return false;
  }
  if (before.mark->is_hollow) {
    // What an earlier step left there, which nobody can read.
    return is_hollow(tensor);
  }
  return tensor.requires_grad() == before.mark->requires_grad &&
         has_same_hooks(before, now) &&
         (before.kind == Kind::Parameter ||
          (Remembered::TensorMark::version_of(tensor) == before.mark->version &&
           Remembered::TensorMark::data_of(tensor) == before.mark->data));
}

bool StateWatch::has_same_hooks(const Remembered& before, PyObject* now) const {
  const std::array<PyObject*, 2> hooks = hooks_of(now);
  for (size_t i = 0; i < hooks.size(); ++i) {
    // Where there was none, hooks may have come and gone.
    const bool had_any =
        !before.children.empty() && before.children[i].second.object;
    if (had_any ? !is_same(before.children[i].second, hooks[i])
                : hooks[i] != nullptr && PyDict_GET_SIZE(hooks[i]) != 0) {
      return false;
    }
  }
  return accumulator_hooks(THPVariable_Unpack(now)) ==
         before.mark->accumulator_hooks;
}

std::optional<std::string> StateWatch::difference() {
  if (std::string mode = weft::difference(modes_, torch_modes());
      !mode.empty()) {
    return mode;
  }
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (!node->is_live) {
      continue;
    }
    for (const auto& [key, value] : node->children) {
      const std::string path = cat(node->path, ".", text_of(key.ptr()));
      const py::object now =
          node->dict
              ? borrowed(PyDict_GetItemWithError(node->dict.ptr(), key.ptr()))
              : py::getattr(node->object, key, py::none());
      if (value.kind != Kind::Ignored && !is_same(value, now.ptr())) {
        return difference(path, value, now.ptr());
      }
      if (auto random = used_random(path, value)) {
        return random;
      }
    }
    if (!is_same(*node)) {
      for (const auto& item : py::reinterpret_borrow<py::dict>(node->dict)) {
        const bool is_known = std::any_of(
            node->children.begin(),
            node->children.end(),
            [&](const auto& each) {
              return each.first.ptr() == item.first.ptr();
            });
        if (!is_known &&
            (!node->is_filtered || is_relevant(item.first.ptr()))) {
          return cat(node->path, ".", text_of(item.first.ptr()));
        }
      }
    }
  }
  for (const Root& root : roots_) {
    const py::object now = current(root);
    if (!is_same(root.value, now.ptr())) {
      return difference(root.path, root.value, now.ptr());
    }
    if (auto random = used_random(root.path, root.value)) {
      return random;
    }
  }
  return std::nullopt;
}

// Inside of what is different, as deep as names lead.
std::string StateWatch::difference(
    const std::string& path, const Remembered& before, PyObject* now) const {
  if (before.kind != Kind::Mapping || now == nullptr || !PyDict_Check(now)) {
    return path;
  }
  const auto inside = [&](PyObject* key) {
    // "model.fc.weight", not "model.fc._parameters[weight]".
    for (const std::string_view part :
         {"._parameters", "._buffers", "._modules"}) {
      if (path.ends_with(part)) {
        return cat(
            path.substr(0, path.size() - part.size()), ".", text_of(key));
      }
    }
    return cat(path, "[", text_of(key), "]");
  };
  for (const auto& [key, value] : before.children) {
    PyObject* item = PyDict_GetItemWithError(now, key.ptr());
    if (item == nullptr || !is_same(value, item)) {
      const std::string name = inside(key.ptr());
      const bool is_flag =
          item != nullptr && item == value.object.ptr() &&
          value.kind == Kind::Parameter &&
          value.mark->requires_grad != THPVariable_Unpack(item).requires_grad();
      const bool is_hook = item != nullptr && value.mark &&
                           item == value.object.ptr() && !is_flag &&
                           !has_same_hooks(value, item);
      return cat(
          name, is_flag ? ".requires_grad" : (is_hook ? "'s hooks" : ""));
    }
  }
  return path;
}

std::optional<std::string> StateWatch::used_random(
    const std::string& path, const Remembered& before) const {
  if (before.kind == Kind::Random &&
      !is_in_state(before.object.ptr(), before.content.ptr())) {
    return path;
  }
  return std::nullopt;
}

void StateWatch::restore() {
  for (const std::unique_ptr<Node>& node : nodes_) {
    put_back(*node);
  }
  for (const Root& root : roots_) {
    const py::object now = current(root);
    if (now.ptr() != root.value.object.ptr()) {
      PyObject* const was = root.value.object.ptr();
      if (root.place == Place::Cell) {
        PyCell_Set(root.owner.ptr(), was);
      } else if (root.place == Place::ClassAttribute) {
        PyObject_SetAttr(root.owner.ptr(), root.key.ptr(), was);
      } else if (was != nullptr) {
        PyDict_SetItem(root.owner.ptr(), root.key.ptr(), was);
      } else {
        PyDict_DelItem(root.owner.ptr(), root.key.ptr());
      }
      if (PyErr_Occurred() != nullptr) {
        throw py::error_already_set();
      }
    }
    put_back(root.value);
  }
}

void StateWatch::put_back(const Node& node) const {
  for (const auto& [key, value] : node.children) {
    if (value.kind == Kind::Ignored) {
      continue;
    }
    if (node.dict) {
      PyObject* now = PyDict_GetItemWithError(node.dict.ptr(), key.ptr());
      if (now != value.object.ptr()) {
        PyDict_SetItem(node.dict.ptr(), key.ptr(), value.object.ptr());
      }
    } else if (
        py::getattr(node.object, key, py::none()).ptr() != value.object.ptr()) {
      // Also of a class whose objects shall not change (frozen).
      PyObject_GenericSetAttr(node.object.ptr(), key.ptr(), value.object.ptr());
    }
    put_back(value);
  }
  if (!node.dict || static_cast<size_t>(PyDict_GET_SIZE(node.dict.ptr())) ==
                        node.children.size()) {
    return;
  }
  for (const py::handle key : py::list(node.dict)) {
    const bool is_known = std::any_of(
        node.children.begin(), node.children.end(), [&](const auto& each) {
          return each.first.ptr() == key.ptr();
        });
    if (!is_known && (!node.is_filtered || is_relevant(key.ptr()))) {
      PyDict_DelItem(node.dict.ptr(), key.ptr());
    }
  }
}

void StateWatch::put_back(const Remembered& before) const {
  const py::object& object = before.object;
  if (before.kind == Kind::Random) {
    set_random_state(object.ptr(), before.content.ptr());
    return;
  }
  if (before.kind == Kind::Parameter || before.kind == Kind::Tensor) {
    put_back_tensor(before);
    return;
  }
  const bool is_mutable =
      before.kind == Kind::Mapping ||
      (before.kind == Kind::Sequence && !PyTuple_Check(object.ptr())) ||
      (before.kind == Kind::Set && PySet_Check(object.ptr()));
  if (is_mutable && !is_same(before, object.ptr())) {
    object.attr("clear")();
    for (const auto& [key, value] : before.children) {
      if (before.kind == Kind::Mapping) {
        object[key] = value.object;
      } else {
        object.attr(before.kind == Kind::Set ? "add" : "append")(value.object);
      }
    }
  }
  for (const auto& [key, value] : before.children) {
    put_back(value);
  }
}

void StateWatch::put_back_tensor(const Remembered& before) const {
  PyObject* const object = before.object.ptr();
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (before.kind == Kind::Parameter &&
      tensor.requires_grad() != before.mark->requires_grad) {
    tensor.set_requires_grad(before.mark->requires_grad);
  }
  const std::array<PyObject*, 2> hooks = hooks_of(object);
  for (size_t i = 0; i < hooks.size(); ++i) {
    if (!before.children.empty() && before.children[i].second.object) {
      put_back(before.children[i].second);
    } else if (hooks[i] != nullptr) {
      borrowed(hooks[i]).attr("clear")();
    }
  }
}

}  // namespace weft
