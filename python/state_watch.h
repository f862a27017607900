// SPDX-License-Identifier: Apache-2.0
// What a captured step read of Python, remembered, so that a step can be told
// in microseconds whether it may run again: attributes of modules and of the
// objects behind them, globals, variables of closures, and PyTorch's modes.
//
// Objects are compared by identity and attribute by attribute, containers of
// data by their elements, numbers and strings by value, tensors by identity,
// version, type and hooks; parameters and buffers of the model, which steps
// change, by identity, type and hooks. All functions need the interpreter's
// lock.
#pragma once

#include "torch_modes.h"

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft {

// One value as it was.
struct Remembered {
  enum class Kind : uint8_t {
    Ignored,    // whatever it is
    Identity,   // the very object, whatever is in it
    Length,     // the very container, with as many elements
    Plain,      // an equal value of the same type
    Sequence,   // list, tuple, deque
    Mapping,    // dict
    Set,        // set, frozenset
    Object,     // the very object; its attributes are a Node
    Tensor,     // unchanged
    Parameter,  // of the model: the values are the steps' own
    Array,      // of NumPy: equal bytes
    Left,       // what a step has left there, which nobody can read
    Random,     // a source of random numbers: counts only when it was used
  };
  struct TensorMark;

  Kind kind = Kind::Ignored;
  // Kind Length: how many; kind Object: which node.
  uint32_t number = 0;
  pybind11::object object = {};
  // The elements of a container. For a tensor with hooks, these are the two
  // dicts that hold its hooks (hooks_of).
  std::vector<std::pair<pybind11::object, Remembered>> children = {};
  std::shared_ptr<TensorMark> mark = {};
  // Kind Array: the elements; kind Random: the state.
  pybind11::object content = {};
};

class StateWatch {
 public:
  // `kind_of(type)` says how objects of a type are remembered, when this
  // does not know: "plain", "identity", "object" (by those attributes that
  // the step may read), "record" (by all attributes), "members" (likewise,
  // where there is no __dict__), "callable" (by what it is called with beside
  // its arguments), "sequence", "array", "left" or "random".
  explicit StateWatch(pybind11::object kind_of);

  // Everything in the module's __dict__. `is_own`: of the model that is
  // trained, so that its parameters are the steps'.
  void add_module(
      const std::string& path, const pybind11::object& module, bool is_own);
  void add_item(
      const std::string& path,
      const pybind11::dict& dict,
      const pybind11::object& key);
  // An attribute that a class has itself.
  void add_class_attribute(
      const std::string& path,
      const pybind11::object& owner,
      const pybind11::object& key);
  // A variable of a closure, which had `value`.
  void add_cell(
      const std::string& path,
      const pybind11::object& cell,
      const pybind11::object& value);

  // Attributes with other names do not count any more.
  void keep_names(const pybind11::object& names);

  bool is_same();
  // What is different, by name; none when nothing is. Also tells of sources of
  // random numbers that were used.
  std::optional<std::string> difference();
  // Puts everything back but what is in tensors.
  void restore();
  // Remembers it as it is now.
  void refresh();
  // How many values are compared.
  int64_t size() const;

 private:
  enum class Place : uint8_t { Item, ClassAttribute, Cell };
  struct Root {
    std::string path;
    Place place;
    pybind11::object owner;
    pybind11::object key;
    Remembered value;
  };
  // The attributes of one object.
  struct Node {
    std::string path;
    pybind11::object object;
    // Its __dict__; none: `children` are read one by one.
    pybind11::object dict;
    bool is_filtered = true;
    bool is_module = false;
    bool is_own = false;
    bool is_live = true;
    // Objects between it and a module or a name.
    size_t depth = 0;
    std::vector<std::pair<pybind11::object, Remembered>> children;
  };

  using Stack = std::vector<PyObject*>;
  Remembered remember(const std::string& path, PyObject* value, Stack& on_path);
  Remembered remember_tensor(
      const std::string& path, PyObject* value, Remembered::Kind kind);
  Remembered remember_members(
      const std::string& path, PyObject* mapping, bool is_tensor_own);
  uint32_t add_node(const std::string& path, PyObject* object, Node node);
  void fill_node(Node& node);
  void fill_children(Node& node);
  const std::string& kind_of(PyTypeObject* type);

  bool is_relevant(PyObject* name) const;
  bool is_same(const Remembered& before, PyObject* now) const;
  bool is_same_tensor(const Remembered& before, PyObject* now) const;
  bool has_same_hooks(const Remembered& before, PyObject* now) const;
  bool is_same(const Node& node) const;
  bool is_same_slowly(const Node& node) const;
  std::string difference(
      const std::string& path, const Remembered& before, PyObject* now) const;
  std::optional<std::string> used_random(
      const std::string& path, const Remembered& before) const;
  void put_back(const Remembered& before) const;
  void put_back(const Node& node) const;
  void put_back_tensor(const Remembered& before) const;
  void mark_live();
  void mark_live(const Remembered& value);
  static pybind11::object current(const Root& root);

  pybind11::object kind_of_;
  std::unordered_map<PyTypeObject*, std::string> kinds_;
  std::vector<Root> roots_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<PyObject*, uint32_t> node_of_;
  // None: all of them.
  pybind11::object names_;
  TorchModes modes_;
  int64_t count_ = 0;
  size_t depth_ = 0;
};

}  // namespace weft
