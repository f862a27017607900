// SPDX-License-Identifier: Apache-2.0
#include "profile/text_table.h"

#include "profile/layer_names.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr TextStyle kPlain = {.colour = false, .ascii = true, .width = 80};
constexpr TextStyle kBlocks = {.colour = false, .ascii = false, .width = 80};
constexpr TextStyle kColour = {.colour = true, .ascii = false, .width = 80};

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table;
  table.column("name", Align::Left).column("bytes");
  table.row({"a", "1 KiB"});
  table.row({"longer", "2 B"});
  EXPECT_EQ(
      table.print(kPlain, 1),
      " name    bytes\n"
      " a       1 KiB\n"
      " longer    2 B\n");
}

TEST(TextTable, ColoursTakeNoRoom) {
  TextTable table;
  table.column("", Align::Left).column("", Align::Left);
  table.row({bold("ab", kColour), "x"});
  table.row({"abc", "y"});
  EXPECT_EQ(table.print(kColour), "\033[1mab\033[0m   x\nabc  y\n");
}

TEST(TextTable, Bars) {
  EXPECT_EQ(bar(0.5, 4, kPlain), "##  ");
  EXPECT_EQ(bar(0.5, 4, kBlocks), "██  ");
  EXPECT_EQ(bar(0.28125, 4, kBlocks), "█▏  ");
  EXPECT_EQ(bar(2.0, 4, kPlain), "####");
  EXPECT_EQ(stacked_bar({1, 2, 0, 1}, 8, kPlain), "PPGGGGBB");
  EXPECT_EQ(stacked_bar({0, 0}, 8, kPlain), "");
}

TEST(TextTable, Figures) {
  EXPECT_EQ(percent(0), "0.0 %");
  EXPECT_EQ(percent(0.00001), "<0.1 %");
  EXPECT_EQ(percent(0.4567), "45.7 %");
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(shortened("abcdefghij", 6), "ab..ij");
  EXPECT_EQ(shortened("abc", 6), "abc");
  EXPECT_EQ(display_width("█▏ "), 3);
}

TEST(LayerNames, Patterns) {
  const auto pattern = [](const CopyPaths& copies) {
    return print(path_pattern(copies));
  };
  EXPECT_EQ(
      pattern({{"a.0.x", "a.0"}, {"a.1.x", "a.1"}, {"a.2.x", "a.2"}}),
      "a.{0..2}");
  EXPECT_EQ(pattern({{"a.q", "a.q"}, {"a.k", "a.k"}}), "a.{q,k}");
  EXPECT_EQ(pattern({{"x"}, {"y"}}), "{x,y}");
  // Two modules a copy.
  EXPECT_EQ(pattern({{"a.0", "a.1"}, {"a.2", "a.3"}}), "a.{0..3}");
  // One node strays into the layer before.
  EXPECT_EQ(pattern({{"a.0", "a.0", "a.1"}, {"a.1", "a.1", "a.2"}}), "a.{0,1}");
  // A node of the model itself strays in.
  EXPECT_EQ(pattern({{"", "a.0", "a.0"}, {"a.1", "a.1", "a.1"}}), "a.{0,1}");
  EXPECT_EQ(pattern({{"a"}, {"a"}}), "");
  EXPECT_EQ(pattern({{""}, {""}}), "");
}

TEST(LayerNames, SharedDepth) {
  EXPECT_EQ(shared_depth("a.b.c", "a.b.d"), 2);
  EXPECT_EQ(shared_depth("a.b", "a.bc"), 1);
  EXPECT_EQ(shared_depth("", "a"), 0);
  EXPECT_EQ(shared_depth("a.b", "a.b"), 2);
}

}  // namespace
}  // namespace weft
