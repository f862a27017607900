// SPDX-License-Identifier: Apache-2.0
#include "graph/structure_hash.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr std::string_view kStep = R"(graph @two
constant %a : f32[1] = hex "0000803f"
constant %b : f32[1] = hex "00000040"

func @step {
  input %x : f32[4] = batch "0"
  input %a : f32[1] = constant "a"
  input %b : f32[1] = constant "b"
forward:
  %mul = aten.mul.Tensor(%x, %a) : f32[4]
  %add = aten.add.Tensor(%x, %b) : f32[4]
  %sub = aten.sub.Tensor(%mul, %add) : f32[4]
  %sum = aten.sum(%sub) : f32[]
  return loss = %sum
}
)";

// The independent calls in the other order, so that names and constants are
// counted in the other order too.
constexpr std::string_view kOtherOrder = R"(graph @two
constant %a : f32[1] = hex "00000040"
constant %b : f32[1] = hex "0000803f"

func @step {
  input %x : f32[4] = batch "0"
  input %a : f32[1] = constant "a"
  input %b : f32[1] = constant "b"
forward:
  %first = aten.add.Tensor(%x, %a) : f32[4]
  %second = aten.mul.Tensor(%x, %b) : f32[4]
  %sub = aten.sub.Tensor(%second, %first) : f32[4]
  %sum = aten.sum(%sub) : f32[]
  return loss = %sum
}
)";

uint64_t hash_of(std::string text) {
  return structure_hash(parse_graph(text, "test"));
}

std::string replaced(std::string text, const char* what, const char* by) {
  const size_t place = text.find(what);
  EXPECT_NE(place, std::string::npos) << what;
  return text.replace(place, std::string_view(what).size(), by);
}

TEST(StructureHash, OrderAndNamesDoNotCount) {
  EXPECT_EQ(hash_of(std::string(kStep)), hash_of(std::string(kOtherOrder)));
}

TEST(StructureHash, WhatIsComputedCounts) {
  const std::string step(kStep);
  const uint64_t hash = hash_of(step);
  EXPECT_NE(hash, hash_of(replaced(step, "0000803f", "0000813f")));
  EXPECT_NE(hash, hash_of(replaced(step, "(%mul, %add)", "(%add, %mul)")));
  EXPECT_NE(hash, hash_of(replaced(step, "aten.mul", "aten.div")));
  EXPECT_NE(hash, hash_of(replaced(step, "batch \"0\"", "batch \"1\"")));
  EXPECT_NE(
      hash,
      hash_of(
          replaced(step, "= %sum\n", "= %sum\n  return extra \"1\" = %mul\n")));
}

}  // namespace
}  // namespace weft
