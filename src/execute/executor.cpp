// SPDX-License-Identifier: Apache-2.0
#include "execute/executor.h"

#include "aten/call.h"
#include "base/error.h"
#include "ops/op_def.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// Scrambles the bits, so that neighbouring numbers give unrelated seeds
// (the finaliser of splitmix64).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

// The tensors of one run, and how many bytes of storage they hold: counted from
// the storages themselves, not from the program's types.
class Executor::Frame {
 public:
  Frame(const Executor& executor, std::vector<at::Tensor> inputs)
      : executor_(executor),
        tensors_(executor.block_.function.values.size()),
        pending_(tensors_.size()) {
    const std::vector<Input>& wanted = executor.block_.function.inputs;
    WEFT_CHECK(
        inputs.size() == wanted.size(),
        inputs.size(),
        " inputs for a block that takes ",
        wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      put(wanted[i].value, std::move(inputs[i]));
    }
  }

  void put(ValueId value, at::Tensor tensor) {
    const Value& planned = executor_.block_.function[value];
    if (tensor.defined()) {
      WEFT_CHECK(
          tensor.sizes() == planned.type.sizes,
          "%",
          planned.name,
          " should be ",
          print(planned.type),
          ", and has the sizes [",
          join_sizes(tensor),
          "]");
      hold(tensor);
    }
    tensors_[index(value)] = std::move(tensor);
  }

  std::vector<at::Tensor> get(const std::vector<ValueId>& values) const {
    std::vector<at::Tensor> out;
    out.reserve(values.size());
    for (const ValueId value : values) {
      out.push_back(tensors_[index(value)]);
    }
    return out;
  }

  const at::Tensor& operator[](ValueId value) const {
    return tensors_[index(value)];
  }

  // Drops every tensor that lies in the storage of `value`.
  void free(ValueId value) {
    const ValueId storage = executor_.storage_[index(value)];
    for (const ValueId other : executor_.in_storage_[index(storage)]) {
      at::Tensor& tensor = tensors_[index(other)];
      if (tensor.defined()) {
        let_go(tensor);
        tensor.reset();
      }
    }
  }

  int64_t live_bytes() const { return live_bytes_; }

  struct Collective {
    std::unique_ptr<Pending> pending;
    size_t event = 0;
  };
  Collective& collective(ValueId value) { return pending_[index(value)]; }

 private:
  static std::string join_sizes(const at::Tensor& tensor) {
    std::vector<std::string> sizes;
    for (const int64_t size : tensor.sizes()) {
      sizes.push_back(cat(size));
    }
    return join(sizes, ", ");
  }

  void hold(const at::Tensor& tensor) {
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (holders_[storage]++ == 0) {
      live_bytes_ += static_cast<int64_t>(storage->nbytes());
    }
  }

  void let_go(const at::Tensor& tensor) {
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    const auto found = holders_.find(storage);
    if (--found->second == 0) {
      live_bytes_ -= static_cast<int64_t>(storage->nbytes());
      holders_.erase(found);
    }
  }

  const Executor& executor_;
  std::vector<at::Tensor> tensors_;
  std::vector<Collective> pending_;
  std::unordered_map<const c10::StorageImpl*, int64_t> holders_;
  int64_t live_bytes_ = 0;
};

Executor::Executor(
    const Program& program, int64_t rank, World* world, uint64_t seed)
    : program_(program),
      block_(block_of(program, rank)),
      rank_(rank),
      seed_(seed),
      in_storage_(block_.function.values.size()),
      storage_(storages(block_)) {
  for (const Node& node : block_.function.nodes) {
    if (is_optimizer_node(node)) {
      kernels_.push_back(optimizer_call(block_.function, node));
    } else {
      kernels_.push_back(AtenCall(node));
    }
  }
  for (size_t i = 0; i < storage_.size(); ++i) {
    in_storage_[index(storage_[i])].push_back(static_cast<ValueId>(i));
  }
  for (const Instruction& instruction : block_.instructions) {
    const auto* start = std::get_if<Start>(&instruction);
    if (start != nullptr && !groups_.contains(start->axes)) {
      WEFT_CHECK(world != nullptr, "a program of several ranks needs a world");
      groups_[start->axes] =
          world->group(group_of(program.mesh, start->axes, rank));
    }
  }
}

// The same numbers on ranks that hold the same piece, others on the rest. Which
// numbers a piece gets depends on the plan: to be replaced by numbers that
// depend on the element's place in the whole value.
void Executor::seed_random(const Node& node, int64_t step) const {
  uint64_t seed = mix(seed_ ^ mix(static_cast<uint64_t>(step)));
  if (const Arg* rng = find_option(node, kRngOption)) {
    seed = mix(seed ^ static_cast<uint64_t>(std::get<int64_t>(rng->data)));
  }
  const std::vector<int64_t> where = coordinates(program_.mesh, rank_);
  for (const auto& axes : block_.layouts[index(node.results.front())].dims) {
    for (const std::string& axis : axes) {
      const auto found = static_cast<size_t>(find_axis(program_.mesh, axis));
      seed = mix(seed ^ mix(static_cast<uint64_t>(where[found]) + 1));
    }
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

Executor::Step Executor::run(std::vector<at::Tensor> inputs, int64_t step) {
  const Function& function = block_.function;
  Frame frame(*this, std::move(inputs));
  Step out;
  out.timeline.program = program_.name;
  std::vector<Event>& events = out.timeline.events;
  events.reserve(block_.instructions.size());
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView);

  const Clock::time_point begin = Clock::now();
  const auto since = [begin](Clock::time_point time) {
    return std::chrono::duration<double>(time - begin).count();
  };
  for (size_t i = 0; i < block_.instructions.size(); ++i) {
    const Instruction& instruction = block_.instructions[i];
    Event event;
    event.rank = rank_;
    event.instruction = static_cast<int64_t>(i);
    event.start_seconds = since(Clock::now());
    try {
      if (const auto* call = std::get_if<Call>(&instruction)) {
        const Node& node = function.nodes[index(call->node)];
        if (is_random(node)) {
          seed_random(node, step);
        }
        std::vector<at::Tensor> results =
            kernels_[index(call->node)](frame.get(operands(node)));
        WEFT_CHECK(results.size() == node.results.size(), node.op);
        for (size_t r = 0; r < results.size(); ++r) {
          frame.put(node.results[r], std::move(results[r]));
        }
      } else if (const auto* start = std::get_if<Start>(&instruction)) {
        event.stream = Stream::Communication;
        frame.put(start->result, frame[start->operand]);
        frame.collective(start->result) = {
            groups_.at(start->axes)->all_reduce(frame[start->result]), i};
      } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
        Frame::Collective& collective = frame.collective(wait->value);
        events[collective.event].end_seconds =
            since(collective.pending->wait());
        collective.pending.reset();
      } else {
        for (const ValueId value : std::get<Free>(instruction).values) {
          frame.free(value);
        }
      }
    } catch (const c10::Error& error) {
      throw UserError(
          cat("rank ",
              rank_,
              ", instruction ",
              i,
              " (",
              label(block_, instruction),
              "): ",
              error.what_without_backtrace()));
    }
    event.end_seconds = since(Clock::now());
    event.live_bytes = frame.live_bytes();
    events.push_back(std::move(event));
  }
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].label = label(block_, block_.instructions[i]);
  }
  for (const Output& output : function.outputs) {
    out.outputs.push_back(frame[output.value]);
  }
  return out;
}

}  // namespace weft
