// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "graph/function_text.h"
#include "program/program.h"

#include <optional>
#include <utility>

namespace weft {

std::string print(const Block& block, const Instruction& instruction) {
  if (const auto* call = std::get_if<Call>(&instruction)) {
    const Node& node = block.function.nodes[index(call->node)];
    std::vector<std::string> layouts;
    for (const ValueId result : node.results) {
      layouts.push_back(print(block.layouts[index(result)]));
    }
    return cat(print(block.function, node), " at ", join(layouts, ", "));
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return cat(
        label(block, instruction),
        "(%",
        block.function[start->operand].name,
        ") over {",
        join(start->axes, ", "),
        "}");
  }
  return label(block, instruction);
}

namespace {

std::string print(const Block& block) {
  const Function& function = block.function;
  std::string out =
      cat("block @",
          function.name,
          " ranks ",
          block.first_rank,
          " to ",
          block.last_rank,
          " {\n");
  for (const Input& input : function.inputs) {
    out +=
        cat("  ",
            print(function, input),
            " at ",
            print(block.layouts[index(input.value)]),
            "\n");
  }
  std::optional<Phase> phase;
  for (const Instruction& instruction : block.instructions) {
    if (const auto* call = std::get_if<Call>(&instruction)) {
      const Phase next = function.nodes[index(call->node)].phase;
      if (phase != next) {
        phase = next;
        out += cat(name(next), ":\n");
      }
    }
    out += cat("  ", weft::print(block, instruction), "\n");
  }
  for (const Output& output : function.outputs) {
    out += cat("  ", print(function, output), "\n");
  }
  return out + "}\n";
}

class BlockParser {
 public:
  explicit BlockParser(Scanner* scanner)
      : scanner_(*scanner), lines_(scanner) {}

  // After the word `block`.
  Block block() {
    Block block;
    lines_.begin(lines_.at_name());
    scanner_.expect("ranks");
    block.first_rank = scanner_.expect_int();
    scanner_.expect("to");
    block.last_rank = scanner_.expect_int();
    scanner_.expect("{");
    while (scanner_.take("input")) {
      lines_.input();
      layouts(&block, 1);
    }
    while (!scanner_.looking_at("return") && !scanner_.looking_at("}")) {
      instruction(&block);
    }
    while (scanner_.take("return")) {
      lines_.output();
    }
    scanner_.expect("}");
    block.function = lines_.end();
    return block;
  }

 private:
  void instruction(Block* block) {
    std::vector<Instruction>& list = block->instructions;
    if (scanner_.peek() == '%') {
      if (!phase_) {
        scanner_.fail("expected a phase such as 'forward:' before a call");
      }
      list.emplace_back(
          Call{static_cast<NodeId>(lines_.so_far().nodes.size())});
      lines_.node(*phase_);
      layouts(block, lines_.so_far().nodes.back().results.size());
    } else if (scanner_.take("start")) {
      list.emplace_back(start(block));
    } else if (scanner_.take("wait")) {
      list.emplace_back(Wait{lines_.operand()});
    } else if (scanner_.take("free")) {
      Free free;
      do {
        free.values.push_back(lines_.operand());
      } while (scanner_.take(","));
      list.emplace_back(std::move(free));
    } else {
      phase_ = lines_.phase(
          "a call, 'start', 'wait', 'free', 'return', '}' or a phase: ");
      scanner_.expect(":");
    }
  }

  void layouts(Block* block, size_t count) {
    scanner_.expect("at");
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) {
        scanner_.expect(",");
      }
      block->layouts.push_back(parse_layout(scanner_));
    }
  }

  Start start(Block* block) {
    Start start;
    FunctionParser::NewName result = lines_.new_name();
    scanner_.expect("=");
    scanner_.expect(name(CollectiveKind::AllReduce));
    scanner_.expect("(");
    start.operand = lines_.operand();
    scanner_.expect(")");
    scanner_.expect("over");
    scanner_.expect("{");
    do {
      start.axes.push_back(scanner_.expect_word());
    } while (scanner_.take(","));
    scanner_.expect("}");
    start.result =
        lines_.define(std::move(result), lines_.so_far()[start.operand].type);
    block->layouts.push_back(
        without_partial(block->layouts[index(start.operand)], start.axes));
    return start;
  }

  Scanner& scanner_;
  FunctionParser lines_;
  std::optional<Phase> phase_;
};

}  // namespace

std::string print(const Program& program) {
  std::string out =
      cat("program @", program.name, " on ", print(program.mesh), "\n");
  for (const Constant& constant : program.constants) {
    out += print(constant) + "\n";
  }
  for (const Block& block : program.blocks) {
    out += "\n" + print(block);
  }
  return out;
}

Program parse_program(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  FunctionParser lines(&scanner);
  Program program;
  scanner.expect("program");
  program.name = lines.at_name();
  scanner.expect("on");
  program.mesh = parse_mesh(scanner);
  while (scanner.take("constant")) {
    program.constants.push_back(lines.constant());
  }
  while (scanner.take("block")) {
    program.blocks.push_back(BlockParser(&scanner).block());
  }
  if (!scanner.at_end()) {
    scanner.fail_expected("'constant', 'block' or the end");
  }
  return program;
}

}  // namespace weft
