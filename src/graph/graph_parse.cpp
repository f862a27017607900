// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "graph/graph.h"

#include <utility>

namespace weft {

namespace {

// Deeper lists than any operator takes; bounds the recursion.
constexpr int kMaxListDepth = 16;

template <typename Kind, size_t kCount>
std::string one_of(const Kind (&kinds)[kCount]) {
  std::vector<std::string> names;
  for (const Kind kind : kinds) {
    names.emplace_back(name(kind));
  }
  return cat("one of ", join(names, ", "));
}

constexpr Phase kPhases[] = {
    Phase::Init,
    Phase::Forward,
    Phase::Backward,
    Phase::Recompute,
    Phase::Optimizer};
constexpr InputKind kInputKinds[] = {
    InputKind::Batch,
    InputKind::Parameter,
    InputKind::Buffer,
    InputKind::State,
    InputKind::Scalar,
    InputKind::Constant};
constexpr OutputKind kOutputKinds[] = {
    OutputKind::Loss,
    OutputKind::Extra,
    OutputKind::Gradient,
    OutputKind::Parameter,
    OutputKind::Buffer,
    OutputKind::State};

class Parser {
 public:
  explicit Parser(Scanner* scanner) : scanner_(*scanner) {}

  Graph graph() {
    Graph graph;
    scanner_.expect("graph");
    graph.name = at_name();
    while (!scanner_.at_end()) {
      if (scanner_.take("module")) {
        graph.modules.push_back(module());
      } else if (scanner_.take("constant")) {
        graph.constants.push_back(constant());
      } else if (scanner_.take("func")) {
        graph.functions.push_back(function());
      } else {
        scanner_.fail_expected("'module', 'constant' or 'func'");
      }
    }
    return graph;
  }

 private:
  std::string name_run(std::string_view what) {
    return scanner_.expect_run(is_name_char, what);
  }

  std::string at_name() {
    scanner_.expect("@");
    return name_run("a name");
  }

  std::string value_name() {
    scanner_.expect("%");
    return name_run("the name of a value");
  }

  Module module() {
    Module module;
    module.path = scanner_.expect_string();
    module.type = name_run("the class of the module");
    return module;
  }

  Constant constant() {
    Constant constant;
    constant.name = value_name();
    scanner_.expect(":");
    constant.type = parse_type(scanner_);
    scanner_.expect("=");
    scanner_.expect("hex");
    const size_t start = scanner_.mark();
    const std::string digits = scanner_.expect_string();
    try {
      constant.bytes = from_hex(digits);
    } catch (const UserError& error) {
      scanner_.fail_at(start, error.what());
    }
    return constant;
  }

  Function function() {
    function_ = {};
    ids_.clear();
    function_.name = at_name();
    scanner_.expect("{");
    while (scanner_.take("input")) {
      input();
    }
    std::optional<Phase> phase;
    while (!scanner_.looking_at("return") && !scanner_.looking_at("}")) {
      if (scanner_.peek() == '%') {
        if (!phase) {
          scanner_.fail("expected a phase such as 'forward:' before a node");
        }
        node(*phase);
      } else {
        phase = expect_kind(kPhases, "a node, 'return', '}' or a phase: ");
        scanner_.expect(":");
      }
    }
    while (scanner_.take("return")) {
      output();
    }
    if (!scanner_.take("}")) {
      scanner_.fail_expected("'return' or '}'");
    }
    return std::move(function_);
  }

  template <typename Kind, size_t kCount>
  Kind expect_kind(const Kind (&kinds)[kCount], std::string_view what) {
    for (const Kind kind : kinds) {
      if (scanner_.take(name(kind))) {
        return kind;
      }
    }
    scanner_.fail_expected(cat(what, one_of(kinds)));
  }

  void input() {
    const size_t start = scanner_.mark();
    std::string name = value_name();
    scanner_.expect(":");
    Input input;
    input.value = define(start, std::move(name), parse_type(scanner_));
    scanner_.expect("=");
    input.kind = expect_kind(kInputKinds, "a kind of input: ");
    while (scanner_.peek() == '"') {
      input.keys.push_back(scanner_.expect_string());
    }
    input.trained = scanner_.take("trained");
    function_.inputs.push_back(std::move(input));
  }

  void output() {
    Output output;
    output.kind = expect_kind(kOutputKinds, "a kind of output: ");
    if (scanner_.peek() == '"') {
      output.key = scanner_.expect_string();
    }
    scanner_.expect("=");
    output.value = operand();
    function_.outputs.push_back(std::move(output));
  }

  void node(Phase phase) {
    struct Result {
      size_t start;
      std::string name;
    };
    std::vector<Result> results;
    do {
      const size_t start = scanner_.mark();
      results.push_back({start, value_name()});
    } while (scanner_.take(","));
    scanner_.expect("=");
    Node node;
    node.phase = phase;
    node.op = scanner_.expect_run(is_op_char, "the name of an operator");
    call(&node);
    scanner_.expect(":");
    for (size_t i = 0; i < results.size(); ++i) {
      if (i > 0 && !scanner_.take(",")) {
        scanner_.fail_expected(
            cat("',' and another type (",
                results.size(),
                " results need as many types)"));
      }
      const ValueId id = define(
          results[i].start, std::move(results[i].name), parse_type(scanner_));
      function_[id].node = static_cast<NodeId>(function_.nodes.size());
      function_[id].result = static_cast<int32_t>(i);
      node.results.push_back(id);
    }
    if (scanner_.take("overwrites")) {
      scanner_.expect("(");
      node.overwrites = operand();
      scanner_.expect(")");
    }
    if (scanner_.take("release")) {
      scanner_.expect("(");
      do {
        node.releases.push_back(operand());
      } while (scanner_.take(","));
      scanner_.expect(")");
    }
    function_.nodes.push_back(std::move(node));
  }

  // "(args, key=value)"
  void call(Node* node) {
    scanner_.expect("(");
    if (scanner_.take(")")) {
      return;
    }
    do {
      const size_t start = scanner_.mark();
      std::string word;
      if (at_word()) {
        word = scanner_.expect_word();
        if (scanner_.take("=")) {
          node->options.push_back({std::move(word), arg(0)});
          continue;
        }
      }
      if (!node->options.empty()) {
        scanner_.fail_at(
            start, "a positional argument stands after a keyword argument");
      }
      node->args.push_back(word.empty() ? arg(0) : word_arg(word));
    } while (scanner_.take(","));
    scanner_.expect(")");
  }

  bool at_word() {
    const char next = scanner_.peek();
    return is_word(std::string_view(&next, 1));
  }

  Arg arg(int depth) {
    const char next = scanner_.peek();
    if (next == '%') {
      return {operand()};
    }
    if (next == '"') {
      return {scanner_.expect_string()};
    }
    if (next == '[') {
      return {list(depth + 1)};
    }
    if (at_word()) {
      return word_arg(scanner_.expect_word());
    }
    if (next != '-' && next != '+' && next != '.' &&
        !(next >= '0' && next <= '9')) {
      scanner_.fail_expected("an argument");
    }
    bool is_integer = false;
    int64_t integer = 0;
    const double number = scanner_.expect_number(&is_integer, &integer);
    return is_integer ? Arg{integer} : Arg{number};
  }

  Arg word_arg(const std::string& word) {
    if (word == "none") {
      return {None{}};
    }
    if (word == "true" || word == "false") {
      return {word == "true"};
    }
    if (word == "inf" || word == "nan") {
      bool is_integer = false;
      int64_t integer = 0;
      return {Scanner(word, "").expect_number(&is_integer, &integer)};
    }
    if (const auto dtype = dtype_from_name(word)) {
      return {*dtype};
    }
    return {Symbol{word}};
  }

  Arg::List list(int depth) {
    if (depth > kMaxListDepth) {
      scanner_.fail(cat("lists nested deeper than ", kMaxListDepth));
    }
    Arg::List items;
    scanner_.expect("[");
    if (scanner_.take("]")) {
      return items;
    }
    do {
      items.push_back(arg(depth));
    } while (scanner_.take(","));
    scanner_.expect("]");
    return items;
  }

  ValueId operand() {
    const size_t start = scanner_.mark();
    const std::string name = value_name();
    const auto found = ids_.find(name);
    if (found == ids_.end()) {
      scanner_.fail_at(
          start, cat("%", name, " is not defined before it is used"));
    }
    return found->second;
  }

  ValueId define(size_t start, std::string name, TensorType type) {
    const auto next = static_cast<ValueId>(function_.values.size());
    if (!ids_.emplace(name, next).second) {
      scanner_.fail_at(start, cat("%", name, " is defined twice"));
    }
    return add_value(function_, std::move(name), std::move(type));
  }

  Scanner& scanner_;
  Function function_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

Graph parse_graph(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  return Parser(&scanner).graph();
}

}  // namespace weft
