// SPDX-License-Identifier: Apache-2.0
#include "execute/observed_memory.h"

#include "aten/call.h"
#include "aten/types.h"
#include "base/text.h"
#include "execute/allocation_watch.h"
#include "ops/kernel.h"
#include "ops/op_def.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

// Above this a call is not made: a second or so.
constexpr double kMostFlops = 5e10;
// Some buffers grow with the images in steps of pages: at most by so much an
// image, as far as was seen.
constexpr int64_t kStepBytes = 256;
constexpr int64_t kPageBytes = 4096;

// A node with what it reads, and nothing else.
struct LoneCall {
  Function function;
  Node node;
  // How its results are to lie; sizes do not count.
  std::vector<TensorType> results;
};

LoneCall alone(const Function& function, const Node& node) {
  LoneCall out;
  out.node = node;
  std::vector<ValueId> now(function.values.size(), ValueId::None);
  for_each_operand(node, [&](ValueId read) {
    if (now[index(read)] == ValueId::None) {
      now[index(read)] = add_value(
          out.function,
          std::to_string(out.function.values.size()),
          function[read].type);
    }
  });
  replace_operands(out.node, now);
  for (const ValueId result : node.results) {
    out.results.push_back(function[result].type);
  }
  out.node.results.clear();
  out.node.releases.clear();
  out.node.overwrites = ValueId::None;
  return out;
}

// The operands that have the batch as their first dim: those that share the
// first one's, by the rule.
std::vector<ValueId> batch_operands(
    const Function& function, const Node& node) {
  const Rule rule = rule_of(function, node);
  const std::vector<ValueId> read = operands(node);
  std::vector<ValueId> out;
  for (size_t i = 0; i < read.size(); ++i) {
    if (!rule.operands[i].empty() && !rule.operands[0].empty() &&
        !rule.operands[0][0].empty() &&
        rule.operands[i][0] == rule.operands[0][0]) {
      out.push_back(read[i]);
    }
  }
  return out;
}

// One thread, as the ranks of a run have; whoever asked gets its own back.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

// The dims of more than one element, from the outermost to the innermost.
std::vector<size_t> order_of_dims(const TensorType& type) {
  std::vector<size_t> order = memory_order(strides_of(type));
  std::erase_if(order, [&](size_t dim) { return type.sizes[dim] == 1; });
  return order;
}

KernelMemory watch(const LoneCall& one) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const OneThread one_thread;
  std::vector<at::Tensor> read;
  for (const ValueId id : operands(one.node)) {
    const TensorType& type = one.function[id].type;
    read.push_back(at::empty_strided(
                       type.sizes, strides_of(type), scalar_type_of(type.dtype))
                       .zero_());
  }
  const AtenCall call(one.node);
  std::vector<AllocationEvent> events;
  std::vector<at::Tensor> results;
  {
    const AllocationWatch watch(&events);
    results = call(read);
  }
  KernelMemory out;
  out.results.assign(results.size(), 0);
  // By address, which of `temporaries` has it now.
  std::unordered_map<const void*, size_t> live;
  int now = 0;
  for (const AllocationEvent& event : events) {
    if (event.bytes > 0) {
      live[event.memory] = out.temporaries.size();
      out.temporaries.push_back({event.bytes, now++, -1});
    } else if (const auto at = live.find(event.memory); at != live.end()) {
      out.temporaries[at->second].end = now;
      live.erase(at);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const auto at = results[i].defined()
                        ? live.find(results[i].storage().data())
                        : live.end();
    // Else it is copied from there.
    const bool lies_as_planned =
        at != live.end() &&
        order_of_dims(type_of(results[i])) == order_of_dims(one.results[i]);
    if (lies_as_planned) {
      Temporary& made = out.temporaries[at->second];
      out.results[i] = made.begin;
      made.bytes = 0;
    }
  }
  std::erase_if(
      out.temporaries, [](const Temporary& each) { return each.bytes == 0; });
  for (Temporary& each : out.temporaries) {
    each.end = each.end < 0 ? now : each.end;
  }
  return out;
}

// The same pieces at the same moments, of sizes that go on evenly; what does
// not grow from few to more may do so later.
std::optional<KernelMemory> continued(
    const KernelMemory& few, const KernelMemory& more, int64_t steps) {
  KernelMemory out = few;
  bool is_same = few.temporaries.size() == more.temporaries.size() &&
                 few.results == more.results;
  for (size_t i = 0; is_same && i < out.temporaries.size(); ++i) {
    const Temporary& a = few.temporaries[i];
    const Temporary& b = more.temporaries[i];
    out.temporaries[i].bytes += b.bytes > a.bytes
                                    ? steps * (b.bytes - a.bytes)
                                    : round_up(steps * kStepBytes, kPageBytes);
    is_same = a.begin == b.begin && a.end == b.end && b.bytes >= a.bytes;
  }
  return is_same ? std::optional(out) : std::nullopt;
}

class Observations {
 public:
  std::optional<KernelMemory> of(
      const Function& function, const Node& node, int64_t quick_flops) {
    const std::vector<ValueId> batched = batch_operands(function, node);
    const int64_t batch =
        batched.empty() ? 1 : function[batched.front()].type.sizes.front();
    const auto* count = find_op(node.op)->scratch_bytes.target<ScratchCount>();
    const int64_t least =
        count->same_from == nullptr ? 1 : count->same_from(function, node);
    const auto flops = static_cast<double>(flops_of(function, node));
    const bool is_quick = flops <= static_cast<double>(quick_flops);
    const double flops_of_more =
        flops / static_cast<double>(batch) * static_cast<double>(least + 1);
    const auto with = [&](int64_t images) {
      LoneCall one = alone(function, node);
      const std::vector<ValueId> before = operands(node);
      const std::vector<ValueId> now = operands(one.node);
      for (size_t i = 0; i < now.size(); ++i) {
        if (std::find(batched.begin(), batched.end(), before[i]) !=
            batched.end()) {
          one.function[now[i]].type.sizes.front() = images;
        }
      }
      return one;
    };
    if (batch > least + 1 && !is_quick && flops_of_more <= kMostFlops) {
      const std::optional<KernelMemory> few = seen(with(least));
      const std::optional<KernelMemory> more = seen(with(least + 1));
      if (few && more) {
        if (auto found = continued(*few, *more, batch - least)) {
          return found;
        }
      }
    }
    return flops <= kMostFlops ? seen(with(batch)) : std::nullopt;
  }

 private:
  std::optional<KernelMemory> seen(const LoneCall& one) {
    std::string key = print(one.function, one.node);
    for (const Value& value : one.function.values) {
      key += print(value.type);
    }
    for (const TensorType& result : one.results) {
      for (const size_t dim : order_of_dims(result)) {
        key += cat(" ", dim);
      }
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto [at, is_new] = known_.try_emplace(std::move(key));
    if (is_new) {
      try {
        at->second = watch(one);
      } catch (const c10::Error&) {
        // What it cannot do here another machine may.
        at->second = std::nullopt;
      }
    }
    return at->second;
  }

  std::mutex mutex_;
  std::map<std::string, std::optional<KernelMemory>> known_;
};

}  // namespace

std::optional<KernelMemory> observed_memory(
    const Function& function, const Node& node, int64_t quick_flops) {
  static Observations observations;
  return observations.of(function, node, quick_flops);
}

void observe_kernels() {
  ask_kernels([](const Function& function, const Node& node) {
    return observed_memory(function, node);
  });
}

}  // namespace weft
