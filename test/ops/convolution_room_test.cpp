// SPDX-License-Identifier: Apache-2.0
// The room that lowering plans for a convolution is enough: its kernels take
// nothing from elsewhere, over grids of shapes, in every format and type.
#include "aten/call.h"
#include "base/text.h"
#include "convolution_case.h"
#include "execute/arena.h"
#include "execute/bound_call.h"
#include "execute/observed_memory.h"
#include "lower/temporaries.h"
#include "ops/kernel.h"
#include "pieces.h"
#include "program/live_bytes.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>

namespace weft {
namespace {

// What a call takes beyond its room, when its results lie as lower/place.cpp
// lays them: the scratch right below the one that is made last.
int64_t extra_bytes(std::string_view op, const std::string& text) {
  const OpDef& def = *find_op(op);
  Example example = parse_example(def, text);
  const std::vector<at::Tensor> operands = draw_operands(example);
  const std::vector<TensorType> types =
      def.types(example.function, example.node);
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    names.push_back(cat("result", i));
  }
  add_node(example.function, example.node, names, types);
  const Node& node = example.function.nodes.back();
  const KernelMemory planned = memory_of(example.function, node);
  size_t last = 0;
  for (size_t i = 0; i < planned.results.size(); ++i) {
    last = planned.results[i] > planned.results[last] ? i : last;
  }
  const int64_t room =
      aligned(room_bytes(planned, last, aligned(storage_bytes(types[last]))));
  int64_t bytes = room;
  for (const TensorType& type : types) {
    bytes += aligned(storage_bytes(type));
  }
  const at::Tensor memory = at::empty({bytes}, at::kByte);
  MemoryMeter meter;
  auto* begin = static_cast<std::byte*>(memory.mutable_data_ptr());
  meter.base = begin;
  meter.bytes = bytes;
  CallMemory call_memory(&meter);
  call_memory.add_room(begin, room);
  // The last one first.
  std::vector<std::byte*> places(types.size(), nullptr);
  std::byte* next = begin + room;
  places[last] = next;
  next += aligned(storage_bytes(types[last]));
  for (size_t i = 0; i < types.size(); ++i) {
    if (i != last) {
      places[i] = next;
      next += aligned(storage_bytes(types[i]));
    }
  }
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < types.size(); ++i) {
    const bool is_there = !is_undefined(types[i]);
    results.push_back(
        is_there ? tensor_over(places[i], types[i]) : at::Tensor());
    call_memory.add_result(
        is_there ? places[i] : nullptr,
        is_there ? storage_bytes(types[i]) : 0,
        /*is_fresh=*/true);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  BoundCall bound(
      AtenCall(node), operands, std::move(results), std::move(call_memory));
  torch::jit::Stack stack;
  for (int run = 0; run < 2; ++run) {
    bound.run(stack);
  }
  return meter.overflow_bytes;
}

void expect_room(const std::vector<ConvolutionCase>& cases, size_t step) {
  install_placed_allocator();
  observe_kernels();
  at::set_num_threads(1);
  step = std::getenv("WEFT_WHOLE_GRID") != nullptr ? 1 : step;
  int64_t count = 0;
  int64_t misfits = 0;
  const auto check = [&](std::string_view op, const std::string& text) {
    const int64_t bytes = extra_bytes(op, text);
    ++count;
    misfits += bytes > 0 ? 1 : 0;
    EXPECT_EQ(bytes, 0) << op << text;
  };
  for (size_t i = 0; i < cases.size(); i += step) {
    check("aten.convolution", cases[i].forward());
    check("aten.convolution_backward", cases[i].backward());
  }
  std::cout << count << " calls, " << misfits << " without room\n";
}

// Every step-th of a grid: all of it takes minutes.
TEST(ConvolutionRoom, IsEnough) { expect_room(convolution_grid(), 29); }

TEST(ConvolutionRoom, IsEnoughForTransposedOnes) {
  expect_room(transposed_grid(), 53);
}

// Without volumes that are smaller than their windows: with AVX-512, oneDNN's
// gradient of such a weight writes beyond its own memory, in PyTorch alone too.
TEST(ConvolutionRoom, IsEnoughInHalfPrecision) {
  std::vector<ConvolutionCase> cases = half_precision_grid();
  std::erase_if(cases, [](const ConvolutionCase& each) {
    return each.dims == 3 && each.kernel > each.space;
  });
  expect_room(cases, 97);
}

}  // namespace
}  // namespace weft
