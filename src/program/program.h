// SPDX-License-Identifier: Apache-2.0
// The Program: what each rank does in one step, in order. Ranks that do the
// same share a block. Text form:
//
//   program @gpt on <data=2>
//   constant %steps : i64[2] = hex "01000000000000000200000000000000"
//
//   block @step ranks 0 to 1 {
//     input %tokens : i64[2, 32] = batch "0" at [data, -]
//     input %w : f32[64, 32] = parameter "w" trained at [-, -]
//   forward:
//     %y = aten.mm(%x, %w) : f32[64, 32] at [data, -]
//   backward:
//     %g = aten.mm(%a, %b) : f32[64, 32] at [-, -] +{data}
//     start %g.sum = all_reduce(%g) over {data}
//     free %a, %b
//     wait %g.sum
//     return gradient "w" = %g.sum
//   }
//
// Types are one rank's; `at` tells which piece of the whole value they are. A
// call makes its results at once. `start` takes over the storage of its
// operand, whose other values may not be read any more; the result may be read
// after its `wait`. `free` gives back the storage in which a value lies,
// inputs included; what is returned is never freed.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft {

enum class CollectiveKind : uint8_t {
  AllReduce,  // the sum, on every rank
};
std::string_view name(CollectiveKind kind);

// Runs the node of the block's function.
struct Call {
  NodeId node = NodeId::None;
  bool operator==(const Call&) const = default;
};

// Begins a collective among the ranks that differ only in `axes`.
struct Start {
  CollectiveKind kind = CollectiveKind::AllReduce;
  std::vector<std::string> axes;
  ValueId operand = ValueId::None;
  ValueId result = ValueId::None;
  bool operator==(const Start&) const = default;
};

// Goes on when the collective that makes `value` is done.
struct Wait {
  ValueId value = ValueId::None;
  bool operator==(const Wait&) const = default;
};

// Gives back storages, each named by one value that lies in it.
struct Free {
  std::vector<ValueId> values;
  bool operator==(const Free&) const = default;
};

using Instruction = std::variant<Call, Start, Wait, Free>;

// The same instructions for a range of ranks.
struct Block {
  // Local types. A collective's result belongs to no node. Order: see renumber.
  // Nodes have neither `releases` nor `overwrites`: here memory is given back
  // by instructions.
  Function function;
  // How each value of the function lies on the mesh.
  std::vector<Layout> layouts;
  std::vector<Instruction> instructions;
  int64_t first_rank = 0;
  int64_t last_rank = 0;

  bool operator==(const Block&) const = default;
};

struct Program {
  std::string name;
  Mesh mesh;
  std::vector<Constant> constants;
  std::vector<Block> blocks;

  bool operator==(const Program&) const = default;
};

// The block that a rank runs. Throws UserError when the program has no such
// rank.
const Block& block_of(const Program& program, int64_t rank);

// The output that the next step reads as this input, as an index into
// function.outputs; -1 for an input that no output replaces.
int replacement_of(const Function& function, const Input& input);

// The ranks that take part with `rank` in a collective over `axes`, in order.
std::vector<int64_t> group_of(
    const Mesh& mesh, const std::vector<std::string>& axes, int64_t rank);

// The layout of a partial sum once it is summed over `axes`.
Layout without_partial(Layout layout, const std::vector<std::string>& axes);

// For every value, the value whose storage it lies in (itself, when it has its
// own): views lie in their operand's, collectives' results in their operand's.
std::vector<ValueId> storages(const Block& block);

// The size of a storage from storages(): of the value that made it.
int64_t storage_bytes(const Block& block, ValueId storage);

// The values that an instruction reads; those that it makes.
std::vector<ValueId> reads(const Block& block, const Instruction& instruction);
std::vector<ValueId> makes(const Block& block, const Instruction& instruction);

// Puts nodes into the order of the calls, and values into the order in which
// inputs and instructions make them: the order of the text. Drops what no
// instruction uses.
void renumber(Block& block);

// "%fc1/mm = aten.mm", "start %g.sum", "free %a, %b": short, for messages and
// timelines.
std::string label(const Block& block, const Instruction& instruction);

std::string print(const Program& program);
// One line, without indentation and newline.
std::string print(const Block& block, const Instruction& instruction);
// `source` names the text in messages. Throws UserError with line and column.
Program parse_program(std::string_view text, const std::string& source);

// Every rank has one block; layouts fit, only partial sums are summed and none
// is returned; values are made once and before they
// are read, in the order of the text; nothing is read after its storage was
// freed, taken over by a collective, or before its wait; every start has one
// wait and every wait its start; nothing is freed twice, and what is returned
// not at all. Throws UserError naming block, instruction and value.
void verify(const Program& program);

}  // namespace weft
