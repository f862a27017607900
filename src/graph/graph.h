// SPDX-License-Identifier: Apache-2.0
// The Graph: one logical training step on one imaginary device, in SSA form.
//
// A Graph has functions. `step` is forward, loss, backward and optimizer;
// `init` creates parameters and buffers. A function is a list of nodes in the
// order in which PyTorch ran them; a node is one operator call; a value is one
// tensor. Everything is functional: no node changes a value. Text form (one
// node a line; see docs/graph_format.md):
//
//   graph @mlp
//   module "fc1" Linear
//   constant %steps : i64[2] = hex "01000000000000000200000000000000"
//
//   func @step {
//     input %x : f32[32, 512] = batch "0"
//     input %fc1.weight : f32[64, 512] = parameter "fc1.weight" trained
//   forward:
//     %fc1/t = aten.t(%fc1.weight) : f32[512, 64]{1, 512}
//     %fc1/mm = aten.mm(%x, %fc1/t) : f32[32, 64]
//     ...
//   backward:
//     %fc1/mm.1 = aten.mm(%a, %b) : f32[64, 512] release(%x, %fc1/mm)
//     return loss = %loss
//     return gradient "fc1.weight" = %fc1/mm.1
//   }
#pragma once

#include "graph/tensor_type.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace weft {

// Index of a value in Function::values.
enum class ValueId : int32_t { None = -1 };
// Index of a node in Function::nodes; None for a function's input.
enum class NodeId : int32_t { None = -1 };

constexpr size_t index(ValueId id) { return static_cast<size_t>(id); }
constexpr size_t index(NodeId id) { return static_cast<size_t>(id); }

// What an absent optional argument prints as: `none`.
struct None {
  bool operator==(const None&) const = default;
};

// A bare word in the text, for enumerations such as memory formats
// (`channels_last`).
struct Symbol {
  std::string text;
  bool operator==(const Symbol&) const = default;
};

// One argument of an operator call, as in its ATen schema. Devices, layouts,
// pinning and generators are left out: they belong to the machine, not to the
// step.
struct Arg {
  using List = std::vector<Arg>;
  std::variant<
      None,
      ValueId,
      int64_t,
      double,
      bool,
      DType,
      Symbol,
      std::string,
      List>
      data;

  bool operator==(const Arg&) const = default;
};

// A keyword argument: `dim=1`.
struct Option {
  std::string name;
  Arg value;
  bool operator==(const Option&) const = default;
};

enum class Phase : uint8_t {
  Init,
  Forward,
  Backward,
  // Forward work that the user's step itself repeats during backward
  // (torch.utils.checkpoint).
  Recompute,
  Optimizer,
};

struct Node {
  // The ATen name with its overload, `aten.addmm`, `aten.sum.dim_IntList`, or
  // an operator of ours, `weft.adamw`.
  std::string op;
  // Positional arguments. Trailing ones equal to the schema's default are left
  // out.
  std::vector<Arg> args;
  // Keyword arguments in the schema's order, those equal to the default left
  // out; and ours: `rng` (see below).
  std::vector<Option> options;
  // At least one.
  std::vector<ValueId> results;
  Phase phase = Phase::Forward;
  // Storages that eager PyTorch gives back after this node, each named by one
  // value that lies in it. From the run that was recorded, so Python references
  // and autograd's saved tensors count as they really do.
  std::vector<ValueId> releases;
  // Result 0 took over the storage of this value in the recorded run (an
  // in-place op). None otherwise. Only memory accounts look at it: the node
  // itself is functional.
  ValueId overwrites = ValueId::None;

  bool operator==(const Node&) const = default;
};

// Random nodes carry the option `rng=N`. Nodes with the same N draw the same
// numbers (a recomputed dropout has the N of the first one); different N are
// independent.
constexpr std::string_view kRngOption = "rng";

// A batch norm with the option `local` takes its statistics from the rank's own
// part of the batch (see plan.h).
constexpr std::string_view kLocalOption = "local";

struct Value {
  // Unique in its function: "<module path>/<local name>", or the local name
  // alone at the root.
  std::string name;
  TensorType type;
  // The node that makes it, and which result; None for an input.
  NodeId node = NodeId::None;
  int32_t result = 0;

  bool operator==(const Value&) const = default;
};

enum class InputKind : uint8_t {
  Batch,      // what the data loader gives; key = position or keyword
  Parameter,  // key = the model's name for it; more names when tied
  Buffer,     // likewise
  State,      // of the optimizer; key = "<parameter>.<state>", as exp_avg
  Scalar,     // lr, and other numbers that change from step to step
  Constant,   // key = a constant of the graph
};

struct Input {
  ValueId value = ValueId::None;
  InputKind kind = InputKind::Batch;
  // First the key; after it the further names of a tied parameter or buffer.
  std::vector<std::string> keys;
  // A parameter that gets a gradient.
  bool trained = false;
  // Of a parameter or buffer, its names in the model's state_dict where those
  // are not its keys: none of a buffer that is not persistent.
  std::optional<std::vector<std::string>> saved = std::nullopt;

  bool operator==(const Input&) const = default;
};

enum class OutputKind : uint8_t {
  Loss,
  Extra,      // what else the model returned beside the loss
  Gradient,   // key = parameter
  Parameter,  // its value after the step (or made by init)
  Buffer,     // likewise
  State,      // likewise
};

struct Output {
  OutputKind kind = OutputKind::Loss;
  std::string key;
  ValueId value = ValueId::None;

  bool operator==(const Output&) const = default;
};

struct Function {
  std::string name;
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  // In the order of the text: the inputs, then the results of every node. While
  // a function is being built or rewritten the order is free; `renumber` puts
  // it right.
  std::vector<Value> values;
  std::vector<Output> outputs;

  const Value& operator[](ValueId id) const { return values[index(id)]; }
  Value& operator[](ValueId id) { return values[index(id)]; }

  bool operator==(const Function&) const = default;
};

// A small tensor made from the user's data, stored with the graph.
struct Constant {
  std::string name;
  TensorType type;
  // Row-major little-endian elements.
  std::string bytes;

  bool operator==(const Constant&) const = default;
};

// One nn.Module of the model: its path and class.
struct Module {
  std::string path;
  std::string type;

  bool operator==(const Module&) const = default;
};

struct Graph {
  std::string name;
  std::vector<Module> modules;
  std::vector<Constant> constants;
  std::vector<Function> functions;

  bool operator==(const Graph&) const = default;
};

// Under which names a parameter or buffer is in the model's state_dict.
const std::vector<std::string>& saved_names(const Input& input);

std::string_view name(Phase phase);
std::string_view name(InputKind kind);
std::string_view name(OutputKind kind);

// The function called `name`, or nullptr.
const Function* find_function(const Graph& graph, std::string_view name);
Function* find_function(Graph& graph, std::string_view name);
// Throws UserError when the graph has no `step`.
const Function& step_of(const Graph& graph);

// The module path of a value's name: what stands before '/', or "".
std::string_view module_path(std::string_view value_name);
std::string_view module_path(const Function& function, const Node& node);

// Appends a value; its name must be new (see NameTable).
ValueId add_value(Function& function, std::string name, TensorType type);
// Appends a node whose results get `names` and `types`, and returns it.
NodeId add_node(
    Function& function,
    Node node,
    const std::vector<std::string>& names,
    const std::vector<TensorType>& types);

// Calls `visit(ValueId)` for every value among the arguments, lists included,
// in order.
template <typename Visit>
void for_each_operand(const Arg& arg, Visit&& visit) {
  if (const auto* id = std::get_if<ValueId>(&arg.data)) {
    visit(*id);
  } else if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (const Arg& item : *list) {
      for_each_operand(item, visit);
    }
  }
}
template <typename Visit>
void for_each_operand(const Node& node, Visit&& visit) {
  for (const Arg& arg : node.args) {
    for_each_operand(arg, visit);
  }
  for (const Option& option : node.options) {
    for_each_operand(option.value, visit);
  }
}
// The same values as a vector.
std::vector<ValueId> operands(const Node& node);

// The keyword argument, or nullptr.
const Arg* find_option(const Node& node, std::string_view name);

// For every value, the nodes that read it, in order.
std::vector<std::vector<NodeId>> users(const Function& function);

// Replaces every operand by `new_ids[operand]`.
void replace_operands(Node& node, const std::vector<ValueId>& new_ids);

// Puts the values in the order that Function::values asks for, drops those that
// are neither an input nor a result, and links values to their nodes. Takes
// Function::inputs, nodes and their results as they are, so a pass may add,
// drop and reorder nodes first.
void renumber(Function& function);

// Hands out names that are new in one function: "path/op", "path/op.1", ...
class NameTable {
 public:
  NameTable() = default;
  // With the names of the function's values given out.
  explicit NameTable(const Function& function);

  std::string unique(std::string_view path, std::string_view local);

 private:
  using Counters = std::unordered_map<std::string, int64_t>;
  // By what stands before the last '/', the names given out and how often each
  // was asked for: a step has many modules, each of which has few names.
  std::unordered_map<std::string, Counters> modules_;
};

// True for one or more of A-Z a-z 0-9 _ . / : - that do not begin with '/':
// the names of values, constants, functions and graphs.
bool is_value_name(std::string_view text);
// The characters of such a name, and of an operator's name.
bool is_name_char(char c);
bool is_op_char(char c);

// parse_graph(print(graph)) == graph for every graph that verifies.
std::string print(const Graph& graph);
std::string print(const Function& function);
// One line, without its newline.
std::string print(const Function& function, const Node& node);

// `source` names the text in messages. Throws UserError with line and column.
Graph parse_graph(std::string_view text, const std::string& source);

// Throws UserError naming the function, the value and the rule that is broken:
// names unique and well-formed, every operand defined before use, values in
// order and linked to their node, constants have the bytes of their type,
// releases name defined values and each storage once (as far as `overwrites`
// tells), outputs exist, keys unique.
void verify(const Graph& graph);

}  // namespace weft
