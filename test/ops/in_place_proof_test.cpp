// SPDX-License-Identifier: Apache-2.0
// Every entry that says `in_place`: its kernel is run with a result in the
// memory of each operand of the result's type, and must give what it gives with
// memory of its own, in the first run and in those that follow it.
#include "aten/call.h"
#include "aten/types.h"
#include "base/error.h"
#include "execute/bound_call.h"
#include "ops/call.h"
#include "ops/op_def.h"
#include "pieces.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

#include <cstdio>
#include <gtest/gtest.h>

namespace weft {
namespace {

struct Counts {
  int64_t proved = 0;
  int64_t entries = 0;
};

// False where PyTorch has no such kernel here.
bool has_kernel(const Example& example, const std::vector<at::Tensor>& in) {
  try {
    AtenCall call(example.node);
    call(in);
    return true;
  } catch (const c10::Error&) {
    return false;
  } catch (const UserError&) {
    return false;
  }
}

void prove_result_in_operand(
    const Example& example,
    const std::vector<at::Tensor>& drawn,
    size_t result,
    size_t operand,
    const std::string& what) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const AtenCall call(example.node);
  const std::vector<at::Tensor> expected = call(drawn);
  std::vector<at::Tensor> operands;
  for (const at::Tensor& each : drawn) {
    operands.push_back(each.clone());
  }
  MemoryMeter meter;
  CallMemory memory(&meter);
  std::vector<at::Tensor> places;
  for (size_t i = 0; i < expected.size(); ++i) {
    places.push_back(i == result ? operands[operand] : expected[i].clone());
    memory.add_result(
        static_cast<std::byte*>(places[i].mutable_data_ptr()),
        static_cast<int64_t>(places[i].nbytes()),
        /*is_fresh=*/i != result);
  }
  BoundCall bound(call, operands, places, std::move(memory));
  torch::jit::Stack stack;
  for (int run = 0; run < 3; ++run) {
    for (size_t i = 0; i < drawn.size(); ++i) {
      operands[i].copy_(drawn[i]);
    }
    bound.run(stack);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(
          at::equal(places[i].nan_to_num(0.5), expected[i].nan_to_num(0.5)))
          << what << ": result " << i << " in run " << run;
    }
  }
}

void prove(const OpDef& def, std::string_view text, Counts& counts) {
  const Example example = parse_example(def, text);
  std::vector<at::Tensor> drawn;
  for (size_t i = 0; i < example.draws.size(); ++i) {
    drawn.push_back(draw_tensor(
        operand_type(example.function, example.node, i), example.draws[i]));
  }
  if (!has_kernel(example, drawn)) {
    return;
  }
  const std::vector<at::Tensor> made = AtenCall(example.node)(drawn);
  for (size_t result = 0; result < made.size(); ++result) {
    for (size_t operand = 0; operand < drawn.size(); ++operand) {
      if (made[result].defined() && !made[result].is_complex() &&
          type_of(made[result]) == type_of(drawn[operand]) &&
          made[result].is_non_overlapping_and_dense()) {
        prove_result_in_operand(
            example,
            drawn,
            result,
            operand,
            cat(def.name, text, " in operand ", operand));
        ++counts.proved;
      }
    }
  }
}

TEST(InPlaceProof, EveryEntryThatSaysSo) {
  install_placed_allocator();
  Counts counts;
  for (const OpDef& def : all_ops()) {
    if (!def.in_place || def.kind == OpKind::Random) {
      continue;
    }
    ++counts.entries;
    for (const std::string_view text : def.examples) {
      prove(def, text, counts);
    }
  }
  std::printf(
      "%ld entries, %ld results in an operand's memory\n",
      static_cast<long>(counts.entries),
      static_cast<long>(counts.proved));
  EXPECT_GT(counts.proved, 200);
}

// A kernel that is not of this kind is found out: a matrix product reads rows
// after it has written others.
TEST(InPlaceProof, FindsAWrongEntry) {
  install_placed_allocator();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  OpDef def;
  def.name = "aten.mm";
  const Example example = parse_example(def, "(f32[64, 64], f32[64, 64])");
  const std::vector<at::Tensor> drawn = {
      draw_tensor(make_type(DType::F32, {64, 64}), {}),
      draw_tensor(make_type(DType::F32, {64, 64}), {})};
  const AtenCall call(example.node);
  const at::Tensor expected = call(drawn).front();
  std::vector<at::Tensor> operands = {drawn[0].clone(), drawn[1].clone()};
  MemoryMeter meter;
  CallMemory memory(&meter);
  memory.add_result(
      static_cast<std::byte*>(operands[0].mutable_data_ptr()),
      static_cast<int64_t>(operands[0].nbytes()),
      /*is_fresh=*/false);
  BoundCall bound(call, operands, {operands[0]}, std::move(memory));
  torch::jit::Stack stack;
  bound.run(stack);
  operands[0].copy_(drawn[0]);
  bound.run(stack);
  EXPECT_FALSE(at::allclose(operands[0], expected));
}

}  // namespace
}  // namespace weft
