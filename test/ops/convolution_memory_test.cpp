// SPDX-License-Identifier: Apache-2.0
// The temporaries of convolutions, one by one, over a grid of shapes: what is
// observed of them, and what the entry says of a machine with AVX2, is what the
// allocator hands out.
#include "aten/call.h"
#include "base/text.h"
#include "convolution_case.h"
#include "execute/allocation_watch.h"
#include "execute/observed_memory.h"
#include "ops/example.h"
#include "ops/kernel.h"
#include "ops/kernel_memory.h"
#include "pieces.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <utility>

namespace weft {
namespace {

// What is counted to the byte. Not so are groups of pointwise windows, which
// are computed one by one, channels-last volumes and channels-last depthwise
// windows with gaps (see convolution_room_test.cpp).
bool is_exact(const ConvolutionCase& c) {
  const bool is_rough =
      (c.groups > 1 && c.kernel == 1) ||
      (c.channels_last &&
       (c.dims == 3 || (c.groups == c.in_channels && c.dilation > 1)));
  return !is_rough;
}

struct Seen {
  // In the order in which they were taken, results among them.
  std::vector<int64_t> taken;
  int64_t scratch = 0;
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
    const std::vector<at::Tensor> operands = draw_operands(example);
    const AtenCall call(example.node);
    Seen seen;
    {
      std::vector<AllocationEvent> events;
      const AllocationWatch watch(&events);
      const std::vector<at::Tensor> results = call(operands);
      for (const AllocationEvent& event : events) {
        if (event.bytes > 0) {
          seen.taken.push_back(event.bytes);
        }
      }
      seen.scratch = watch.peak_bytes() - watch.live_bytes();
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

// Every step-th of the grid: all of it takes minutes.
void expect_taken(const std::vector<ConvolutionCase>& cases, size_t step) {
  at::set_num_threads(1);
  step = std::getenv("WEFT_WHOLE_GRID") != nullptr ? 1 : step;
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

TEST(ConvolutionMemory, IsObserved) {
  observe_kernels();
  expect_taken(convolution_grid(), 23);
}

// Not called, but continued from fewer: no less than that.
TEST(ConvolutionMemory, OfManyImagesIsContinued) {
  ask_kernels([](const Function& function, const Node& node) {
    return observed_memory(function, node, /*quick_flops=*/0);
  });
  std::vector<ConvolutionCase> cases = convolution_grid();
  std::erase_if(cases, [](const auto& each) { return each.batch == 1; });
  for (ConvolutionCase& each : cases) {
    each.batch += 15;
  }
  expect_taken(cases, 101);
  observe_kernels();
}

TEST(ConvolutionMemory, IsAsTheEntrySays) {
  if (__builtin_cpu_supports("avx512f") != 0) {
    GTEST_SKIP() << "entries count the kernels of AVX2";
  }
  const CountedKernels as_the_entry_says;
  std::vector<ConvolutionCase> cases = convolution_grid();
  std::erase_if(cases, [](const auto& each) { return !is_exact(each); });
  expect_taken(cases, 23);
}

}  // namespace
}  // namespace weft
