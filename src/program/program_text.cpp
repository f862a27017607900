// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/function_text.h"
#include "graph/most_ranks.h"
#include "program/program.h"
#include "program/transfer.h"
#include "program/verify_parts.h"

#include <optional>
#include <utility>

namespace weft {

namespace {

// " offset(4096, -)", or nothing when none has a place.
std::string print_offsets(
    const Block& block, const std::vector<ValueId>& made) {
  std::vector<std::string> offsets;
  bool placed_any = false;
  for (const ValueId value : made) {
    const int64_t offset = block.offsets[index(value)];
    offsets.push_back(offset < 0 ? "-" : cat(offset));
    placed_any = placed_any || offset >= 0;
  }
  return placed_any ? cat(" offset(", join(offsets, ", "), ")") : "";
}

// " at [data, -] overwrites(%x) offset(4096)" for the values that one line
// makes.
std::string print_places(const Block& block, const std::vector<ValueId>& made) {
  std::vector<std::string> layouts;
  std::vector<ValueId> overwrites;
  bool overwrites_any = false;
  for (const ValueId value : made) {
    layouts.push_back(print(block.layouts[index(value)]));
    overwrites.push_back(block.overwrites[index(value)]);
    overwrites_any = overwrites_any || overwrites.back() != ValueId::None;
  }
  std::string out = cat(" at ", join(layouts, ", "));
  if (const int64_t part = block.parts[index(made.front())]; part > 0) {
    out += cat(" part ", part);
  }
  if (overwrites_any) {
    out += cat(" overwrites(", percent_names(block.function, overwrites), ")");
  }
  return out + print_offsets(block, made);
}

std::string print_start(const Block& block, const Start& start) {
  const Function& function = block.function;
  const std::string operands =
      cat("(", percent_names(function, start.operands), ")");
  const std::string offset = print_offsets(block, start.results);
  switch (start.kind) {
    case TransferKind::AllReduce:
    case TransferKind::AllGather:
    case TransferKind::ReduceScatter:
    case TransferKind::AllToAll:
      return cat(operands, " over {", join(start.axes, ", "), "}", offset);
    case TransferKind::Send:
      return cat(operands, " to ", start.peer);
    case TransferKind::Receive:
      return cat(
          " : ",
          print(function[start.results.front()].type),
          print_places(block, start.results),
          " from ",
          start.peer);
    case TransferKind::Copy:
      return cat(operands, " to ", name(start.to), offset);
  }
  WEFT_CHECK(false, "unknown transfer");
}

}  // namespace

std::string print(const Block& block, const Instruction& instruction) {
  if (const auto* call = std::get_if<Call>(&instruction)) {
    const Node& node = block.function.nodes[index(call->node)];
    const Scratch& scratch = block.scratch[index(call->node)];
    return cat(
        print(block.function, node),
        print_places(block, node.results),
        scratch.bytes == 0
            ? ""
            : cat(" scratch(", scratch.offset, ", ", scratch.bytes, ")"));
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return cat(label(block, instruction), print_start(block, *start));
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
    out += cat(
        "  ", print(function, input), print_places(block, {input.value}), "\n");
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
  BlockParser(Scanner* scanner, const Program& program)
      : scanner_(*scanner), program_(program), lines_(scanner) {}

  // After the word `block`.
  Block block() {
    Block block;
    lines_.begin(lines_.at_name());
    scanner_.expect("ranks");
    const size_t mark = scanner_.mark();
    block.first_rank = rank("the first rank");
    try {
      mesh_ =
          whole_mesh(team_of(program_, block.first_rank).mesh, program_.time);
    } catch (const UserError& error) {
      scanner_.fail_at(mark, error.what());
    }
    scanner_.expect("to");
    block.last_rank = rank("the last rank");
    scanner_.expect("{");
    while (scanner_.take("input")) {
      lines_.input();
      places(&block, 1);
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
      places(block, lines_.so_far().nodes.back().results.size());
      block->scratch.emplace_back();
      if (scanner_.take("scratch")) {
        scanner_.expect("(");
        block->scratch.back().offset = bytes("an offset");
        scanner_.expect(",");
        block->scratch.back().bytes = bytes("scratch", 1);
        scanner_.expect(")");
      }
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

  int64_t rank(std::string_view what) {
    return expect_integer(scanner_, what, {0, kMostMeshRanks});
  }

  // In an arena: sums of an offset and a size hold in 64 bits.
  int64_t bytes(std::string_view what, int64_t least = 0) {
    return expect_integer(scanner_, what, {least, int64_t{1} << 60});
  }

  template <typename Item>
  void list_of(size_t count, Item&& item) {
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) {
        scanner_.expect(",");
      }
      item();
    }
  }

  // What print_places wrote, for the last `count` values.
  void places(Block* block, size_t count) {
    scanner_.expect("at");
    list_of(count, [&] { block->layouts.push_back(parse_layout(scanner_)); });
    block->parts.resize(
        block->layouts.size(),
        scanner_.take("part") ? expect_integer(scanner_, "a part", {}) : 0);
    if (scanner_.take("overwrites")) {
      scanner_.expect("(");
      list_of(count, [&] {
        block->overwrites.push_back(
            scanner_.take("-") ? ValueId::None : lines_.operand());
      });
      scanner_.expect(")");
    }
    block->overwrites.resize(block->layouts.size(), ValueId::None);
    offsets(block, count);
  }

  void offsets(Block* block, size_t count) {
    if (scanner_.take("offset")) {
      scanner_.expect("(");
      list_of(count, [&] {
        block->offsets.push_back(scanner_.take("-") ? -1 : bytes("an offset"));
      });
      scanner_.expect(")");
    }
    block->offsets.resize(block->layouts.size(), -1);
  }

  TransferKind transfer() {
    std::vector<std::string> names;
    for (const TransferKind kind : kTransferKinds) {
      if (scanner_.take(name(kind))) {
        return kind;
      }
      names.emplace_back(name(kind));
    }
    scanner_.fail_expected(cat("one of ", join(names, ", ")));
  }

  Start start(Block* block) {
    Start start;
    const size_t mark = scanner_.mark();
    std::vector<FunctionParser::NewName> names;
    do {
      names.push_back(lines_.new_name());
    } while (scanner_.take(","));
    scanner_.expect("=");
    start.kind = transfer();
    if (start.kind == TransferKind::Receive) {
      scanner_.expect(":");
      start.results.push_back(
          lines_.define(names.front(), parse_type(scanner_)));
      places(block, 1);
      scanner_.expect("from");
      start.peer = rank("the rank that sends");
      return start;
    }
    scanner_.expect("(");
    list_of(names.size(), [&] { start.operands.push_back(lines_.operand()); });
    scanner_.expect(")");
    where(&start);
    for (size_t i = 0; i < names.size(); ++i) {
      const ValueId operand = start.operands[i];
      Moved moved = after(start, operand, block->layouts[index(operand)], mark);
      start.results.push_back(lines_.define(names[i], std::move(moved.type)));
      block->layouts.push_back(std::move(moved.layout));
      block->parts.push_back(block->parts[index(operand)]);
      block->overwrites.push_back(ValueId::None);
    }
    offsets(block, names.size());
    return start;
  }

  // Types and layouts of results are not in the text: they follow. Where the
  // type stays, whether the layout may is left to verify.
  Moved after(
      const Start& start, ValueId operand, const Layout& layout, size_t mark) {
    const Value& value = lines_.so_far()[operand];
    if (!is_collective(start.kind) || start.kind == TransferKind::AllReduce) {
      return {value.type, without_partial(layout, start.axes)};
    }
    try {
      return after_transfer(
          start.kind, start.axes, {value.type, layout}, mesh_);
    } catch (const UserError& error) {
      scanner_.fail_at(mark, cat("%", value.name, " ", error.what()));
    }
  }

  void where(Start* start) {
    if (is_collective(start->kind)) {
      scanner_.expect("over");
      scanner_.expect("{");
      do {
        start->axes.push_back(scanner_.expect_word());
      } while (scanner_.take(","));
      scanner_.expect("}");
      return;
    }
    scanner_.expect("to");
    if (start->kind == TransferKind::Send) {
      start->peer = rank("the rank that receives");
    } else if (scanner_.take(name(Tier::Host))) {
      start->to = Tier::Host;
    } else {
      scanner_.expect(name(Tier::Device));
    }
  }

  Scanner& scanner_;
  const Program& program_;
  // Of the block's ranks.
  Mesh mesh_;
  FunctionParser lines_;
  std::optional<Phase> phase_;
};

}  // namespace

std::string print_meshes(const std::vector<Mesh>& meshes) {
  std::vector<std::string> texts;
  for (const Mesh& mesh : meshes) {
    texts.push_back(print(mesh));
  }
  return join(texts, ", ");
}

std::string print(const Program& program) {
  std::string out =
      cat("program @",
          program.name,
          " on ",
          print_meshes(program.meshes),
          program.time.axes.empty() ? "" : cat(" in ", print(program.time)),
          "\n");
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
  program.meshes.clear();
  const size_t mark = scanner.mark();
  do {
    program.meshes.push_back(parse_mesh(scanner));
  } while (scanner.take(","));
  if (scanner.take("in")) {
    program.time = parse_mesh(scanner);
  }
  // What follows is read by them.
  try {
    verify_meshes(program);
  } catch (const UserError& error) {
    scanner.fail_at(mark, error.what());
  }
  while (scanner.take("constant")) {
    program.constants.push_back(lines.constant());
  }
  while (scanner.take("block")) {
    program.blocks.push_back(BlockParser(&scanner, program).block());
  }
  if (!scanner.at_end()) {
    scanner.fail_expected("'constant', 'block' or the end");
  }
  return program;
}

}  // namespace weft
