// SPDX-License-Identifier: Apache-2.0
// The Program: what each rank does in one step, in order. Ranks that do the
// same share a block. Text form:
//
//   program @gpt on <data=2> in <micro=4>        // or: on <data=2>, <tensor=4>
//   constant %steps : i64[2] = hex "01000000000000000200000000000000"
//
//   block @step ranks 0 to 1 {
//     input %tokens : i64[8, 32] = batch "0" at [data, -]
//     input %w : f32[64, 32] = parameter "w" trained at [-, -]
//   forward:
//     %y = aten.mm(%x, %w) : f32[64, 32] at [data*micro, -] part 3
//     %z = aten.relu(%y) : f32[64, 32] at [data*micro, -] part 3 overwrites(%y)
//   backward:
//     %g = aten.mm(%a, %b) : f32[64, 32] at [-, -] +{data} offset(4096)
//     start %g.sum, %h.sum = all_reduce(%g, %h) over {data}
//     start %w.whole, %v.whole = all_gather(%w, %v) over {data} offset(0, 64)
//     start %k.piece = reduce_scatter(%k) over {data}
//     start %q.heads = all_to_all(%q) over {sequence}
//     start %z.sent = send(%z) to 1
//     start %k = receive : f32[8] at [-] from 1
//     start %z.kept = copy(%z) to host
//     free %a, %b
//     wait %g.sum
//     return gradient "w" = %g.sum
//   }
//
// Types are one rank's; `at` tells which piece of the whole value they are, and
// `part`, where a layout names axes of time (plan.h), at which point of them. A
// call makes its results at once. `overwrites` names, for each result, the
// value in whose storage it lies instead of one of its own: no value there may
// be read any more. `free` gives back the storage in which a value lies, inputs
// included; what is returned is never freed.
//
// `start` begins a transfer, and its results may be read after the `wait` for
// any one of them. all_reduce takes over the storages of its operands, whose
// other values may not be read any more; any other operand may be read
// meanwhile, and its storage be neither freed nor overwritten nor taken over
// before the wait. Only a copy back reads what lies on the host.
//
// What collectives make of layouts (after_transfer in transfer.h):
//   all_reduce      [-, -] +{data} -> [-, -]
//   reduce_scatter  [-, -] +{data} -> [data, -]; dim 0 shrinks
//   all_gather      [data, -] -> [-, -]; dim 0 grows
//   all_to_all      [data, -] -> [-, data]; sizes [1, w b, ...] -> [w, b, ...]
// The axes stand at the end of the dim's, that is innermost, so that pieces are
// stretches of row-major memory; for other dims lowering writes calls that pack
// and unpack. Pieces come in the order of the listed axes, outermost first,
// which must be the order of the mesh: then it is that of the group's ranks.
//
// Memory: parameters, buffers, states, scalars and constants stay where they
// are from step to step (is_resident). Every other storage lies in the rank's
// arena, at the `offset` that lower/place.cpp gives it, and while a call runs
// its `scratch(offset, bytes)` does too.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "program/team.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft {

enum class TransferKind : uint8_t {
  AllReduce,      // the sums, on every rank of a group
  AllGather,      // the pieces of all ranks of a group
  ReduceScatter,  // of the sums, every rank one piece
  AllToAll,       // pieces of one dim become pieces of another
  Send,           // to one rank
  Receive,        // from one rank
  Copy,           // between the device and its host
};
inline constexpr TransferKind kTransferKinds[] = {
    TransferKind::AllReduce,
    TransferKind::AllGather,
    TransferKind::ReduceScatter,
    TransferKind::AllToAll,
    TransferKind::Send,
    TransferKind::Receive,
    TransferKind::Copy};
std::string_view name(TransferKind kind);
// Among the ranks of a group, over axes.
bool is_collective(TransferKind kind);
// Whether results lie in their operands' storages; else in storages of their
// own.
bool stays_in_place(TransferKind kind);

// Where a storage lies.
enum class Tier : uint8_t { Device, Host };
std::string_view name(Tier tier);

// Runs the node of the block's function.
struct Call {
  NodeId node = NodeId::None;
  bool operator==(const Call&) const = default;
};

// Begins a transfer.
struct Start {
  TransferKind kind = TransferKind::AllReduce;
  // One a result; none for a receive. Several for an all_reduce, whose storages
  // then lie one behind the other, an all_gather and a reduce_scatter.
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  // Collectives: among the ranks that differ only in these.
  std::vector<std::string> axes;
  // Send, Receive: the other rank.
  int64_t peer = -1;
  // Copy.
  Tier to = Tier::Device;
  bool operator==(const Start&) const = default;
};

// Goes on when the transfer that makes `value` is done, with all its results.
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

struct Scratch {
  int64_t offset = -1;
  int64_t bytes = 0;
  bool operator==(const Scratch&) const = default;
};

// The same instructions for a range of ranks.
struct Block {
  // Local types. A transfer's result belongs to no node. Order: see renumber.
  // Nodes have neither `releases` nor `overwrites`: here memory is given back
  // by instructions.
  Function function;
  // How each value of the function lies on the mesh.
  std::vector<Layout> layouts;
  // For each value, its point on the axes of time, the last axis varying
  // fastest; 0 where the layout names none of them.
  std::vector<int64_t> parts;
  // For each value, the one whose storage it takes over; None for most.
  std::vector<ValueId> overwrites;
  // For each value, where in the arena its storage begins; -1 for a value that
  // lies in another's storage, that is resident, that lies on the host, and for
  // all before they are placed.
  std::vector<int64_t> offsets;
  // For each node, the memory that its call needs for itself.
  std::vector<Scratch> scratch;
  std::vector<Instruction> instructions;
  int64_t first_rank = 0;
  int64_t last_rank = 0;

  bool operator==(const Block&) const = default;
};

struct Program {
  std::string name;
  // Of one team of ranks after the other (team.h); a block's ranks are of one.
  std::vector<Mesh> meshes = {Mesh()};
  // Axes of time: what a rank does one after the other.
  Mesh time;
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

// The layout of a partial sum once it is summed over `axes`.
Layout without_partial(Layout layout, const std::vector<std::string>& axes);

// Appends a value with its layout and storage of its own.
ValueId add_value(
    Block& block,
    std::string name,
    TensorType type,
    Layout layout,
    int64_t part = 0);

// For every value, the value whose storage it lies in (itself, when it has its
// own): views lie in their operand's, results of all_reduce and send in their
// operand's, and what overwrites in what it overwrites.
std::vector<ValueId> storages(const Block& block);

// For every value, the transfer that makes it, or nullptr. Points into the
// block's instructions.
std::vector<const Start*> transfers(const Block& block);

// For every value, where its storage lies.
std::vector<Tier> tiers(const Block& block);

// Whether the input keeps its place from step to step.
bool is_resident(const Input& input);

// The size of a storage from storages(): of the value that made it.
int64_t storage_bytes(const Block& block, ValueId storage);

// The values that an instruction reads; those that it makes.
std::vector<ValueId> reads(const Block& block, const Instruction& instruction);
std::vector<ValueId> makes(const Block& block, const Instruction& instruction);

// Puts nodes into the order of the calls, and values into the order in which
// inputs and instructions make them: the order of the text. Drops what no
// instruction uses.
void renumber(Block& block);

// "%a, -, %b": what stands in texts for the names of values.
std::string percent_names(
    const Function& function, const std::vector<ValueId>& values);

// "%fc1/mm = aten.mm", "start %g.sum", "free %a, %b": short, for messages and
// timelines.
std::string label(const Block& block, const Instruction& instruction);

std::string print(const Program& program);
// "<data=2>, <tensor=4>".
std::string print_meshes(const std::vector<Mesh>& meshes);
// One line, without indentation and newline.
std::string print(const Block& block, const Instruction& instruction);
// `source` names the text in messages. Throws UserError with line and column.
Program parse_program(std::string_view text, const std::string& source);

// Every rank has one block; layouts fit, collectives make of them what they
// should, only partial sums are summed and none is returned but as a state that
// came in so; values are made once and before they are read, in the order of
// the text; nothing is read after its storage was freed, taken over or
// overwritten, or before its wait; nothing changes while a transfer reads it;
// every start has one wait and every wait its start; nothing is freed twice,
// and what is returned not at all; storages that live at the same time do not
// overlap, and those of one all_reduce lie one behind the other; members of a
// group start the same collectives in the same order, every send has its
// receive of the same type, and no rank waits for ever. Throws UserError naming
// block, instruction and value.
void verify(const Program& program);

}  // namespace weft
