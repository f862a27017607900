// SPDX-License-Identifier: Apache-2.0
#include "execute/lockstep.h"

#include "aten/call.h"
#include "aten/lies_as.h"
#include "aten/types.h"
#include "base/error.h"
#include "execute/guard.h"
#include "execute/tensor_piece.h"
#include "ops/call.h"
#include "ops/kernel.h"
#include "program/piece.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weft {
namespace {

// The n-th transfer among these ranks: what each has given, by rank.
struct Meeting {
  std::map<int64_t, std::vector<at::Tensor>> given;
};
using MeetingKey = std::tuple<std::vector<int64_t>, bool, int64_t>;

at::Tensor constant(const Program& program, const std::string& name) {
  for (const Constant& known : program.constants) {
    if (known.name == name) {
      at::Tensor tensor =
          at::empty(known.type.sizes, scalar_type_of(known.type.dtype));
      std::memcpy(tensor.data_ptr(), known.bytes.data(), known.bytes.size());
      return tensor;
    }
  }
  throw UserError(
      cat("program @", program.name, " has no constant ", quote(name)));
}

// What was given for the input of the step that a block calls so.
at::Tensor given(
    const Function& step,
    const std::vector<at::Tensor>& inputs,
    const Input& wanted) {
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const Input& input = step.inputs[i];
    if (input.kind == wanted.kind &&
        input.keys.front() == wanted.keys.front()) {
      return inputs.at(i);
    }
  }
  throw UserError(cat("the step has no input ", quote(wanted.keys.front())));
}

class LockstepRank {
 public:
  LockstepRank(
      const Program& program,
      int64_t rank,
      const Function& step,
      const std::vector<at::Tensor>& inputs,
      const StepContext& context,
      std::map<MeetingKey, Meeting>& meetings)
      : program_(program),
        block_(block_of(program, rank)),
        rank_(rank),
        team_(team_of(program, rank)),
        context_(context),
        meetings_(meetings),
        values_(block_.function.values.size()),
        pending_(block_.function.values.size(), nullptr) {
    for (const Input& input : block_.function.inputs) {
      const at::Tensor whole = input.kind == InputKind::Constant
                                   ? constant(program, input.keys.front())
                                   : given(step, inputs, input);
      const TensorType& type = block_.function[input.value].type;
      at::Tensor mine = at::empty_strided(
          type.sizes, strides_of(type), scalar_type_of(type.dtype));
      mine.copy_(piece_of_tensor(
          whole, block_.layouts[index(input.value)], team_, rank));
      values_[index(input.value)] = mine;
    }
  }

  bool is_done() const { return next_ == block_.instructions.size(); }

  // Runs until it has to wait for another rank. False when it got nowhere.
  bool advance() {
    const size_t before = next_;
    while (!is_done() && run(block_.instructions[next_])) {
      ++next_;
    }
    return next_ != before;
  }

  std::string where() const {
    return cat(
        "rank ",
        rank_,
        is_done() ? "" : cat(", ", label(block_, block_.instructions[next_])));
  }

  const Block& block() const { return block_; }
  const at::Tensor& value(ValueId id) const { return values_[index(id)]; }

 private:
  bool run(const Instruction& instruction) {
    if (const auto* call = std::get_if<Call>(&instruction)) {
      run_call(block_.function.nodes[index(call->node)]);
    } else if (const auto* start = std::get_if<Start>(&instruction)) {
      begin(*start);
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      return finish(wait->value);
    }
    return true;
  }

  void run_call(const Node& node) {
    std::vector<at::Tensor> operands;
    for_each_operand(node, [&](ValueId id) {
      WEFT_CHECK_USER(
          values_[index(id)].defined() ||
              block_.function[id].type.sizes == Dims{0},
          where(),
          ": %",
          block_.function[id].name,
          " is not there");
      operands.push_back(values_[index(id)]);
    });
    std::vector<at::Tensor> results;
    try {
      results = call(node, operands);
    } catch (const c10::Error& error) {
      throw UserError(cat(where(), ": ", error.what_without_backtrace()));
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      WEFT_CHECK_USER(
          !is_view(node) || results[i].numel() == 0 ||
              results[i].is_alias_of(operands.front()),
          where(),
          ": is not a view but a copy");
      values_[index(node.results[i])] =
          accept(node, block_.function[node.results[i]], results[i]);
    }
  }

  // As on a real rank: a view lies where its call puts it, and what a kernel
  // lays out otherwise than the program says is copied to where it belongs.
  at::Tensor accept(
      const Node& node, const Value& value, const at::Tensor& made) const {
    if (!made.defined() || lies_as(made, value.type)) {
      return made;
    }
    WEFT_CHECK_USER(
        !is_view(node) && made.sizes().vec() == value.type.sizes &&
            made.scalar_type() == scalar_type_of(value.type.dtype),
        where(),
        ": %",
        value.name,
        " came out as ",
        print(type_of(made)),
        ", and the program says ",
        print(value.type));
    at::Tensor placed = at::empty_strided(
        value.type.sizes, strides_of(value.type), made.scalar_type());
    return placed.copy_(made);
  }

  std::vector<at::Tensor> call(
      const Node& node, const std::vector<at::Tensor>& operands) const {
    if (is_guard(node)) {
      check_guard(
          block_.function[node.results.front()].name, node, operands.front());
      return {operands.front()};
    }
    if (node.op.starts_with("weft.") || is_random(node)) {
      std::vector<at::Tensor> results;
      for (const ValueId id : node.results) {
        const TensorType& type = block_.function[id].type;
        results.push_back(at::empty_strided(
            type.sizes, strides_of(type), scalar_type_of(type.dtype)));
      }
      const Kernel kernel = bind_kernel(
          {.function = block_.function,
           .node = node,
           .operands = operands,
           .results = results,
           .piece =
               level_pieces(program_, block_, node.results.front(), rank_)});
      if (kernel) {
        kernel(context_);
        return results;
      }
    }
    return AtenCall(node)(operands);
  }

  std::vector<int64_t> members(const Start& start) const {
    switch (start.kind) {
      case TransferKind::Send:
        return {rank_, start.peer};
      case TransferKind::Receive:
        return {start.peer, rank_};
      case TransferKind::Copy:
        return {rank_};
      default:
        return group_of(team_, start.axes, rank_);
    }
  }

  void begin(const Start& start) {
    const bool is_direct = start.peer >= 0;
    const std::vector<int64_t> ranks = members(start);
    const int64_t number = count_[{ranks, is_direct}]++;
    Meeting& meeting = meetings_[{ranks, is_direct, number}];
    std::vector<at::Tensor>& given = meeting.given[rank_];
    for (const ValueId operand : start.operands) {
      given.push_back(values_[index(operand)].clone());
    }
    for (const ValueId result : start.results) {
      pending_[index(result)] = &start;
      meeting_of_[&start] = &meeting;
    }
  }

  bool finish(ValueId value) {
    const Start& start = *pending_[index(value)];
    const Meeting& meeting = *meeting_of_[&start];
    const std::vector<int64_t> ranks = members(start);
    const bool is_one_way =
        start.kind == TransferKind::Send || start.kind == TransferKind::Copy;
    for (const int64_t rank : ranks) {
      const bool is_here = meeting.given.contains(rank);
      if (!is_here && !is_one_way) {
        return false;
      }
    }
    for (size_t i = 0; i < start.results.size(); ++i) {
      const at::Tensor result = joined(start, meeting, ranks, i);
      const Value& out = block_.function[start.results[i]];
      WEFT_CHECK_USER(
          result.sizes().vec() == out.type.sizes,
          where(),
          ": %",
          out.name,
          " came out as ",
          print(type_of(result)),
          ", and the program says ",
          print(out.type));
      at::Tensor placed = at::empty_strided(
          out.type.sizes, strides_of(out.type), result.scalar_type());
      placed.copy_(result);
      values_[index(start.results[i])] = placed;
    }
    return true;
  }

  at::Tensor joined(
      const Start& start,
      const Meeting& meeting,
      const std::vector<int64_t>& ranks,
      size_t number) const {
    if (start.kind == TransferKind::Send || start.kind == TransferKind::Copy) {
      return meeting.given.at(rank_)[number];
    }
    if (start.kind == TransferKind::Receive) {
      return meeting.given.at(start.peer)[number];
    }
    std::vector<at::Tensor> all;
    for (const int64_t rank : ranks) {
      all.push_back(meeting.given.at(rank)[number]);
    }
    const auto count = static_cast<int64_t>(ranks.size());
    const int64_t mine =
        std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    if (start.kind == TransferKind::AllGather) {
      return at::cat(all, 0);
    }
    if (start.kind == TransferKind::AllToAll) {
      for (at::Tensor& one : all) {
        one = one.chunk(count, 1)[static_cast<size_t>(mine)];
      }
      return at::cat(all, 0);
    }
    at::Tensor sum = all.front();
    for (size_t i = 1; i < all.size(); ++i) {
      sum = sum.add(all[i]);
    }
    return start.kind == TransferKind::ReduceScatter
               ? sum.chunk(count, 0)[static_cast<size_t>(mine)]
               : sum;
  }

  const Program& program_;
  const Block& block_;
  const int64_t rank_;
  const Team team_;
  const StepContext& context_;
  std::map<MeetingKey, Meeting>& meetings_;
  std::vector<at::Tensor> values_;
  std::vector<const Start*> pending_;
  std::map<const Start*, const Meeting*> meeting_of_;
  // How often each group has met.
  std::map<std::pair<std::vector<int64_t>, bool>, int64_t> count_;
  size_t next_ = 0;
};

// The whole of an output, from the ranks that return it. Those with the same
// piece must agree.
at::Tensor whole_output(
    const Program& program,
    const std::vector<LockstepRank>& ranks,
    const Output& wanted) {
  at::Tensor whole;
  // The first team that returns it has all pieces.
  std::optional<int64_t> first_team;
  std::set<std::vector<int64_t>> seen;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Block& block = ranks[rank].block();
    const auto output = std::find_if(
        block.function.outputs.begin(),
        block.function.outputs.end(),
        [&](const Output& one) {
          return one.kind == wanted.kind && one.key == wanted.key;
        });
    if (output == block.function.outputs.end()) {
      continue;
    }
    const at::Tensor& mine = ranks[rank].value(output->value);
    const Layout& layout = block.layouts[index(output->value)];
    const auto where = static_cast<int64_t>(rank);
    if (!mine.defined()) {
      return {};
    }
    const Team team = team_of(program, where);
    if (!whole.defined()) {
      whole = at::empty(
          whole_sizes(type_of(mine), layout, team.mesh), mine.options());
    }
    std::vector<int64_t> piece = coordinates(team.mesh, number_in(team, where));
    const Axes axes = axes_of(layout);
    for (size_t i = 0; i < piece.size(); ++i) {
      const std::string& axis = team.mesh.axes[i].name;
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
        piece[i] = 0;
      }
    }
    first_team = first_team.value_or(team.first_rank);
    if (*first_team == team.first_rank && seen.insert(piece).second) {
      put_piece(whole, layout, team, where, mine);
      continue;
    }
    const at::Tensor other = piece_of_tensor(whole, layout, team, where);
    // What is not a number is equal to none, and the same on all ranks.
    const at::Tensor is_equal =
        other.eq(mine).logical_or(other.ne(other).logical_and(mine.ne(mine)));
    WEFT_CHECK_USER(
        is_equal.all().item<bool>(),
        "rank ",
        rank,
        ": %",
        block.function[output->value].name,
        " differs from that of another rank with the same piece");
  }
  return whole;
}

}  // namespace

std::vector<at::Tensor> run_lockstep(
    const Program& program,
    const Function& step,
    const std::vector<at::Tensor>& inputs,
    const StepContext& context) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::map<MeetingKey, Meeting> meetings;
  std::vector<LockstepRank> ranks;
  for (int64_t rank = 0; rank < rank_count(program); ++rank) {
    ranks.emplace_back(program, rank, step, inputs, context, meetings);
  }
  while (!std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) {
    return rank.is_done();
  })) {
    bool moved = false;
    for (LockstepRank& rank : ranks) {
      moved = rank.advance() || moved;
    }
    if (!moved) {
      std::vector<std::string> stuck;
      for (const LockstepRank& rank : ranks) {
        stuck.push_back(rank.where());
      }
      throw UserError(
          cat("the ranks wait for each other: ", join(stuck, "; ")));
    }
  }
  std::vector<at::Tensor> outputs;
  for (const Output& output : step.outputs) {
    outputs.push_back(whole_output(program, ranks, output));
  }
  return outputs;
}

}  // namespace weft
