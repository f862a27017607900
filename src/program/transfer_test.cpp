// SPDX-License-Identifier: Apache-2.0
#include "program/transfer.h"

#include "base/error.h"
#include "base/text.h"
#include "program/live_bytes.h"
#include "program/piece.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr const char* kProgram = R"(program @wires on <data=2, sequence=2>

block @step ranks 0 to 3 {
  input %w : f32[3, 4] = parameter "w" trained at [sequence*data, -]
  input %v : bf16[2] = parameter "v" trained at [data]
  input %x : f32[1, 6, 2] = batch "0" at [sequence, -, data] offset(0)
  start %w.whole, %v.whole = all_gather(%w, %v) over {data} offset(64, 192)
  start %y = all_to_all(%x) over {sequence} offset(256)
  wait %v.whole
  wait %y
  free %x
backward:
  %g = aten.neg(%w.whole) : f32[6, 4] at [sequence, -] +{data} offset(320)
  free %w.whole, %v.whole, %y
  start %g.piece = reduce_scatter(%g) over {data} offset(64)
  wait %g.piece
  free %g
  return gradient "w" = %g.piece
}
)";

std::string message_with(const std::string& before, const std::string& after) {
  std::string text = kProgram;
  const size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  text.replace(at, before.size(), after);
  try {
    verify(parse_program(text, "p"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Transfers, PrintWhatTheyParsed) {
  Program program = parse_program(kProgram, "p");
  verify(program);
  EXPECT_EQ(print(program), kProgram);
  EXPECT_EQ(parse_program(print(program), "again"), program);
  renumber(program.blocks.front());
  EXPECT_EQ(print(program), kProgram);
  const Block& block = program.blocks.front();
  EXPECT_EQ(
      label(block, block.instructions.front()),
      "start %w.whole, %v.whole = all_gather");
}

TEST(Transfers, TypesAndLayoutsFollow) {
  const Program program = parse_program(kProgram, "p");
  const Block& block = program.blocks.front();
  std::vector<std::string> made;
  for (size_t i = 0; i < block.layouts.size(); ++i) {
    made.push_back(
        cat(block.function.values[i].name,
            " ",
            print(block.function.values[i].type),
            " ",
            print(block.layouts[i])));
  }
  EXPECT_EQ(made[3], "w.whole f32[6, 4] [sequence, -]");
  EXPECT_EQ(made[4], "v.whole bf16[4] [-]");
  EXPECT_EQ(made[5], "y f32[2, 3, 2] [-, sequence, data]");
  EXPECT_EQ(made[7], "g.piece f32[3, 4] [sequence*data, -]");
  // What travels is all of the whole value, on either side.
  for (const auto& [from, to] : {std::pair(0, 3), {1, 4}, {2, 5}, {6, 7}}) {
    const auto whole = [&](int value) {
      return whole_sizes(
          block.function.values[static_cast<size_t>(value)].type,
          block.layouts[static_cast<size_t>(value)],
          program.meshes.front());
    };
    EXPECT_EQ(whole(from), whole(to));
  }
}

TEST(Transfers, ResultsHaveStoragesOfTheirOwn) {
  const Program program = parse_program(kProgram, "p");
  const Block& block = program.blocks.front();
  const std::vector<ValueId> storage = storages(block);
  for (size_t i = 0; i < storage.size(); ++i) {
    EXPECT_EQ(index(storage[i]), i);
  }
  // w 48, v 4, x 48; w.whole 96, v.whole 8; y 48; g 96; g.piece 48.
  EXPECT_EQ(
      live_bytes(block),
      (std::vector<int64_t>{204, 252, 252, 252, 204, 300, 148, 196, 196, 100}));
  EXPECT_EQ(transfers(block)[4], transfers(block)[3]);
  EXPECT_EQ(transfers(block)[6], nullptr);
}

TEST(Transfers, WireBytes) {
  const Program program = parse_program(kProgram, "p");
  EXPECT_EQ(
      wire_bytes_by_kind(program, 3),
      (std::vector<WireBytes>{
          {TransferKind::AllGather, {"data"}, 52},
          {TransferKind::ReduceScatter, {"data"}, 48},
          {TransferKind::AllToAll, {"sequence"}, 24}}));
  EXPECT_EQ(wire_bytes(program, 0, TransferKind::AllToAll), 24);
  EXPECT_EQ(wire_bytes(program, 0), 124);
  EXPECT_EQ(collective_bytes(TransferKind::AllReduce, 4, 100, 100), 150);
  EXPECT_EQ(collective_bytes(TransferKind::AllGather, 4, 100, 400), 300);
  EXPECT_EQ(collective_bytes(TransferKind::ReduceScatter, 4, 100, 25), 75);
  EXPECT_EQ(collective_bytes(TransferKind::AllToAll, 4, 100, 100), 75);
  EXPECT_EQ(collective_bytes(TransferKind::AllReduce, 1, 100, 100), 0);
}

TEST(Transfers, LayoutsMustFit) {
  EXPECT_EQ(
      message_with("at [sequence*data, -]", "at [data*sequence, -]"),
      "p:7:9: %w lies at [data*sequence, -], and its dim 0 does not end with "
      "{data}");
  EXPECT_EQ(
      message_with("f32[1, 6, 2]", "f32[2, 6, 2]"),
      "p:8:9: %x is f32[2, 6, 2]: all_to_all needs size 1 in dim 0");
  EXPECT_EQ(
      message_with("f32[1, 6, 2]", "f32[1, 5, 2]"),
      "p:8:9: %x has 5 in dim 1, which does not divide into 2 equal pieces");
  EXPECT_EQ(
      message_with("f32[6, 4] at [sequence, -] +{data}", "f32[6, 4] at [-, -]"),
      "p:15:9: %g is no partial sum over {data}");
  EXPECT_EQ(
      message_with("f32[6, 4] at [sequence, -] +", "f32[5, 4] at [-, -] +"),
      "p:15:9: %g has 5 in dim 0, which does not divide into 2 equal pieces");
  EXPECT_EQ(
      message_with("f32[3, 4] =", "f32[3, 4]{1, 3} ="),
      "p:7:9: %w is f32[3, 4]{1, 3}: all_gather needs it row-major");
  EXPECT_EQ(
      message_with("over {sequence}", "over {tensor}"),
      "p:8:9: %x is given to all_to_all over the axis 'tensor', which is not "
      "on the mesh <data=2, sequence=2>");
}

TEST(Transfers, AxesComeInTheOrderOfTheMesh) {
  const Mesh mesh = parse_mesh("<data=2, sequence=2>");
  const Moved piece = {parse_type("f32[3]"), parse_layout("[data*sequence]")};
  EXPECT_EQ(
      after_transfer(
          TransferKind::AllGather, {"data", "sequence"}, piece, mesh),
      (Moved{parse_type("f32[12]"), parse_layout("[-]")}));
  const Moved other = {parse_type("f32[3]"), parse_layout("[sequence*data]")};
  try {
    after_transfer(TransferKind::AllGather, {"sequence", "data"}, other, mesh);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "is given to all_gather over {sequence, data}, which is not the order "
        "of the mesh <data=2, sequence=2>");
  }
  // A sum is the same in any order.
  const Moved sum = {
      parse_type("f32[3]"), parse_layout("[-] +{data, sequence}")};
  EXPECT_EQ(
      after_transfer(TransferKind::AllReduce, {"sequence", "data"}, sum, mesh)
          .layout,
      parse_layout("[-]"));
}

TEST(Transfers, OperandsStayUntilTheWait) {
  const std::string start = "program @wires, block @step, instruction ";
  EXPECT_EQ(
      message_with("  wait %y\n  free %x\n", "  free %x\n  wait %y\n"),
      start + "3 (free %x): %x is still read by the transfer of %y");
  EXPECT_EQ(
      message_with(
          "  wait %g.piece\n  free %g\n", "  free %g\n  wait %g.piece\n"),
      start + "8 (free %g): %g is still read by the transfer of %g.piece");
  EXPECT_EQ(
      message_with(
          "  wait %v.whole\n",
          "forward:\n"
          "  %n = aten.neg(%v) : bf16[2] at [data] overwrites(%v)\n"
          "  wait %v.whole\n"),
      start +
          "2 (%n = aten.neg): %v is still read by the transfer of %w.whole");
  EXPECT_EQ(
      message_with(
          "  wait %v.whole\n",
          "forward:\n"
          "  %n = aten.neg(%v) : bf16[2] at [data] offset(1024)\n"
          "  wait %v.whole\n"),
      "no error");
  EXPECT_EQ(message_with("aten.neg(%w.whole)", "aten.neg(%y)"), "no error");
  EXPECT_EQ(
      message_with("  wait %v.whole\n", ""),
      start + "4 (%g = aten.neg): %w.whole is read before its wait");
  EXPECT_EQ(
      message_with("offset(256)", "offset(192)"),
      start +
          "1 (start %y = all_to_all): %y at 192 lies over %v.whole, which is "
          "still in use");
}

TEST(Transfers, MembersStartTheSame) {
  const auto program = [](const std::string& second) {
    return cat(
        "program @p on <data=2>\n"
        "block @a ranks 0 to 0 {\n"
        "  input %x : f32[2] = batch \"0\" at [data]\n"
        "  start %y = all_gather(%x) over {data}\n"
        "  wait %y\n"
        "}\n"
        "block @b ranks 1 to 1 {\n",
        second,
        "}\n");
  };
  const auto message = [&](const std::string& second) {
    try {
      verify(parse_program(program(second), "p"));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(
      message("  input %x : f32[2] = batch \"0\" at [data]\n"
              "  start %y = all_gather(%x) over {data}\n"
              "  wait %y\n"),
      "no error");
  EXPECT_EQ(
      message("  input %x : f32[4] = batch \"0\" at [-] +{data}\n"
              "  start %y = all_reduce(%x) over {data}\n"
              "  wait %y\n"),
      "program @p, block @b, instruction 0 (start %y = all_reduce): rank 1 "
      "starts a transfer of f32[4] by all_reduce where rank 0 starts one of "
      "f32[4] by all_gather");
  EXPECT_EQ(
      message("  input %x : f32[2] = batch \"0\" at [data]\n"),
      "program @p, block @a, instruction 1 (wait %y): rank 0 waits for ever: "
      "rank 1 never starts its part before");
}

TEST(Transfers, OnlySomeTakeSeveralOperands) {
  Program program = parse_program(kProgram, "p");
  Block& block = program.blocks.front();
  auto& start = std::get<Start>(block.instructions.front());
  start.kind = TransferKind::AllToAll;
  EXPECT_THROW(verify(program), UserError);
  // The storages of one all_reduce lie one behind the other.
  const std::string text = R"(program @p on <data=2>
block @a ranks 0 to 1 {
  input %x : f32[2] = batch "0" at [-] +{data} offset(0)
  input %y : f32[2] = batch "1" at [-] +{data} offset(128)
  start %x.sum, %y.sum = all_reduce(%x, %y) over {data}
  wait %x.sum
}
)";
  try {
    verify(parse_program(text, "p"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(
        std::string(error.what()).find("%y does not lie behind"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace weft
