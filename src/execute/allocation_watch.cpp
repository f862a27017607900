// SPDX-License-Identifier: Apache-2.0
#include "execute/allocation_watch.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>

namespace weft {

// Allocations are reported to the thread's profiler. Some of PyTorch asks it
// for its settings too (DTensor's dispatch does), so it must be a whole one:
// one that profiles nothing.
struct AllocationWatch::Counter : torch::profiler::impl::ProfilerStateBase {
  explicit Counter(std::vector<AllocationEvent>* written)
      : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
            torch::profiler::impl::ProfilerState::Disabled)),
        events(written) {}

  void reportMemoryUsage(
      void* memory,
      int64_t bytes,
      size_t /*total_allocated*/,
      size_t /*total_reserved*/,
      c10::Device device) override {
    if (device.is_cpu()) {
      live += bytes;
      peak = std::max(peak, live);
      if (events != nullptr) {
        events->push_back({memory, bytes});
      }
    }
  }

  bool memoryProfilingEnabled() const override { return true; }

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  int64_t live = 0;
  int64_t peak = 0;
  std::vector<AllocationEvent>* const events;
};

AllocationWatch::AllocationWatch(std::vector<AllocationEvent>* events)
    : counter_(std::make_shared<Counter>(events)) {
  c10::ThreadLocalDebugInfo::_push(
      c10::DebugInfoKind::PROFILER_STATE, counter_);
  open_ = true;
}

AllocationWatch::~AllocationWatch() { close(); }

int64_t AllocationWatch::live_bytes() const { return counter_->live; }

int64_t AllocationWatch::peak_bytes() const { return counter_->peak; }

void AllocationWatch::reset_peak() { counter_->peak = counter_->live; }

void AllocationWatch::close() {
  if (open_) {
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
    open_ = false;
  }
}

}  // namespace weft
