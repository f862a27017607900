// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "graph/function_text.h"

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

template <typename Kind, size_t kCount>
Kind expect_kind(
    Scanner& scanner, const Kind (&kinds)[kCount], std::string_view what) {
  for (const Kind kind : kinds) {
    if (scanner.take(name(kind))) {
      return kind;
    }
  }
  scanner.fail_expected(cat(what, one_of(kinds)));
}

std::string_view expect_name(Scanner& scanner, std::string_view what) {
  return scanner.expect_run(is_name_char, what);
}

}  // namespace

std::string FunctionParser::at_name() {
  scanner_.expect("@");
  return std::string(expect_name(scanner_, "a name"));
}

std::string_view FunctionParser::value_name() {
  scanner_.expect("%");
  return expect_name(scanner_, "the name of a value");
}

Constant FunctionParser::constant() {
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

void FunctionParser::begin(std::string name) {
  function_ = {};
  ids_.clear();
  function_.name = std::move(name);
}

Function FunctionParser::end() { return std::move(function_); }

Phase FunctionParser::phase(std::string_view what) {
  return expect_kind(scanner_, kPhases, what);
}

Function FunctionParser::function() {
  begin(at_name());
  scanner_.expect("{");
  while (scanner_.take("input")) {
    input();
  }
  std::optional<Phase> now;
  while (!scanner_.looking_at("return") && !scanner_.looking_at("}")) {
    if (scanner_.peek() == '%') {
      if (!now) {
        scanner_.fail("expected a phase such as 'forward:' before a node");
      }
      node(*now);
    } else {
      now = phase("a node, 'return', '}' or a phase: ");
      scanner_.expect(":");
    }
  }
  while (scanner_.take("return")) {
    output();
  }
  if (!scanner_.take("}")) {
    scanner_.fail_expected("'return' or '}'");
  }
  return end();
}

void FunctionParser::input() {
  const NewName name = new_name();
  scanner_.expect(":");
  Input input;
  input.value = define(name, parse_type(scanner_));
  scanner_.expect("=");
  input.kind = expect_kind(scanner_, kInputKinds, "a kind of input: ");
  while (scanner_.peek() == '"') {
    input.keys.push_back(scanner_.expect_string());
  }
  input.trained = scanner_.take("trained");
  if (scanner_.take("saved")) {
    input.saved.emplace();
    scanner_.expect("(");
    while (!scanner_.looking_at(")")) {
      if (!input.saved->empty()) {
        scanner_.expect(",");
      }
      input.saved->push_back(scanner_.expect_string());
    }
    scanner_.expect(")");
  }
  function_.inputs.push_back(std::move(input));
}

void FunctionParser::output() {
  Output output;
  output.kind = expect_kind(scanner_, kOutputKinds, "a kind of output: ");
  if (scanner_.peek() == '"') {
    output.key = scanner_.expect_string();
  }
  scanner_.expect("=");
  output.value = operand();
  function_.outputs.push_back(std::move(output));
}

void FunctionParser::node(Phase phase) {
  std::vector<NewName> results;
  do {
    results.push_back(new_name());
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
    const ValueId id = define(results[i], parse_type(scanner_));
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
void FunctionParser::call(Node* node) {
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

bool FunctionParser::at_word() {
  const char next = scanner_.peek();
  return is_word(std::string_view(&next, 1));
}

Arg FunctionParser::arg(int depth) {
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

Arg FunctionParser::word_arg(const std::string& word) {
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

Arg::List FunctionParser::list(int depth) {
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

ValueId FunctionParser::operand() {
  const size_t start = scanner_.mark();
  const std::string_view name = value_name();
  const auto found = ids_.find(name);
  if (found == ids_.end()) {
    scanner_.fail_at(
        start, cat("%", name, " is not defined before it is used"));
  }
  return found->second;
}

FunctionParser::NewName FunctionParser::new_name() {
  const size_t mark = scanner_.mark();
  return {mark, value_name()};
}

ValueId FunctionParser::define(const NewName& name, TensorType type) {
  const auto next = static_cast<ValueId>(function_.values.size());
  if (!ids_.emplace(name.name, next).second) {
    scanner_.fail_at(name.mark, cat("%", name.name, " is defined twice"));
  }
  return add_value(function_, std::string(name.name), std::move(type));
}

Graph parse_graph(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  FunctionParser functions(&scanner);
  Graph graph;
  scanner.expect("graph");
  graph.name = functions.at_name();
  while (!scanner.at_end()) {
    if (scanner.take("module")) {
      Module module;
      module.path = scanner.expect_string();
      module.type = expect_name(scanner, "the class of the module");
      graph.modules.push_back(std::move(module));
    } else if (scanner.take("constant")) {
      graph.constants.push_back(functions.constant());
    } else if (scanner.take("func")) {
      graph.functions.push_back(functions.function());
    } else {
      scanner.fail_expected("'module', 'constant' or 'func'");
    }
  }
  return graph;
}

}  // namespace weft
