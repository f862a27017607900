// SPDX-License-Identifier: Apache-2.0
// The temporaries of convolutions, one by one, over a grid of shapes: what the
// entry says is what the allocator hands out.
#include "aten/call.h"
#include "base/text.h"
#include "ops/example.h"
#include "ops/kernel.h"
#include "ops/kernel_memory.h"
#include "pieces.h"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <set>
#include <utility>

namespace weft {
namespace {

struct ConvolutionCase {
  size_t dims = 2;
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  int64_t space = 8;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  bool channels_last = false;
  bool has_bias = false;

  int64_t out_space() const {
    return (space + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }

  std::string type(int64_t outer, int64_t channels, int64_t inner) const {
    Dims sizes = {outer, channels};
    sizes.insert(sizes.end(), dims, inner);
    return print(
        channels_last ? weft::channels_last(DType::F32, sizes)
                      : make_type(DType::F32, sizes));
  }

  std::string list(int64_t value) const {
    return cat(
        "[", join(std::vector<std::string>(dims, cat(value)), ", "), "]");
  }

  std::string operands() const {
    return cat(
        type(batch, in_channels, space),
        ", ",
        type(out_channels, in_channels / groups, kernel));
  }

  std::string windows() const {
    return cat(
        list(stride),
        ", ",
        list(padding),
        ", ",
        list(dilation),
        ", false, ",
        list(0),
        ", ",
        groups);
  }

  std::string forward() const {
    const std::string bias = cat("f32[", out_channels, "]");
    return cat(
        "(", operands(), ", ", has_bias ? bias : "none", ", ", windows(), ")");
  }

  std::string backward() const {
    return cat(
        "(",
        type(batch, out_channels, out_space()),
        ", ",
        operands(),
        ", ",
        has_bias ? cat("[", out_channels, "]") : "none",
        ", ",
        windows(),
        has_bias ? ", [true, true, true])" : ", [true, true, false])");
  }
};

// All combinations of a few values each, but for those without a result and
// those that take long. Left out are what is counted only roughly: groups of
// pointwise windows, which are computed one by one, channels-last volumes and
// channels-last depthwise windows with gaps.
std::vector<ConvolutionCase> grid() {
  std::vector<ConvolutionCase> cases;
  const std::vector<std::vector<int64_t>> spaces = {
      {9, 200}, {2, 7, 8, 14, 28}, {4, 8, 10}};
  for (const size_t dims : {1, 2, 3}) {
    for (const int64_t space : spaces[dims - 1]) {
      for (const int64_t batch : {1, 2, 8}) {
        for (const auto& [in, out, groups] :
             std::vector<std::array<int64_t, 3>>{
                 {3, 16, 1},
                 {16, 10, 1},
                 {64, 64, 1},
                 {128, 32, 1},
                 {32, 64, 4},
                 {24, 24, 24}}) {
          for (const int64_t kernel : {1, 2, 3, 5, 7}) {
            for (const int64_t stride : {1, 2}) {
              for (const int64_t dilation : {1, 2}) {
                for (const int64_t padding : std::set<int64_t>{
                         0, dilation * (kernel - 1) / 2, kernel / 2}) {
                  for (const bool last : {false, true}) {
                    const size_t number = cases.size();
                    const ConvolutionCase it = {
                        dims,
                        batch,
                        groups,
                        in,
                        out,
                        space,
                        kernel,
                        stride,
                        padding,
                        dilation,
                        last && dims > 1,
                        number % 3 == 0};
                    double work = static_cast<double>(batch * in * out);
                    for (size_t d = 0; d < dims; ++d) {
                      work *= static_cast<double>(kernel * space);
                    }
                    const bool is_rough =
                        (groups > 1 && kernel == 1) ||
                        (last && (dims == 3 || (groups == in && dilation > 1)));
                    if (!is_rough && (kernel > 1 || dilation == 1) &&
                        space + 2 * padding > dilation * (kernel - 1) &&
                        work < 3e8 && (dims > 1 || !last)) {
                      cases.push_back(it);
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return cases;
}

struct Seen {
  // In the order in which they were taken, results among them.
  std::vector<int64_t> taken;
  int64_t scratch = 0;
};

// Writes down what the allocator hands out on this thread.
struct Record : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(
      void* /*memory*/,
      int64_t bytes,
      size_t /*total_allocated*/,
      size_t /*total_reserved*/,
      c10::Device /*device*/) override {
    live += bytes;
    peak = std::max(peak, live);
    if (bytes > 0) {
      taken.push_back(bytes);
    }
  }

  bool memoryProfilingEnabled() const override { return true; }

  int64_t live = 0;
  int64_t peak = 0;
  std::vector<int64_t> taken;
};

std::string words(const std::vector<int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const int64_t each : numbers) {
    texts.push_back(cat(each));
  }
  return join(texts, " ");
}

// What the entry says, as the allocator would see it.
Seen said(const Function& function, const Node& node) {
  const KernelMemory memory = memory_of(function, node);
  std::vector<std::pair<int, int64_t>> order;
  for (const Temporary& each : memory.temporaries) {
    order.emplace_back(each.begin, each.bytes);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    const TensorType& type = function[node.results[i]].type;
    if (!is_undefined(type)) {
      order.emplace_back(
          memory.results.empty() ? 0 : memory.results[i], storage_bytes(type));
    }
  }
  std::sort(order.begin(), order.end());
  Seen seen = {{}, scratch_bytes_of(function, node)};
  for (const auto& [moment, bytes] : order) {
    seen.taken.push_back(bytes);
  }
  return seen;
}

class Compared {
 public:
  void compare(std::string_view op, const std::string& text) {
    const OpDef& def = *find_op(op);
    Example example = parse_example(def, text);
    std::vector<at::Tensor> operands;
    for (size_t i = 0; i < example.draws.size(); ++i) {
      operands.push_back(
          draw_tensor(example.function.values[i].type, example.draws[i]));
    }
    const AtenCall call(example.node);
    const auto record = std::make_shared<Record>();
    Seen seen;
    {
      const c10::DebugInfoGuard guard(
          c10::DebugInfoKind::PROFILER_STATE, record);
      const std::vector<at::Tensor> results = call(operands);
      seen = {record->taken, record->peak - record->live};
    }
    std::vector<std::string> names;
    const std::vector<TensorType> types =
        def.types(example.function, example.node);
    for (size_t i = 0; i < types.size(); ++i) {
      names.push_back(cat("result", i));
    }
    add_node(example.function, example.node, names, types);
    const Node& node = example.function.nodes.back();
    const Seen expected = said(example.function, node);
    ++count_;
    bool fits = seen.scratch <= expected.scratch &&
                seen.taken.size() == expected.taken.size();
    for (size_t i = 0; fits && i < seen.taken.size(); ++i) {
      fits = seen.taken[i] <= expected.taken[i];
    }
    exact_ += seen.taken == expected.taken ? 1 : 0;
    if (!fits) {
      misfits_.push_back(
          cat(op,
              text,
              "\n  says  ",
              words(expected.taken),
              "\n  takes ",
              words(seen.taken)));
    }
  }

  int64_t count_ = 0;
  int64_t exact_ = 0;
  std::vector<std::string> misfits_;
};

TEST(ConvolutionMemory, IsWhatTheAllocatorHandsOut) {
  at::set_num_threads(1);
  // Every step-th of the grid: all of it takes minutes.
  const char* all = std::getenv("WEFT_WHOLE_GRID");
  const size_t step = all != nullptr ? 1 : 23;
  const std::vector<ConvolutionCase> cases = grid();
  Compared compared;
  for (size_t i = 0; i < cases.size(); i += step) {
    compared.compare("aten.convolution", cases[i].forward());
    compared.compare("aten.convolution_backward", cases[i].backward());
  }
  std::cout << compared.count_ << " calls, " << compared.exact_
            << " to the byte, " << compared.misfits_.size() << " misfits\n";
  for (const std::string& each : compared.misfits_) {
    ADD_FAILURE() << each;
  }
}

}  // namespace
}  // namespace weft
