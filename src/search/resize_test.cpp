// SPDX-License-Identifier: Apache-2.0
#include "search/resize.h"

#include "base/text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// A step whose rows are expanded, and whose mean divides by their number. The
// stride of one row says nothing: PyTorch calls a tensor contiguous whatever it
// is.
SizedProgram step_of_rows(int64_t rows) {
  const std::string strides = rows == 1 ? "" : "{0, 1}";
  const std::string of_grid = rows == 1 ? "{8, 1, 0}" : "{0, 1, 0}";
  return {
      rows,
      parse_program(
          cat("program @mean on <data=2>\n\n",
              "block @step ranks 0 to 1 {\n",
              "  input %x : f32[1, 8] = parameter \"x\" at [-, -]\n",
              "  input %y : f32[1, 8, 1] = parameter \"y\" at [-, -, -]\n",
              "forward:\n",
              cat("  %rows = aten.expand(%x, [", rows, ", -1])"),
              cat(" : f32[", rows, ", 8]", strides, " at [data, -]\n"),
              cat("  %grid = aten.expand(%y, [", rows, ", -1, 4])"),
              cat(" : f32[", rows, ", 8, 4]", of_grid, " at [data, -, -]\n"),
              "  %sum = aten.sum(%rows) : f32[] at [] +{data}\n",
              cat("  %mean = aten.div(%sum, ", 8 * rows, ".0)"),
              " : f32[] at [] +{data}\n",
              "  return loss = %mean\n",
              "}\n"),
          cat(rows, " rows"))};
}

TEST(Resize, MakesProgramsBetweenTwo) {
  for (const int64_t few : {1, 2}) {
    std::optional<ResizableProgram> between =
        ResizableProgram::between(step_of_rows(few), step_of_rows(16));
    ASSERT_TRUE(between.has_value()) << few;
    const Program* middle = between->at(4);
    ASSERT_NE(middle, nullptr);
    const Function& made = middle->blocks.front().function;
    const SizedProgram exact = step_of_rows(4);
    const Function& lowered = exact.program.blocks.front().function;
    for (size_t i = 0; i < lowered.values.size(); ++i) {
      EXPECT_EQ(made.values[i].type, lowered.values[i].type)
          << lowered.values[i].name;
    }
  }
}

TEST(Resize, RefusesProgramsOfOtherNodes) {
  SizedProgram many = step_of_rows(16);
  many.program.blocks.front().function.nodes.back().op = "aten.mul.Tensor";
  EXPECT_FALSE(ResizableProgram::between(step_of_rows(1), many).has_value());
}

}  // namespace
}  // namespace weft
