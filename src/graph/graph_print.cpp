// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "graph/function_text.h"
#include "graph/graph.h"

#include <optional>
#include <type_traits>

namespace weft {

namespace {

// Appends to one string: a large model has a hundred thousand lines.
class Printer {
 public:
  explicit Printer(std::string* out) : out_(*out) {}

  void graph(const Graph& graph) {
    out_ += "graph @" + graph.name + "\n";
    for (const Module& module : graph.modules) {
      out_ += "module " + quote(module.path) + " " + module.type + "\n";
    }
    for (const Constant& constant : graph.constants) {
      out_ += print(constant) + "\n";
    }
    for (const Function& function : graph.functions) {
      out_ += "\n";
      this->function(function);
    }
  }

  void function(const Function& function) {
    out_ += "func @" + function.name + " {\n";
    for (const Input& input : function.inputs) {
      out_ += "  ";
      this->input(function, input);
      out_ += '\n';
    }
    std::optional<Phase> phase;
    for (const Node& node : function.nodes) {
      if (phase != node.phase) {
        phase = node.phase;
        out_ += weft::name(node.phase);
        out_ += ":\n";
      }
      out_ += "  ";
      this->node(function, node);
      out_ += '\n';
    }
    for (const Output& output : function.outputs) {
      out_ += "  ";
      this->output(function, output);
      out_ += '\n';
    }
    out_ += "}\n";
  }

  void node(const Function& function, const Node& node) {
    values(function, node.results);
    out_ += " = ";
    out_ += node.op;
    out_ += '(';
    bool first = true;
    const auto separate = [&] {
      if (!first) {
        out_ += ", ";
      }
      first = false;
    };
    for (const Arg& arg : node.args) {
      separate();
      this->arg(function, arg);
    }
    for (const Option& option : node.options) {
      separate();
      out_ += option.name;
      out_ += '=';
      arg(function, option.value);
    }
    out_ += ") : ";
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (i > 0) {
        out_ += ", ";
      }
      out_ += print(function[node.results[i]].type);
    }
    if (node.overwrites != ValueId::None) {
      out_ += " overwrites(";
      value(function, node.overwrites);
      out_ += ')';
    }
    if (!node.releases.empty()) {
      out_ += " release(";
      values(function, node.releases);
      out_ += ')';
    }
  }

  void input(const Function& function, const Input& input) {
    out_ += "input ";
    value(function, input.value);
    out_ += " : " + print(function[input.value].type) + " = ";
    out_ += weft::name(input.kind);
    for (const std::string& key : input.keys) {
      out_ += ' ' + quote(key);
    }
    out_ += input.trained ? " trained" : "";
    if (input.saved) {
      std::vector<std::string> names;
      for (const std::string& name : *input.saved) {
        names.push_back(quote(name));
      }
      out_ += " saved(" + join(names, ", ") + ")";
    }
  }

  void output(const Function& function, const Output& output) {
    out_ += "return ";
    out_ += weft::name(output.kind);
    if (!output.key.empty()) {
      out_ += ' ' + quote(output.key);
    }
    out_ += " = ";
    value(function, output.value);
  }

 private:
  void value(const Function& function, ValueId id) {
    out_ += '%';
    out_ += function[id].name;
  }

  void values(const Function& function, const std::vector<ValueId>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) {
        out_ += ", ";
      }
      value(function, ids[i]);
    }
  }

  void arg(const Function& function, const Arg& arg) {
    std::visit(
        [&](const auto& data) {
          using T = std::decay_t<decltype(data)>;
          if constexpr (std::is_same_v<T, None>) {
            out_ += "none";
          } else if constexpr (std::is_same_v<T, ValueId>) {
            value(function, data);
          } else if constexpr (std::is_same_v<T, int64_t>) {
            out_ += std::to_string(data);
          } else if constexpr (std::is_same_v<T, double>) {
            out_ += print_double(data);
          } else if constexpr (std::is_same_v<T, bool>) {
            out_ += data ? "true" : "false";
          } else if constexpr (std::is_same_v<T, DType>) {
            out_ += weft::name(data);
          } else if constexpr (std::is_same_v<T, Symbol>) {
            out_ += data.text;
          } else if constexpr (std::is_same_v<T, std::string>) {
            out_ += quote(data);
          } else {
            list(function, data);
          }
        },
        arg.data);
  }

  void list(const Function& function, const Arg::List& items) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        out_ += ", ";
      }
      arg(function, items[i]);
    }
    out_ += ']';
  }

  std::string& out_;
};

}  // namespace

std::string print(const Constant& constant) {
  return cat(
      "constant %",
      constant.name,
      " : ",
      print(constant.type),
      " = hex \"",
      to_hex(constant.bytes),
      "\"");
}

std::string print(const Function& function, const Input& input) {
  std::string out;
  Printer(&out).input(function, input);
  return out;
}

std::string print(const Function& function, const Output& output) {
  std::string out;
  Printer(&out).output(function, output);
  return out;
}

std::string print(const Graph& graph) {
  std::string out;
  Printer(&out).graph(graph);
  return out;
}

std::string print(const Function& function) {
  std::string out;
  Printer(&out).function(function);
  return out;
}

std::string print(const Function& function, const Node& node) {
  std::string out;
  Printer(&out).node(function, node);
  return out;
}

}  // namespace weft
