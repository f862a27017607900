// SPDX-License-Identifier: Apache-2.0
#include "execute/executor_builder.h"

#include "aten/lies_as.h"
#include "aten/types.h"
#include "base/error.h"
#include "execute/kernel.h"
#include "ops/call.h"
#include "ops/kernel.h"
#include "ops/op_def.h"
#include "ops/strided.h"
#include "program/live_bytes.h"
#include "program/piece.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace weft {
namespace {

at::Tensor constant_of(const Program& program, const std::string& key) {
  for (const Constant& known : program.constants) {
    if (known.name == key) {
      at::Tensor rows =
          at::empty(known.type.sizes, scalar_type_of(known.type.dtype));
      std::memcpy(rows.data_ptr(), known.bytes.data(), known.bytes.size());
      return rows;
    }
  }
  throw UserError(
      cat("program @", program.name, " has no constant ", quote(key)));
}

bool has_same_bytes(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor dense = one.contiguous();
  return one.scalar_type() == other.scalar_type() &&
         one.sizes() == other.sizes() &&
         std::memcmp(
             dense.const_data_ptr(), other.const_data_ptr(), other.nbytes()) ==
             0;
}

// Programs of one arena may have constants of one name and other values.
at::Tensor constant_in(
    Arena& arena,
    const std::string& name,
    const TensorType& type,
    const at::Tensor& rows) {
  for (int64_t copy = 0;; ++copy) {
    const std::string numbered = copy == 0 ? name : cat(name, "#", copy);
    if (!arena.has_resident(numbered)) {
      at::Tensor made = arena.resident(numbered, type);
      made.copy_(rows);
      return made;
    }
    if (arena.type_of_resident(numbered) == type) {
      at::Tensor there = arena.resident(numbered, type);
      if (has_same_bytes(there, rows)) {
        return there;
      }
    }
  }
}

}  // namespace

ExecutorBuilder::ExecutorBuilder(
    const Program& program,
    int64_t rank,
    World* world,
    Arena& arena,
    uint64_t seed,
    Executor& executor)
    : program_(program),
      block_(block_of(program, rank)),
      rank_(rank),
      world_(world),
      arena_(arena),
      seed_(seed),
      executor_(executor),
      storage_(storages(block_)),
      elsewhere_(storage_.size(), nullptr),
      transfers_(storage_.size()) {}

void ExecutorBuilder::build() {
  install_placed_allocator();
  executor_.tensors_.resize(storage_.size());
  make_inputs();
  arena_bytes_ = arena_bytes(block_);
  step_ = arena_.step_region(arena_bytes_);
  executor_.meter_.base = step_;
  executor_.meter_.bytes = arena_bytes_;
  for (const Input& input : block_.function.inputs) {
    if (!is_resident(input)) {
      const TensorType& type = block_.function[input.value].type;
      tensor(input.value) = tensor_over(memory_of(input.value), type);
      live_[block_.offsets[index(input.value)]] =
          block_.offsets[index(input.value)] + aligned(storage_bytes(type));
      executor_.filled_end_bytes_ = std::max(
          executor_.filled_end_bytes_,
          block_.offsets[index(input.value)] + storage_bytes(type));
    }
    executor_.inputs_.push_back(tensor(input.value));
  }
  join_groups();
  for (const Instruction& instruction : block_.instructions) {
    follow(instruction);
    executor_.actions_.push_back(std::visit(
        [this](const auto& one) { return action(one); }, instruction));
    ++at_;
  }
  for (const Output& output : block_.function.outputs) {
    executor_.outputs_.push_back(tensor(output.value));
  }
  find_put_aside();
}

void ExecutorBuilder::find_put_aside() {
  size_t last = 0;
  for (size_t i = 0; i < block_.instructions.size(); ++i) {
    const auto* call = std::get_if<Call>(&block_.instructions[i]);
    if (call != nullptr && is_guard(block_.function.nodes[index(call->node)])) {
      last = i;
    }
  }
  std::set<ValueId> found;
  for (size_t i = 0; i < last; ++i) {
    const auto* call = std::get_if<Call>(&block_.instructions[i]);
    if (call != nullptr && is_view(block_.function.nodes[index(call->node)])) {
      continue;
    }
    for (const ValueId made : makes(block_, block_.instructions[i])) {
      const ValueId storage = storage_[index(made)];
      if (block_.function[storage].node == NodeId::None &&
          elsewhere_[index(storage)] != nullptr &&
          found.insert(storage).second) {
        executor_.put_aside_.push_back({tensor(storage), {}});
      }
    }
  }
}

void ExecutorBuilder::make_inputs() {
  for (const Input& input : block_.function.inputs) {
    if (!is_resident(input)) {
      continue;
    }
    const std::string name = resident_name(input);
    const TensorType& type = block_.function[input.value].type;
    at::Tensor& made = tensor(input.value);
    made =
        input.kind == InputKind::Constant
            ? constant_in(
                  arena_, name, type, constant_of(program_, input.keys.front()))
            : arena_.resident(name, type);
    elsewhere_[index(input.value)] =
        static_cast<std::byte*>(made.storage().mutable_data());
  }
}

std::byte* ExecutorBuilder::memory_of(ValueId storage) const {
  if (elsewhere_[index(storage)] != nullptr) {
    return elsewhere_[index(storage)];
  }
  const int64_t offset = block_.offsets[index(storage)];
  WEFT_CHECK(
      offset >= 0 || storage_bytes(block_, storage) == 0,
      "%",
      block_.function[storage].name,
      " has no place: the program was not lowered to its end");
  return offset < 0 ? step_ : step_ + offset;
}

at::Tensor& ExecutorBuilder::tensor(ValueId value) {
  return executor_.tensors_[index(value)];
}

std::vector<at::Tensor> ExecutorBuilder::tensors(
    const std::vector<ValueId>& values) {
  std::vector<at::Tensor> out;
  out.reserve(values.size());
  for (const ValueId value : values) {
    out.push_back(tensor(value));
  }
  return out;
}

ExecutorBuilder::Action ExecutorBuilder::action(const Call& call) {
  const Node& node = block_.function.nodes[index(call.node)];
  if (reads_memory(node)) {
    check_places(node);
  }
  if (is_view(node)) {
    // Views are made once: they only say how memory is seen.
    const std::vector<at::Tensor> read = tensors(operands(node));
    std::vector<at::Tensor> views = AtenCall(node)(read);
    WEFT_CHECK(views.size() == node.results.size(), node.op);
    for (size_t i = 0; i < views.size(); ++i) {
      check_view(read.front(), views[i]);
      tensor(node.results[i]) = std::move(views[i]);
    }
    return {};
  }
  for (const ValueId result : node.results) {
    const TensorType& type = block_.function[result].type;
    // One that is alone is there, though it may have no elements; and so is a
    // list of indices without any.
    if (type != undefined_type() || node.results.size() == 1) {
      tensor(result) = tensor_over(memory_of(storage_[index(result)]), type);
    }
  }
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->kind == OpKind::Empty ? Action()
                                                      : bind(node, call.node);
}

// What is no view but a copy would hold what was there before the first step.
void ExecutorBuilder::check_view(
    const at::Tensor& of, const at::Tensor& view) const {
  WEFT_CHECK(
      view.numel() == 0 || view.is_alias_of(of),
      label(block_, block_.instructions[at_]),
      ": is not a view but a copy");
}

// What is read by its places in memory must lie as the program says.
void ExecutorBuilder::check_places(const Node& node) {
  const ValueId read = operands(node).front();
  WEFT_CHECK(
      lies_as(tensor(read), block_.function[read].type),
      label(block_, block_.instructions[at_]),
      ": %",
      block_.function[read].name,
      " lies as ",
      print(type_of(tensor(read))),
      ", and the program says ",
      print(block_.function[read].type));
}

ExecutorBuilder::Action ExecutorBuilder::bind(const Node& node, NodeId id) {
  const Scratch& scratch = block_.scratch[index(id)];
  Kernel kernel = bind_kernel(
      {block_.function,
       node,
       tensors(operands(node)),
       tensors(node.results),
       level_pieces(program_, block_, node.results.front(), rank_),
       scratch.bytes > 0
           ? tensor_over(
                 step_ + scratch.offset, make_type(DType::U8, {scratch.bytes}))
           : at::Tensor()});
  if (kernel) {
    note_filled(node, scratch);
    return [kernel, seed = seed_](int64_t step, StepClock*) {
      kernel({seed, step});
    };
  }
  CallMemory memory(&executor_.meter_);
  add_rooms(scratch, memory);
  std::vector<at::Tensor> results = tensors(node.results);
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i];
    memory.add_result(
        result.defined() ? static_cast<std::byte*>(result.mutable_data_ptr())
                         : nullptr,
        result.defined() ? static_cast<int64_t>(result.storage().nbytes()) : 0,
        block_.overwrites[index(node.results[i])] == ValueId::None);
  }
  auto call = std::make_shared<BoundCall>(
      AtenCall(node),
      tensors(operands(node)),
      std::move(results),
      std::move(memory));
  return [call, &stack = executor_.stack_](int64_t, StepClock*) {
    call->run(stack);
  };
}

void ExecutorBuilder::note_filled(const Node& node, const Scratch& scratch) {
  int64_t& end = executor_.filled_end_bytes_;
  end = std::max(end, scratch.offset + scratch.bytes);
  for (const ValueId made : node.results) {
    const int64_t offset = block_.offsets[index(made)];
    if (offset >= 0) {
      end = std::max(end, offset + storage_bytes(block_, made));
    }
  }
}

// First what was planned for it, then every other part of the arena that is not
// in use while it runs; for numbers that the kernel makes, a place beside it.
void ExecutorBuilder::add_rooms(const Scratch& scratch, CallMemory& memory) {
  if (scratch.bytes > 0) {
    memory.add_room(step_ + scratch.offset, aligned(scratch.bytes));
  }
  int64_t free_from = 0;
  const auto add = [&](int64_t free_to) {
    if (free_to - free_from >= kAlignmentBytes) {
      memory.add_room(step_ + free_from, free_to - free_from);
    }
  };
  for (const auto& [offset, end] : live_) {
    add(offset);
    free_from = std::max(free_from, end);
  }
  add(arena_bytes_);
  memory.add_room(
      executor_.numbers_.data(),
      static_cast<int64_t>(executor_.numbers_.size()));
}

void ExecutorBuilder::follow(const Instruction& instruction) {
  for (const ValueId made : makes(block_, instruction)) {
    const int64_t offset = block_.offsets[index(made)];
    if (offset >= 0) {
      live_[offset] = offset + aligned(storage_bytes(block_, made));
    }
  }
  if (const auto* free = std::get_if<Free>(&instruction)) {
    for (const ValueId value : free->values) {
      live_.erase(block_.offsets[index(storage_[index(value)])]);
    }
  }
}

ExecutorBuilder::Action ExecutorBuilder::action(const Free&) { return {}; }

}  // namespace weft
