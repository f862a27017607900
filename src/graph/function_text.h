// SPDX-License-Identifier: Apache-2.0
// The lines of a function's text one by one, for nouns that hold a function
// among lines of their own (see program/program.h).
#pragma once

#include "base/text.h"
#include "graph/graph.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weft {

// Without indentation and newline.
std::string print(const Constant& constant);
std::string print(const Function& function, const Input& input);
std::string print(const Function& function, const Output& output);

class FunctionParser {
 public:
  explicit FunctionParser(Scanner* scanner) : scanner_(*scanner) {}

  // "@name"
  std::string at_name();
  // After the word `constant`.
  Constant constant();

  // A whole function, after the word `func`.
  Function function();

  // Or line by line: begin, then what follows the words `input` and `return`,
  // nodes, and end.
  void begin(std::string name);
  void input();
  // "forward", without the colon. Fails with "expected WHAT one of init, ...".
  Phase phase(std::string_view what);
  void node(Phase phase);
  void output();
  Function end();

  const Function& so_far() const { return function_; }
  // "%name" of a value that is there, or that is not there yet.
  ValueId operand();
  struct NewName {
    size_t mark = 0;
    // In the text.
    std::string_view name;
  };
  NewName new_name();
  ValueId define(const NewName& name, TensorType type);

 private:
  std::string_view value_name();
  void call(Node* node);
  bool at_word();
  Arg arg(int depth);
  Arg word_arg(const std::string& word);
  Arg::List list(int depth);

  Scanner& scanner_;
  Function function_;
  // By names in the text.
  std::unordered_map<std::string_view, ValueId> ids_;
};

}  // namespace weft
