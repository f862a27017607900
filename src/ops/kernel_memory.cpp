// SPDX-License-Identifier: Apache-2.0
#include "ops/kernel_memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace weft {
namespace {

constexpr int kKept = -1;

std::atomic<KernelMemorySource> machine = nullptr;
thread_local int counting = 0;

KernelMemory taken_by(
    const ScratchCount& count, const Function& function, const Node& node) {
  const KernelMemorySource ask = counting > 0 ? nullptr : machine.load();
  if (ask != nullptr) {
    if (std::optional<KernelMemory> known = ask(function, node)) {
      return *std::move(known);
    }
  }
  return count.memory(function, node);
}

}  // namespace

void ask_kernels(KernelMemorySource source) { machine = source; }

CountedKernels::CountedKernels() { ++counting; }

CountedKernels::~CountedKernels() { --counting; }

int64_t ScratchCount::operator()(
    const Function& function, const Node& node) const {
  const KernelMemory taken = taken_by(*this, function, node);
  int last = 0;
  for (const Temporary& each : taken.temporaries) {
    last = std::max(last, each.end);
  }
  int64_t most = 0;
  for (int moment = 0; moment < last; ++moment) {
    int64_t bytes = 0;
    for (const Temporary& each : taken.temporaries) {
      bytes += each.begin <= moment && moment < each.end ? each.bytes : 0;
    }
    for (size_t i = 0; i < taken.results.size(); ++i) {
      bytes -= taken.results[i] > moment
                   ? storage_bytes(function[node.results[i]].type)
                   : 0;
    }
    most = std::max(most, bytes);
  }
  return most;
}

KernelMemory memory_of(const Function& function, const Node& node) {
  const OpDef* def = find_op(node.op);
  if (def != nullptr) {
    if (const auto* count = def->scratch_bytes.target<ScratchCount>()) {
      return taken_by(*count, function, node);
    }
  }
  const int64_t bytes = node.op.starts_with("weft.")
                            ? work_bytes_of(function, node)
                            : scratch_bytes_of(function, node);
  return bytes == 0 ? KernelMemory{} : KernelMemory{{{bytes, 0, 1}}, {}};
}

KernelRun::Taken KernelRun::take(int64_t bytes) {
  if (bytes == 0) {
    return -1;
  }
  memory_.temporaries.push_back({bytes, now_++, kKept});
  return static_cast<Taken>(memory_.temporaries.size()) - 1;
}

std::vector<KernelRun::Taken> KernelRun::take_all(
    const std::vector<int64_t>& bytes) {
  std::vector<Taken> taken;
  taken.reserve(bytes.size());
  for (const int64_t each : bytes) {
    taken.push_back(take(each));
  }
  return taken;
}

void KernelRun::give_back(const std::vector<Taken>& taken) {
  for (const Taken each : taken) {
    if (each >= 0) {
      memory_.temporaries[static_cast<size_t>(each)].end = now_;
    }
  }
}

KernelMemory KernelRun::finish() {
  for (Temporary& each : memory_.temporaries) {
    each.end = each.end == kKept ? now_ : each.end;
  }
  return std::move(memory_);
}

}  // namespace weft
