// SPDX-License-Identifier: Apache-2.0
// Every entry that says `in_place`: its kernel is run with a result in the
// memory of each operand of the result's type, and must give what it gives with
// memory of its own, in the first run and in those that follow it.
#include "aten/call.h"
#include "aten/types.h"
#include "base/error.h"
#include "execute/bound_call.h"
#include "execute/kernel.h"
#include "ops/call.h"
#include "ops/op_def.h"
#include "pieces.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>

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

std::string in_type(std::string text, const std::string& type) {
  for (size_t at = text.find("f32"); at != std::string::npos;
       at = text.find("f32", at + type.size())) {
    text.replace(at, 3, type);
  }
  return text;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.contiguous().view({-1}).view(at::kByte).equal(
      b.contiguous().view({-1}).view(at::kByte));
}

// A call that a kernel of ours may do.
struct OwnCall {
  Function function;
  std::vector<at::Tensor> drawn;

  const Node& node() const { return function.nodes.front(); }
  const TensorType& type(size_t result) const {
    return function[node().results[result]].type;
  }

  // The results, `result` in the memory of `operand`; or apart, for -1. Empty
  // if no kernel is ours.
  std::vector<at::Tensor> run(int64_t result, size_t operand) const {
    std::vector<at::Tensor> operands;
    for (const at::Tensor& each : drawn) {
      operands.push_back(each.clone());
    }
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < node().results.size(); ++i) {
      results.push_back(
          static_cast<int64_t>(i) == result
              ? operands[operand]
              : at::full_like(draw_tensor(type(i), {}), 1));
    }
    const Kernel kernel = bind_kernel(
        {function, node(), operands, results, whole_pieces(type(0).sizes)});
    if (!kernel) {
      return {};
    }
    kernel({});
    return results;
  }
};

OwnCall own_call(const OpDef& def, const std::string& text) {
  Example example = parse_example(def, text);
  OwnCall call{example.function, draw_operands(example)};
  const std::vector<TensorType> types =
      def.types ? def.types(call.function, example.node)
                : std::vector<TensorType>();
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    names.push_back(cat("result.", i));
  }
  add_node(call.function, example.node, names, types);
  return call;
}

void prove_own(const OpDef& def, const std::string& text, Counts& counts) {
  const OwnCall call = own_call(def, text);
  const std::vector<at::Tensor> expected =
      call.node().results.empty() ? std::vector<at::Tensor>() : call.run(-1, 0);
  for (size_t result = 0; result < expected.size(); ++result) {
    for (size_t operand = 0; operand < call.drawn.size(); ++operand) {
      const bool may_be = def.overwritten_operand < 0 ||
                          operand == size_t(def.overwritten_operand);
      if (!may_be || call.type(result) != type_of(call.drawn[operand])) {
        continue;
      }
      const std::vector<at::Tensor> made =
          call.run(static_cast<int64_t>(result), operand);
      for (size_t i = 0; i < made.size(); ++i) {
        EXPECT_TRUE(same_bits(made[i], expected[i]))
            << def.name << text << ": result " << i << " with result " << result
            << " in operand " << operand;
      }
      ++counts.proved;
    }
  }
}

// In every type: they have loops of their own for some.
TEST(InPlaceProof, EveryKernelOfOurs) {
  Counts counts;
  for (const OpDef& def : all_ops()) {
    if (!def.in_place ||
        (def.kind != OpKind::Random && !def.name.starts_with("weft."))) {
      continue;
    }
    ++counts.entries;
    for (const std::string_view text : def.examples) {
      for (const std::string type : {"f32", "f64", "bf16", "f16"}) {
        prove_own(def, in_type(std::string(text), type), counts);
      }
    }
  }
  std::printf(
      "%ld kernels of ours, %ld results in an operand's memory\n",
      static_cast<long>(counts.entries),
      static_cast<long>(counts.proved));
  EXPECT_GT(counts.proved, 150);
}

// A kernel that is not of this kind is found out: a matrix product reads rows
// after it has written others.
TEST(InPlaceProof, FindsAWrongEntry) {
  install_placed_allocator();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  OpDef def;
  def.name = "aten.mm";
  // Large enough that no kernel reads all of an operand before it writes.
  const Example example = parse_example(def, "(f32[640, 640], f32[640, 640])");
  const std::vector<at::Tensor> drawn = {
      draw_tensor(make_type(DType::F32, {640, 640}), {}),
      draw_tensor(make_type(DType::F32, {640, 640}), {})};
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
