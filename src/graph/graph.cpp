// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace weft {

namespace {

template <typename AnyGraph>
auto find_function_in(AnyGraph& graph, std::string_view name) {
  const auto found = std::find_if(
      graph.functions.begin(), graph.functions.end(), [&](const Function& f) {
        return f.name == name;
      });
  return found == graph.functions.end() ? nullptr : &*found;
}

void rename_operands(Arg& arg, const std::vector<ValueId>& new_ids) {
  if (auto* id = std::get_if<ValueId>(&arg.data)) {
    *id = new_ids[index(*id)];
  } else if (auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (Arg& item : *list) {
      rename_operands(item, new_ids);
    }
  }
}

}  // namespace

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::Init:
      return "init";
    case Phase::Forward:
      return "forward";
    case Phase::Backward:
      return "backward";
    case Phase::Recompute:
      return "recompute";
    case Phase::Optimizer:
      return "optimizer";
  }
  WEFT_CHECK(false, "no such phase: ", static_cast<int>(phase));
}

const std::vector<std::string>& saved_names(const Input& input) {
  return input.saved ? *input.saved : input.keys;
}

std::string_view name(InputKind kind) {
  switch (kind) {
    case InputKind::Batch:
      return "batch";
    case InputKind::Parameter:
      return "parameter";
    case InputKind::Buffer:
      return "buffer";
    case InputKind::State:
      return "state";
    case InputKind::Scalar:
      return "scalar";
    case InputKind::Constant:
      return "constant";
  }
  WEFT_CHECK(false, "no such kind of input: ", static_cast<int>(kind));
}

std::string_view name(OutputKind kind) {
  switch (kind) {
    case OutputKind::Loss:
      return "loss";
    case OutputKind::Extra:
      return "extra";
    case OutputKind::Gradient:
      return "gradient";
    case OutputKind::Parameter:
      return "parameter";
    case OutputKind::Buffer:
      return "buffer";
    case OutputKind::State:
      return "state";
  }
  WEFT_CHECK(false, "no such kind of output: ", static_cast<int>(kind));
}

const Function* find_function(const Graph& graph, std::string_view name) {
  return find_function_in(graph, name);
}

Function* find_function(Graph& graph, std::string_view name) {
  return find_function_in(graph, name);
}

const Function& step_of(const Graph& graph) {
  const Function* step = find_function(graph, "step");
  WEFT_CHECK_USER(
      step != nullptr, "the graph @", graph.name, " has no function @step");
  return *step;
}

std::string_view module_path(std::string_view value_name) {
  const size_t end = value_name.rfind('/');
  return end == std::string_view::npos ? "" : value_name.substr(0, end);
}

std::string_view module_path(const Function& function, const Node& node) {
  WEFT_CHECK(!node.results.empty(), node.op, " has no result");
  return module_path(function[node.results[0]].name);
}

ValueId add_value(Function& function, std::string name, TensorType type) {
  const auto id = static_cast<ValueId>(function.values.size());
  Value value;
  value.name = std::move(name);
  value.type = std::move(type);
  function.values.push_back(std::move(value));
  return id;
}

NodeId add_node(
    Function& function,
    Node node,
    const std::vector<std::string>& names,
    const std::vector<TensorType>& types) {
  WEFT_CHECK(
      !names.empty() && names.size() == types.size(),
      node.op,
      " has ",
      names.size(),
      " names and ",
      types.size(),
      " types for its results");
  const auto id = static_cast<NodeId>(function.nodes.size());
  node.results.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    const ValueId result = add_value(function, names[i], types[i]);
    function[result].node = id;
    function[result].result = static_cast<int32_t>(i);
    node.results.push_back(result);
  }
  function.nodes.push_back(std::move(node));
  return id;
}

std::vector<ValueId> operands(const Node& node) {
  std::vector<ValueId> out;
  out.reserve(node.args.size());
  for_each_operand(node, [&](ValueId id) { out.push_back(id); });
  return out;
}

const Arg* find_option(const Node& node, std::string_view name) {
  for (const Option& option : node.options) {
    if (option.name == name) {
      return &option.value;
    }
  }
  return nullptr;
}

std::vector<std::vector<NodeId>> users(const Function& function) {
  std::vector<std::vector<NodeId>> out(function.values.size());
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    for_each_operand(function.nodes[i], [&](ValueId id) {
      std::vector<NodeId>& readers = out[index(id)];
      if (readers.empty() || readers.back() != node) {
        readers.push_back(node);
      }
    });
  }
  return out;
}

void replace_operands(Node& node, const std::vector<ValueId>& new_ids) {
  for (Arg& arg : node.args) {
    rename_operands(arg, new_ids);
  }
  for (Option& option : node.options) {
    rename_operands(option.value, new_ids);
  }
}

void renumber(Function& function) {
  std::vector<ValueId> new_ids(function.values.size(), ValueId::None);
  std::vector<Value> values;
  values.reserve(function.values.size());
  const auto place = [&](ValueId& id, NodeId node, size_t result) {
    WEFT_CHECK(
        index(id) < function.values.size() &&
            new_ids[index(id)] == ValueId::None,
        "@",
        function.name,
        ": a value does not exist or is defined twice");
    Value value = std::move(function[id]);
    value.node = node;
    value.result = static_cast<int32_t>(result);
    new_ids[index(id)] = static_cast<ValueId>(values.size());
    id = new_ids[index(id)];
    values.push_back(std::move(value));
  };
  for (Input& input : function.inputs) {
    place(input.value, NodeId::None, 0);
  }
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    Node& node = function.nodes[i];
    for (size_t result = 0; result < node.results.size(); ++result) {
      place(node.results[result], static_cast<NodeId>(i), result);
    }
  }
  for (Node& node : function.nodes) {
    replace_operands(node, new_ids);
    for (ValueId& id : node.releases) {
      id = new_ids[index(id)];
    }
    if (node.overwrites != ValueId::None) {
      node.overwrites = new_ids[index(node.overwrites)];
    }
  }
  for (Output& output : function.outputs) {
    output.value = new_ids[index(output.value)];
  }
  function.values = std::move(values);
}

bool is_name_char(char c) {
  return is_op_char(c) || c == '/' || c == ':' || c == '-';
}

bool is_op_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.';
}

bool is_value_name(std::string_view text) {
  return !text.empty() && text.front() != '/' &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

NameTable::NameTable(const Function& function) {
  for (const Value& value : function.values) {
    unique("", value.name);
  }
}

std::string NameTable::unique(std::string_view path, std::string_view local) {
  std::string module(path);
  if (const size_t slash = local.rfind('/'); slash != std::string_view::npos) {
    module += cat(path.empty() ? "" : "/", local.substr(0, slash));
    local = local.substr(slash + 1);
  }
  Counters& used = modules_[module];
  std::string name(local);
  // An insertion may move the buckets, not the counters.
  const auto [first, is_new] = used.try_emplace(name, 1);
  int64_t& counter = first->second;
  // Another base may have given a name out: "a.1" after "a" twice.
  for (bool is_free = is_new; !is_free; ++counter) {
    name = cat(local, ".", counter);
    is_free = used.try_emplace(name, 1).second;
  }
  return module.empty() ? name : cat(module, "/", name);
}

}  // namespace weft
