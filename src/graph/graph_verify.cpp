// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "graph/graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

namespace weft {

namespace {

// Words that mean something else than a symbol in an argument.
bool is_reserved(std::string_view word) {
  constexpr std::string_view kWords[] = {"none", "true", "false", "inf", "nan"};
  return std::find(std::begin(kWords), std::end(kWords), word) !=
             std::end(kWords) ||
         dtype_from_name(word).has_value();
}

bool is_op_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_op_char);
}

// What is wrong with a type, or "".
std::string type_fault(const TensorType& type) {
  const auto negative = [](int64_t n) { return n < 0; };
  if (std::any_of(type.sizes.begin(), type.sizes.end(), negative) ||
      std::any_of(type.strides.begin(), type.strides.end(), negative)) {
    return "has a negative size or stride";
  }
  if (!type.strides.empty()) {
    if (type.strides.size() != type.sizes.size()) {
      return "has not as many strides as sizes";
    }
    if (make_type(type.dtype, type.sizes, type.strides) != type) {
      return "spells out row-major strides (use make_type)";
    }
  }
  return "";
}

// Of the input that an output of that kind takes the place of.
std::optional<InputKind> kind_replaced(OutputKind kind) {
  switch (kind) {
    case OutputKind::Parameter:
      return InputKind::Parameter;
    case OutputKind::Buffer:
      return InputKind::Buffer;
    case OutputKind::State:
      return InputKind::State;
    case OutputKind::Loss:
    case OutputKind::Extra:
    case OutputKind::Gradient:
      break;
  }
  return std::nullopt;
}

class FunctionVerifier {
 public:
  FunctionVerifier(const Graph& graph, const Function& function)
      : graph_(graph), function_(function) {}

  void run() {
    check_values();
    for (const Input& input : function_.inputs) {
      check_input(input);
    }
    storage_.resize(function_.values.size());
    released_.resize(function_.values.size());
    for (size_t i = 0; i < storage_.size(); ++i) {
      storage_[i] = static_cast<ValueId>(i);
    }
    for (const Node& node : function_.nodes) {
      check_node(node);
    }
    check_outputs();
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(const Args&... what) const {
    throw UserError(cat("[graph] @", function_.name, ": ", what...));
  }

  std::string show(ValueId id) const {
    return exists(id) ? cat("%", function_[id].name)
                      : cat("value number ", static_cast<int64_t>(id));
  }

  // How messages name a node: by its first result.
  std::string show(const Node& node) const {
    return node.results.empty() ? node.op : show(node.results[0]);
  }

  bool exists(ValueId id) const {
    return static_cast<int64_t>(id) >= 0 && index(id) < function_.values.size();
  }

  void check_values() {
    std::unordered_set<std::string_view> names;
    names.reserve(function_.values.size());
    for (const Value& value : function_.values) {
      if (!is_value_name(value.name)) {
        fail(
            "the name of a value must be one or more of A-Z a-z 0-9 _ . / : -"
            " and not begin with '/': ",
            quote(value.name));
      }
      if (!names.insert(value.name).second) {
        fail("%", value.name, " is defined twice");
      }
      const std::string fault = type_fault(value.type);
      if (!fault.empty()) {
        fail("%", value.name, ": its type ", print(value.type), " ", fault);
      }
    }
    check_numbering();
  }

  // Inputs, then the results of the nodes in order: see renumber.
  void check_numbering() const {
    size_t next = 0;
    const auto check = [&](ValueId id, NodeId node, size_t result) {
      if (index(id) != next || !exists(id)) {
        fail(
            show(id),
            " is not numbered in the order of definition (call renumber)");
      }
      const Value& value = function_[id];
      if (value.node != node || value.result != static_cast<int64_t>(result)) {
        fail(show(id), " is not linked to the node that makes it");
      }
      ++next;
    };
    for (const Input& input : function_.inputs) {
      check(input.value, NodeId::None, 0);
    }
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      const Node& node = function_.nodes[i];
      if (node.results.empty()) {
        fail("node ", i, ", ", node.op, ", has no result");
      }
      for (size_t result = 0; result < node.results.size(); ++result) {
        check(node.results[result], static_cast<NodeId>(i), result);
      }
    }
    if (next != function_.values.size()) {
      fail(
          "%",
          function_.values[next].name,
          " is neither an input nor made by a node");
    }
  }

  void check_input(const Input& input) {
    if (input.keys.empty()) {
      fail(show(input.value), ": an input needs a key");
    }
    if (input.trained && input.kind != InputKind::Parameter) {
      fail(show(input.value), ": only a parameter can be trained");
    }
    const bool may_be_tied =
        input.kind == InputKind::Parameter || input.kind == InputKind::Buffer;
    if (!may_be_tied && input.keys.size() > 1) {
      fail(show(input.value), ": only a parameter or buffer has several names");
    }
    if (!may_be_tied && input.saved) {
      fail(show(input.value), ": only a parameter or buffer is saved");
    }
    for (const std::string& key : input.keys) {
      const std::pair<InputKind, std::string_view> name_of = {input.kind, key};
      if (!inputs_.emplace(name_of, input.value).second) {
        fail("two inputs are the ", name(input.kind), " ", quote(key));
      }
    }
    if (input.kind == InputKind::Constant) {
      check_constant_input(input);
    }
  }

  void check_constant_input(const Input& input) const {
    const auto found = std::find_if(
        graph_.constants.begin(),
        graph_.constants.end(),
        [&](const Constant& constant) {
          return constant.name == input.keys[0];
        });
    if (found == graph_.constants.end()) {
      fail(
          show(input.value),
          ": the graph has no constant ",
          quote(input.keys[0]));
    }
    if (found->type != function_[input.value].type) {
      fail(
          show(input.value),
          ": its type is ",
          print(function_[input.value].type),
          ", the constant's is ",
          print(found->type));
    }
  }

  void check_node(const Node& node) {
    if (!is_op_name(node.op)) {
      fail(show(node), ": not the name of an operator: ", quote(node.op));
    }
    for (const Arg& arg : node.args) {
      check_arg(node, arg);
    }
    for (size_t i = 0; i < node.options.size(); ++i) {
      const Option& option = node.options[i];
      if (!is_word(option.name)) {
        fail(
            show(node),
            ": the name of a keyword argument must be a word: ",
            quote(option.name));
      }
      for (size_t before = 0; before < i; ++before) {
        if (node.options[before].name == option.name) {
          fail(show(node), ": the keyword argument ", option.name, " is twice");
        }
      }
      check_arg(node, option.value);
    }
    check_storage(node);
  }

  void check_arg(const Node& node, const Arg& arg) const {
    if (const auto* id = std::get_if<ValueId>(&arg.data)) {
      // Numbers are in the order of definition.
      if (!exists(*id) || *id >= node.results[0]) {
        fail(
            show(node),
            ": its operand ",
            show(*id),
            " is not defined before it");
      }
    } else if (const auto* symbol = std::get_if<Symbol>(&arg.data)) {
      if (!is_word(symbol->text) || is_reserved(symbol->text)) {
        fail(
            show(node),
            ": a symbol must be a word with no other meaning: ",
            quote(symbol->text));
      }
    } else if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
      for (const Arg& item : *list) {
        check_arg(node, item);
      }
    }
  }

  void check_storage(const Node& node) {
    if (node.overwrites != ValueId::None) {
      if (!exists(node.overwrites) || node.overwrites >= node.results[0]) {
        fail(
            show(node),
            ": it overwrites ",
            show(node.overwrites),
            ", which is not defined before it");
      }
      storage_[index(node.results[0])] = storage_[index(node.overwrites)];
    }
    for (const ValueId id : node.releases) {
      if (!exists(id) || id > node.results.back()) {
        fail(
            show(node),
            ": it releases ",
            show(id),
            ", which is not defined yet");
      }
      const size_t storage = index(storage_[index(id)]);
      if (released_[storage]) {
        fail(
            show(node),
            ": it releases the storage of ",
            show(id),
            ", which was released before");
      }
      released_[storage] = true;
    }
  }

  void check_outputs() const {
    std::set<std::pair<OutputKind, std::string_view>> keys;
    for (const Output& output : function_.outputs) {
      const std::string what =
          output.key.empty() ? std::string(name(output.kind))
                             : cat(name(output.kind), " ", quote(output.key));
      if (!exists(output.value)) {
        fail("it returns as ", what, " a value that does not exist");
      }
      if (!keys.insert({output.kind, output.key}).second) {
        fail("it returns ", what, " twice");
      }
      check_replaced(output, what);
    }
  }

  // What comes in and goes out under one name is one tensor, of which a rank
  // holds the same piece before and after the step.
  void check_replaced(const Output& output, const std::string& what) const {
    const auto kind = kind_replaced(output.kind);
    const auto found = kind ? inputs_.find({*kind, output.key}) : inputs_.end();
    if (found == inputs_.end()) {
      return;
    }
    const TensorType& in = function_[found->second].type;
    const TensorType& out = function_[output.value].type;
    if (in.sizes != out.sizes) {
      fail(
          "it returns as ",
          what,
          " a value of type ",
          print(out),
          ", and the input of that name has ",
          print(in));
    }
  }

  const Graph& graph_;
  const Function& function_;
  // By kind and each of their keys.
  std::map<std::pair<InputKind, std::string_view>, ValueId> inputs_;
  // The first value in the storage of each value, as far as in-place ops tell.
  std::vector<ValueId> storage_;
  std::vector<bool> released_;
};

void check_constant(const Constant& constant) {
  WEFT_CHECK_USER(
      is_value_name(constant.name),
      "[graph] not a name of a constant: ",
      quote(constant.name));
  const std::string fault = type_fault(constant.type);
  WEFT_CHECK_USER(
      fault.empty() && constant.type.strides.empty(),
      "[graph] constant %",
      constant.name,
      ": its type ",
      print(constant.type),
      " ",
      fault.empty() ? "is not row-major" : fault);
  const int64_t bytes =
      element_count(constant.type) * element_bytes(constant.type.dtype);
  WEFT_CHECK_USER(
      static_cast<int64_t>(constant.bytes.size()) == bytes,
      "[graph] constant %",
      constant.name,
      ": ",
      print(constant.type),
      " takes ",
      bytes,
      " bytes, it has ",
      constant.bytes.size());
}

}  // namespace

void verify(const Graph& graph) {
  WEFT_CHECK_USER(
      is_value_name(graph.name), "[graph] not a name: ", quote(graph.name));
  std::unordered_set<std::string_view> modules;
  for (const Module& module : graph.modules) {
    WEFT_CHECK_USER(
        modules.insert(module.path).second,
        "[graph] module ",
        quote(module.path),
        " is there twice");
    WEFT_CHECK_USER(
        is_value_name(module.type),
        "[graph] module ",
        quote(module.path),
        ": not a class name: ",
        quote(module.type));
  }
  std::unordered_set<std::string_view> constants;
  for (const Constant& constant : graph.constants) {
    check_constant(constant);
    WEFT_CHECK_USER(
        constants.insert(constant.name).second,
        "[graph] constant %",
        constant.name,
        " is there twice");
  }
  std::unordered_set<std::string_view> functions;
  for (const Function& function : graph.functions) {
    WEFT_CHECK_USER(
        is_value_name(function.name),
        "[graph] not a name of a function: ",
        quote(function.name));
    WEFT_CHECK_USER(
        functions.insert(function.name).second,
        "[graph] function @",
        function.name,
        " is there twice");
    FunctionVerifier(graph, function).run();
  }
}

}  // namespace weft
