// SPDX-License-Identifier: Apache-2.0
#include "ops/verify_calls.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// What is said of `%y = CALL` with %x : f32[4, 8] and %w : f32[8, 2].
std::string fault_of(const std::string& call) {
  const std::string text =
      cat("graph @g func @step { input %x : f32[4, 8] = batch \"0\" input %w : "
          "f32[8, 2] = parameter \"w\" forward: %y = ",
          call,
          " return loss = %y }");
  const Graph graph = parse_graph(text, "g");
  verify(graph);
  try {
    verify_calls(graph);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(VerifyCalls, TakesWhatRuns) {
  EXPECT_EQ(fault_of("aten.mm(%x, %w) : f32[4, 2]"), "");
  EXPECT_EQ(fault_of("aten.view(%x, [8, 4]) : f32[8, 4]"), "");
  EXPECT_EQ(fault_of("mine.unknown(%x, 1, none) : f32[1]"), "");
}

TEST(VerifyCalls, NamesNodeAndOperator) {
  const std::string mm = "[graph] @step: %y: aten.mm cannot be called so: ";
  const std::string view = "[graph] @step: %y: aten.view cannot be called so: ";
  EXPECT_TRUE(fault_of("aten.mm(%x) : f32[4, 2]").starts_with(mm));
  EXPECT_TRUE(fault_of("aten.mm(%x, %x) : f32[4, 8]").starts_with(mm));
  EXPECT_TRUE(fault_of("aten.mm(%x, %w) : f32[4, 3]").starts_with(mm));
  EXPECT_TRUE(fault_of("aten.view(%x, [9, 4]) : f32[9, 4]").starts_with(view));
  // Not of our sources.
  EXPECT_EQ(
      fault_of("aten.mm(%x) : f32[4, 2]").find(".cpp"), std::string::npos);
}

}  // namespace
}  // namespace weft
