// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "program/piece.h"
#include "program/program.h"
#include "program/transfer.h"
#include "program/verify_parts.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft {
namespace {

enum class State : uint8_t { NotMade, Pending, Ready, Taken, Freed };

// Follows a block instruction by instruction and knows what each value is
// good for.
class BlockVerifier {
 public:
  BlockVerifier(const Program& program, const Block& block)
      : program_(program),
        block_(block),
        mesh_(
            whole_mesh(team_of(program, block.first_rank).mesh, program.time)),
        storage_(storages(block)),
        tiers_(tiers(block)),
        state_(block.function.values.size(), State::NotMade),
        in_storage_(block.function.values.size()),
        held_for_(block.function.values.size()) {}

  void run() {
    check_layouts();
    check_bytes();
    for (const Input& input : block_.function.inputs) {
      make(input.value, State::Ready);
    }
    for (; at_ < block_.instructions.size(); ++at_) {
      const Instruction& instruction = block_.instructions[at_];
      for (const ValueId value : reads(block_, instruction)) {
        read(value);
      }
      std::visit([this](const auto& one) { step(one); }, instruction);
    }
    for (const Output& output : block_.function.outputs) {
      read(output.value);
      check(
          block_.layouts[index(output.value)].partial.empty() ||
              is_carried(output),
          output.value,
          "is returned as a partial sum");
    }
    WEFT_CHECK_USER(
        made_ == state_.size() && called_ == block_.function.nodes.size(),
        "program @",
        program_.name,
        ", block @",
        block_.function.name,
        ": it has nodes or values that no instruction makes (call renumber)");
    for (size_t i = 0; i < state_.size(); ++i) {
      check(
          state_[i] != State::Pending,
          static_cast<ValueId>(i),
          "is started and never waited for");
    }
  }

 private:
  void check(bool condition, ValueId value, std::string_view what) const {
    if (condition) {
      return;
    }
    throw UserError(
        cat(place_in(program_, block_, at_),
            "%",
            block_.function[value].name,
            " ",
            what));
  }

  // A state that comes in and goes out as the same partial sum.
  bool is_carried(const Output& output) const {
    return std::any_of(
        block_.function.inputs.begin(),
        block_.function.inputs.end(),
        [&](const Input& input) {
          return input.kind == InputKind::State &&
                 output.kind == OutputKind::State &&
                 input.keys.front() == output.key &&
                 block_.layouts[index(input.value)] ==
                     block_.layouts[index(output.value)];
        });
  }

  // Sums of them all, and ends of all places, are below 2^63.
  void check_bytes() const {
    constexpr int64_t kFurthestBytes = int64_t{1} << 60;
    int64_t left = kFurthestBytes;
    for (size_t i = 0; i < block_.function.values.size(); ++i) {
      const int64_t bytes = storage_bytes(block_, static_cast<ValueId>(i));
      check(
          bytes <= left && block_.offsets[i] <= kFurthestBytes,
          static_cast<ValueId>(i),
          "lies or ends beyond 2^60 bytes");
      left -= bytes;
    }
    for (const Scratch& scratch : block_.scratch) {
      WEFT_CHECK_USER(
          scratch.bytes == 0 ||
              (0 <= scratch.offset && scratch.offset <= kFurthestBytes &&
               0 < scratch.bytes && scratch.bytes <= left),
          "program @",
          program_.name,
          ", block @",
          block_.function.name,
          ": scratch memory at ",
          scratch.offset,
          " of ",
          scratch.bytes,
          " bytes");
      left -= scratch.bytes;
    }
  }

  void check_layouts() const {
    const Function& function = block_.function;
    WEFT_CHECK_USER(
        block_.layouts.size() == function.values.size() &&
            block_.parts.size() == function.values.size() &&
            block_.overwrites.size() == function.values.size() &&
            block_.offsets.size() == function.values.size() &&
            block_.scratch.size() == function.nodes.size(),
        "program @",
        program_.name,
        ", block @",
        function.name,
        ": every value needs a layout and a place, and every node its scratch");
    for (size_t i = 0; i < function.values.size(); ++i) {
      const Value& value = function.values[i];
      try {
        const Layout& layout = block_.layouts[i];
        check_countable(layout, value.type);
        const bool has_dims = layout.dims.size() == value.type.sizes.size();
        verify(
            layout,
            has_dims
                ? make_type(
                      value.type.dtype, whole_sizes(value.type, layout, mesh_))
                : value.type,
            mesh_);
        WEFT_CHECK_USER(
            block_.parts[i] >= 0 && block_.parts[i] < rank_count(program_.time),
            "part ",
            block_.parts[i],
            " of ",
            rank_count(program_.time));
      } catch (const UserError& error) {
        throw UserError(
            cat("program @",
                program_.name,
                ", block @",
                function.name,
                ": %",
                value.name,
                ": ",
                error.what()));
      }
    }
  }

  // Sizes of the whole value can be told from those of a piece: what verify
  // says of a layout is said of the whole.
  void check_countable(const Layout& layout, const TensorType& type) const {
    for (const std::string& axis : axes_of(layout)) {
      WEFT_CHECK_USER(
          find_axis(mesh_, axis) >= 0,
          "[layout] ",
          weft::print(layout),
          " names the axis '",
          axis,
          "', which is not on the mesh ",
          weft::print(mesh_));
    }
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
      const Levels& levels = layout.dims[dim];
      const bool is_one = levels.size() == 1 && levels.front().size == 0;
      int64_t size =
          is_one && dim < type.sizes.size() ? type.sizes[dim] : int64_t{1};
      bool fits = true;
      for (const Level& level : levels) {
        fits = fits && (is_one || level.size > 0) &&
               !__builtin_mul_overflow(
                   size, is_one ? ways(mesh_, level.axes) : level.size, &size);
      }
      WEFT_CHECK_USER(
          fits,
          "[layout] ",
          weft::print(layout),
          ": every level of dim ",
          dim,
          " needs a size above 0, and 64 bits have to count them together");
    }
  }

  void make(ValueId value, State state) {
    State& now = state_[index(value)];
    check(now == State::NotMade, value, "is made twice");
    check(index(value) == made_++, value, "is out of order (call renumber)");
    now = state;
    in_storage_[index(storage_[index(value)])].push_back(value);
  }

  void read(ValueId value) const {
    switch (state_[index(value)]) {
      case State::Ready:
        return;
      case State::NotMade:
        return check(false, value, "is read before it is made");
      case State::Pending:
        return check(false, value, "is read before its wait");
      case State::Taken:
        return check(false, value, "is read after its storage was taken over");
      case State::Freed:
        return check(false, value, "is read after it was freed");
    }
  }

  // No value that lies in the storage of `value` can be read from now on.
  void end_storage(ValueId value, State state) {
    for (const ValueId other : in_storage_[index(storage_[index(value)])]) {
      State& now = state_[index(other)];
      check(now != State::Pending, other, "still waits for its transfer");
      now = now == State::Ready ? state : now;
    }
    for (const ValueId result : held_for_[index(storage_[index(value)])]) {
      check(
          state_[index(result)] != State::Pending,
          value,
          cat("is still read by the transfer of %",
              block_.function[result].name));
    }
  }

  void step(const Call& call) {
    const Node& node = block_.function.nodes[index(call.node)];
    check(
        index(call.node) == called_++,
        node.results.front(),
        "is out of order (call renumber)");
    for (const ValueId value : operands(node)) {
      check(
          tiers_[index(value)] == Tier::Device,
          value,
          "lies on the host, where no call can read it");
    }
    for (const ValueId value : node.results) {
      overwrite(value);
    }
    for (const ValueId value : node.results) {
      make(value, State::Ready);
    }
  }

  void overwrite(ValueId result) {
    const ValueId before = block_.overwrites[index(result)];
    if (before == ValueId::None) {
      return;
    }
    check(
        index(before) < made_ && state_[index(before)] == State::Ready,
        before,
        "is overwritten, and is not there to be");
    check(
        storage_bytes(block_.function[result].type) <=
            storage_bytes(block_, storage_[index(before)]),
        result,
        cat("does not fit into what it overwrites, %",
            block_.function[before].name));
    end_storage(before, State::Taken);
  }

  void step(const Start& start) {
    const ValueId first = start.results.front();
    const bool receives = start.kind == TransferKind::Receive;
    check(
        start.operands.size() == (receives ? 0 : start.results.size()),
        first,
        "needs an operand for each result");
    check(
        start.results.size() == 1 || start.kind == TransferKind::AllReduce ||
            start.kind == TransferKind::AllGather ||
            start.kind == TransferKind::ReduceScatter,
        first,
        cat("is one of several results, and ",
            name(start.kind),
            " makes only one"));
    for (size_t i = 0; i < start.operands.size(); ++i) {
      check_start(start, start.operands[i], start.results[i]);
    }
    for (const ValueId result : start.results) {
      make(result, State::Pending);
      transfer_of_[result] = at_;
    }
    if (!stays_in_place(start.kind)) {
      for (const ValueId operand : start.operands) {
        held_for_[index(storage_[index(operand)])].push_back(first);
      }
    }
  }

  void check_start(const Start& start, ValueId operand, ValueId result) {
    check_result(start, operand, result);
    const bool on_host = tiers_[index(operand)] == Tier::Host;
    if (start.kind == TransferKind::Copy) {
      check(
          on_host == (start.to == Tier::Device),
          operand,
          cat("lies on the ", name(start.to), " already"));
      return;
    }
    check(!on_host, operand, "lies on the host");
    if (start.kind == TransferKind::AllReduce) {
      end_storage(operand, State::Taken);
    }
  }

  void check_result(const Start& start, ValueId operand, ValueId result) const {
    const Moved before = {
        block_.function[operand].type, block_.layouts[index(operand)]};
    Moved after;
    try {
      after = after_transfer(start.kind, start.axes, before, mesh_);
    } catch (const UserError& error) {
      check(false, operand, error.what());
    }
    check(
        block_.function[result].type == after.type,
        result,
        cat("has the type ",
            print(block_.function[result].type),
            ", and should have ",
            print(after.type)));
    check(
        block_.layouts[index(result)] == after.layout,
        result,
        cat("should be ", print(after.layout)));
  }

  void step(const Wait& wait) {
    State& now = state_[index(wait.value)];
    check(now == State::Pending, wait.value, "has no start to wait for");
    const auto& start =
        std::get<Start>(block_.instructions[transfer_of_.at(wait.value)]);
    for (const ValueId result : start.results) {
      state_[index(result)] = State::Ready;
    }
  }

  void step(const Free& free) {
    for (const ValueId value : free.values) {
      check(
          state_[index(value)] != State::Freed,
          value,
          "is freed for the second time");
      read(value);
      end_storage(value, State::Freed);
    }
  }

  const Program& program_;
  const Block& block_;
  const Mesh mesh_;
  const std::vector<ValueId> storage_;
  const std::vector<Tier> tiers_;
  std::vector<State> state_;
  // The start that makes each transfer's result.
  std::map<ValueId, size_t> transfer_of_;
  // By the value that made the storage: all that lie in it so far.
  std::vector<std::vector<ValueId>> in_storage_;
  // By the value that made the storage: first results of transfers that read it
  // until their wait.
  std::vector<std::vector<ValueId>> held_for_;
  size_t made_ = 0;
  size_t called_ = 0;
  size_t at_ = 0;
};

}  // namespace

std::string place_in(const Program& program, const Block& block, size_t at) {
  const std::string where = at < block.instructions.size()
                                ? cat("instruction ",
                                      at,
                                      " (",
                                      label(block, block.instructions[at]),
                                      ")")
                                : std::string("the end");
  return cat(
      "program @",
      program.name,
      ", block @",
      block.function.name,
      ", ",
      where,
      ": ");
}

void verify_meshes(const Program& program) {
  int64_t ranks = 0;
  for (const Mesh& mesh : program.meshes) {
    verify(whole_mesh(mesh, program.time));
    WEFT_CHECK_USER(
        !__builtin_add_overflow(ranks, rank_count(mesh), &ranks),
        "[mesh] more ranks than 64 bits can count");
  }
}

void verify(const Program& program) {
  verify_meshes(program);
  int64_t next = 0;
  std::set<std::string> names;
  for (const Block& block : program.blocks) {
    WEFT_CHECK_USER(
        block.first_rank == next && block.last_rank >= block.first_rank,
        "program @",
        program.name,
        ", block @",
        block.function.name,
        ": ranks ",
        block.first_rank,
        " to ",
        block.last_rank,
        " do not follow on rank ",
        next - 1);
    WEFT_CHECK_USER(
        names.insert(block.function.name).second,
        "program @",
        program.name,
        ": two blocks are called @",
        block.function.name);
    next = block.last_rank + 1;
    const Team team = team_of(program, block.first_rank);
    WEFT_CHECK_USER(
        number_in(team, block.last_rank) < rank_count(team.mesh),
        "program @",
        program.name,
        ", block @",
        block.function.name,
        ": ranks ",
        block.first_rank,
        " to ",
        block.last_rank,
        " are not all on the mesh ",
        print(team.mesh),
        ", which begins at rank ",
        team.first_rank);
    BlockVerifier(program, block).run();
    verify_places(program, block);
  }
  WEFT_CHECK_USER(
      next == rank_count(program),
      "program @",
      program.name,
      ": blocks for ",
      next,
      " rank(s), and the mesh ",
      print_meshes(program.meshes),
      " has ",
      rank_count(program));
  verify_meetings(program);
}

}  // namespace weft
