// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/box.h"

#include "checkpoint/test_folder.h"

#include <gtest/gtest.h>
#include <numeric>

namespace weft {
namespace {

TEST(Box, Fits) {
  EXPECT_TRUE(fits({{1, 2}, {3, 4}}, {4, 6}));
  EXPECT_FALSE(fits({{1, 2}, {4, 4}}, {4, 6}));
  EXPECT_FALSE(fits({{-1, 2}, {1, 4}}, {4, 6}));
  EXPECT_FALSE(fits({{1}, {1}}, {4, 6}));
  EXPECT_FALSE(fits({{INT64_MAX}, {1}}, {4}));
  EXPECT_TRUE(fits({{}, {}}, {}));
}

TEST(Box, Intersect) {
  EXPECT_EQ(
      intersect({{0, 0}, {3, 3}}, {{1, 2}, {9, 9}}), (Box{{1, 2}, {2, 1}}));
  EXPECT_EQ(intersect({{0}, {3}}, {{3}, {3}}), std::nullopt);
  EXPECT_EQ(intersect({{}, {}}, {{}, {}}), (Box{{}, {}}));
}

// Every sub-box of a small tensor, against the elements' own numbers.
TEST(Box, CopiesEverySubBox) {
  const Dims sizes = {3, 2, 4};
  std::vector<int32_t> all(24);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::byte> from = bytes_of(all);
  int checked = 0;
  for (int64_t code = 0; code < 180; ++code) {
    Box box;
    int64_t rest = code;
    for (const int64_t size : sizes) {
      const int64_t choices = size * (size + 1) / 2;
      int64_t choice = rest % choices;
      rest /= choices;
      int64_t length = size;
      while (choice > size - length) {
        choice -= size - length + 1;
        --length;
      }
      box.start.push_back(choice);
      box.size.push_back(length);
    }
    ASSERT_TRUE(fits(box, sizes)) << print(box);
    std::vector<std::byte> to(static_cast<size_t>(element_count(box)) * 4);
    copy_box(box, whole_box(sizes), from, box, to, 4);
    std::vector<int32_t> expected;
    for (int64_t i = 0; i < box.size[0]; ++i) {
      for (int64_t j = 0; j < box.size[1]; ++j) {
        for (int64_t k = 0; k < box.size[2]; ++k) {
          expected.push_back(static_cast<int32_t>(
              (box.start[0] + i) * 8 + (box.start[1] + j) * 4 + box.start[2] +
              k));
        }
      }
    }
    ASSERT_EQ(values_of<int32_t>(to), expected) << print(box);
    ++checked;
  }
  EXPECT_EQ(checked, 180);
}

}  // namespace
}  // namespace weft
