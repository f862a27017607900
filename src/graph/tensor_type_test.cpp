// SPDX-License-Identifier: Apache-2.0
#include "graph/tensor_type.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

std::string parse_error(const std::string& text) {
  try {
    parse_type(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DType, NamesReadBack) {
  for (int i = 0; i <= static_cast<int>(DType::C128); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
    EXPECT_GT(element_bytes(dtype), 0);
  }
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
  EXPECT_TRUE(is_floating(DType::BF16));
  EXPECT_FALSE(is_floating(DType::C64));
  EXPECT_TRUE(is_complex(DType::C64));
  EXPECT_FALSE(is_complex(DType::Bool));
}

TEST(TensorType, RowMajorStridesAreLeftOut) {
  const Dims none;
  EXPECT_EQ(make_type(DType::F32, {8, 16}, {16, 1}).strides, none);
  EXPECT_EQ(make_type(DType::F32, {8, 1, 16}, {16, 5, 1}).strides, none);
  EXPECT_EQ(make_type(DType::F32, {0, 16}, {3, 3}).strides, none);
  EXPECT_EQ(make_type(DType::F32, {}, {}).strides, none);
  EXPECT_EQ(make_type(DType::F32, {8, 16}, {1, 8}).strides, (Dims{1, 8}));
  EXPECT_EQ(make_type(DType::F32, {8, 16}, {0, 1}).strides, (Dims{0, 1}));
  EXPECT_THROW(make_type(DType::F32, {8}, {1, 1}), InternalError);
}

TEST(TensorType, KeepsWhatMakesPyTorchTakeOnePixelForChannelsLast) {
  const Dims none;
  const Dims pixel = {64, 1, 64, 64};
  EXPECT_EQ(make_type(DType::F32, {8, 64, 1, 1}, pixel).strides, pixel);
  EXPECT_EQ(make_type(DType::F32, {8, 64, 1, 1}, {64, 1, 1, 1}).strides, none);
  EXPECT_EQ(make_type(DType::F32, {8, 64, 1, 1}, {64, 1, 9, 7}).strides, none);
  // One channel: strides that say so of an image, and those of rows.
  const Dims gray = {25, 1, 5, 1};
  EXPECT_EQ(make_type(DType::F32, {8, 1, 5, 5}, gray).strides, gray);
  EXPECT_EQ(make_type(DType::F32, {8, 1, 5, 5}, {25, 25, 5, 1}).strides, none);
  // Without samples and channels there are no channels to be last.
  EXPECT_EQ(make_type(DType::F32, {8, 64, 1}, {64, 1, 64}).strides, none);
  EXPECT_TRUE(is_contiguous(make_type(DType::F32, {8, 64, 1, 1}, pixel)));
}

TEST(TensorType, StridesWrittenOut) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(row_major_strides({2, 0, 4}), (Dims{4, 4, 1}));
  EXPECT_EQ(strides_of(parse_type("f32[2, 3]")), (Dims{3, 1}));
  EXPECT_EQ(strides_of(parse_type("f32[2, 3]{1, 2}")), (Dims{1, 2}));
}

TEST(TensorType, Bytes) {
  EXPECT_EQ(element_count(parse_type("f32[2, 3]")), 6);
  EXPECT_EQ(element_count(parse_type("f32[]")), 1);
  EXPECT_EQ(element_count(parse_type("f32[4, 0]")), 0);
  EXPECT_EQ(storage_bytes(parse_type("f32[]")), 4);
  EXPECT_EQ(storage_bytes(parse_type("bf16[2, 3]")), 12);
  EXPECT_EQ(storage_bytes(parse_type("f32[2, 3]{1, 2}")), 24);
  EXPECT_EQ(storage_bytes(parse_type("f32[8, 3]{0, 1}")), 12);
  EXPECT_EQ(storage_bytes(parse_type("f32[2, 3]{10, 2}")), 60);
  EXPECT_EQ(storage_bytes(parse_type("f32[2, 0]")), 0);
}

TEST(TensorType, PrintsAndParses) {
  for (const std::string text :
       {"f32[]", "bool[0]", "f8e4m3[8, 128, 768]", "i64[8, 16]{1, 8}"}) {
    EXPECT_EQ(print(parse_type(text)), text);
  }
  EXPECT_EQ(print(parse_type(" f32 [ 2,3 ] {3,1} ")), "f32[2, 3]");
}

TEST(TensorType, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(
      parse_error("g32[2]"),
      "<type>:1:1: expected a type such as f32[8, 16], found \"g32\"");
  EXPECT_EQ(
      parse_error("f32[2, -1]"),
      "<type>:1:8: a size or stride must be a whole number, 0 or "
      "more, found -1");
  EXPECT_EQ(
      parse_error("f32[2]{1, 1}"),
      "<type>:1:1: a type with 1 sizes has 2 strides");
  EXPECT_EQ(
      parse_error("f32[4294967296, 4294967296]"),
      "<type>:1:1: the type has more bytes than any machine: at most 8.00 PiB");
  EXPECT_EQ(
      parse_error("f32[2, 2]{9223372036854775807, 1}"),
      "<type>:1:1: the type has more bytes than any machine: at most 8.00 PiB");
  EXPECT_EQ(
      parse_error("f32[2] x"),
      "<type>:1:8: expected the end of the type, found \"x\"");
}

}  // namespace
}  // namespace weft
