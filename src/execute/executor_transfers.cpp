// SPDX-License-Identifier: Apache-2.0
// The transfers of a block as actions.
#include "base/error.h"
#include "execute/executor_builder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>
#include <utility>

namespace weft {

std::vector<int64_t> ExecutorBuilder::ranks_of(const Start& start) const {
  if (is_collective(start.kind)) {
    return group_of(team_of(program_, rank_), start.axes, rank_);
  }
  return {std::min(rank_, start.peer), std::max(rank_, start.peer)};
}

// A group is there when all its ranks have asked for it. All ask in the order
// of the groups' ranks: then those of the first group that is not there yet
// wait for no other, whatever the order of their programs.
void ExecutorBuilder::join_groups() {
  std::set<std::vector<int64_t>> groups;
  for (const Instruction& instruction : block_.instructions) {
    const auto* start = std::get_if<Start>(&instruction);
    if (start != nullptr && start->kind != TransferKind::Copy) {
      groups.insert(ranks_of(*start));
    }
  }
  const c10::DeviceType device =
      tensor_over(step_, TensorType()).device().type();
  for (const std::vector<int64_t>& ranks : groups) {
    if (ranks.size() > 1) {
      WEFT_CHECK(world_ != nullptr, "a program of several ranks needs a world");
      executor_.groups_[ranks] = world_->group(ranks, device);
    }
  }
}

void ExecutorBuilder::place_results(const Start& start) {
  for (size_t i = 0; i < start.results.size(); ++i) {
    const ValueId result = start.results[i];
    if (stays_in_place(start.kind)) {
      tensor(result) = tensor(start.operands[i]);
      continue;
    }
    const TensorType& type = block_.function[result].type;
    if (start.kind == TransferKind::Copy && start.to == Tier::Host) {
      // On a CPU, the host's memory is the device's, outside the arena.
      at::Tensor host = at::empty(
          {storage_bytes(type)}, at::TensorOptions().dtype(at::kByte));
      elsewhere_[index(result)] =
          static_cast<std::byte*>(host.mutable_data_ptr());
      executor_.host_.push_back(std::move(host));
    } else {
      executor_.filled_end_bytes_ = std::max(
          executor_.filled_end_bytes_,
          block_.offsets[index(result)] + storage_bytes(type));
    }
    tensor(result) = tensor_over(memory_of(result), type);
  }
}

ExecutorBuilder::Action ExecutorBuilder::action(const Start& start) {
  place_results(start);
  if (start.kind == TransferKind::Copy) {
    return copy(start);
  }
  const std::vector<int64_t> ranks = ranks_of(start);
  if (ranks.size() == 1) {
    return copy(start);
  }
  const auto transfer = std::make_shared<Transfer>();
  transfer->instruction = at_;
  for (const ValueId result : start.results) {
    transfers_[index(result)] = transfer;
  }
  return [transfer,
          move = move(start),
          &communicator = *executor_.groups_.at(ranks)](int64_t, StepClock*) {
    transfer->pending = move(communicator);
  };
}

ExecutorBuilder::Move ExecutorBuilder::move(const Start& start) {
  std::vector<at::Tensor> to = tensors(start.results);
  std::vector<at::Tensor> from = tensors(start.operands);
  switch (start.kind) {
    case TransferKind::AllReduce:
      return [sums = all_reduced(start)](Communicator& group) {
        return group.all_reduce(sums);
      };
    case TransferKind::AllGather:
      return [to, from](Communicator& group) {
        return group.all_gather(to, from);
      };
    case TransferKind::ReduceScatter:
      return [to, from](Communicator& group) {
        return group.reduce_scatter(to, from);
      };
    case TransferKind::AllToAll:
      return [to, from](Communicator& group) {
        return group.all_to_all(to.front(), from.front());
      };
    case TransferKind::Send:
      return [from](Communicator& group) { return group.send(from.front()); };
    case TransferKind::Receive:
      return [to](Communicator& group) { return group.receive(to.front()); };
    case TransferKind::Copy:
      break;
  }
  WEFT_CHECK(false, "no rank takes part in a ", name(start.kind));
}

at::Tensor ExecutorBuilder::all_reduced(const Start& start) {
  if (start.operands.size() == 1) {
    return tensor(start.operands.front());
  }
  // One stretch of the arena: the gaps between storages travel too.
  const ValueId first = storage_[index(start.operands.front())];
  const ValueId last = storage_[index(start.operands.back())];
  const int64_t bytes = block_.offsets[index(last)] -
                        block_.offsets[index(first)] +
                        storage_bytes(block_, last);
  const DType dtype = block_.function[first].type.dtype;
  return tensor_over(
      memory_of(first), make_type(dtype, {bytes / element_bytes(dtype)}));
}

// Also what is left of a collective of one rank.
ExecutorBuilder::Action ExecutorBuilder::copy(const Start& start) {
  if (stays_in_place(start.kind)) {
    return {};
  }
  return [sources = tensors(start.operands), targets = tensors(start.results)](
             int64_t, StepClock*) {
    for (size_t i = 0; i < sources.size(); ++i) {
      targets[i].copy_(sources[i]);
    }
  };
}

ExecutorBuilder::Action ExecutorBuilder::action(const Wait& wait) {
  const std::shared_ptr<Transfer> transfer = transfers_[index(wait.value)];
  if (!transfer) {
    return {};
  }
  executor_.waits_.push_back({at_, transfer->instruction});
  return [transfer](int64_t, StepClock* clock) {
    const auto end = transfer->pending->wait();
    if (clock != nullptr) {
      double& seconds = clock->events[transfer->instruction].end_seconds;
      seconds = std::max(seconds, clock->seconds(end));
    }
    transfer->pending.reset();
  };
}

}  // namespace weft
