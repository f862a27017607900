// SPDX-License-Identifier: Apache-2.0
#include "ops/example.h"

#include "base/text.h"

#include <cctype>
#include <optional>
#include <string>
#include <utility>

namespace weft {
namespace {

class ExampleParser {
 public:
  ExampleParser(const OpDef& def, std::string_view text)
      : scanner_(text, cat("example of ", def.name)) {
    example_.node.op = def.name;
    example_.function.name = "example";
  }

  Example parse() {
    scanner_.expect("(");
    if (!scanner_.take(")")) {
      do {
        parse_argument();
      } while (scanner_.take(","));
      scanner_.expect(")");
    }
    if (!scanner_.at_end()) {
      scanner_.fail("expected the end of the example");
    }
    return std::move(example_);
  }

 private:
  void parse_argument() {
    Scanner ahead = scanner_;
    if (starts_word(ahead)) {
      std::string name = ahead.expect_word();
      if (ahead.take("=")) {
        scanner_ = ahead;
        Arg value = parse_value();
        example_.node.options.push_back({std::move(name), std::move(value)});
        return;
      }
    }
    Arg value = parse_value();
    example_.node.args.push_back(std::move(value));
  }

  Arg parse_value() {
    if (scanner_.take("[")) {
      Arg::List items;
      if (!scanner_.take("]")) {
        do {
          items.push_back(parse_value());
        } while (scanner_.take(","));
        scanner_.expect("]");
      }
      return {std::move(items)};
    }
    if (scanner_.peek() == '"') {
      return {scanner_.expect_string()};
    }
    if (!starts_word(scanner_) || scanner_.looking_at("inf") ||
        scanner_.looking_at("nan")) {
      bool is_integer = false;
      int64_t integer = 0;
      double number = scanner_.expect_number(&is_integer, &integer);
      return is_integer ? Arg{integer} : Arg{number};
    }
    Scanner ahead = scanner_;
    std::string word = ahead.expect_word();
    std::optional<DType> dtype = dtype_from_name(word);
    if (dtype && ahead.looking_at("[")) {
      return {parse_operand()};
    }
    scanner_ = ahead;
    if (dtype) {
      return {*dtype};
    }
    if (word == "none") {
      return {None{}};
    }
    if (word == "true" || word == "false") {
      return {word == "true"};
    }
    return {Symbol{std::move(word)}};
  }

  ValueId parse_operand() {
    TensorType type = parse_type(scanner_);
    Draw draw;
    if (scanner_.take("<")) {
      draw.below = scanner_.expect_int();
    } else if (scanner_.take(">")) {
      scanner_.expect("0");
      draw.positive = true;
    } else if (scanner_.take("^")) {
      draw.ascending_to = scanner_.expect_int();
    }
    std::string name = cat("x", example_.draws.size());
    example_.draws.push_back(draw);
    ValueId id = add_value(example_.function, std::move(name), std::move(type));
    example_.function.inputs.push_back(
        {id, InputKind::Batch, {cat(example_.draws.size() - 1)}, false});
    return id;
  }

  static bool starts_word(Scanner& scanner) {
    char next = scanner.peek();
    return std::isalpha(static_cast<unsigned char>(next)) != 0 || next == '_';
  }

  Scanner scanner_;
  Example example_;
};

}  // namespace

Example parse_example(const OpDef& def, std::string_view text) {
  return ExampleParser(def, text).parse();
}

}  // namespace weft
