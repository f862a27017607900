// SPDX-License-Identifier: Apache-2.0
#include "data/match_fields.h"

#include "checkpoint/tensor_file.h"
#include "checkpoint/test_folder.h"
#include "data/convert.h"
#include "data/read_batch.h"

#include <cmath>
#include <gtest/gtest.h>

namespace weft {
namespace {

// A stream of four samples of three bytes, and arrays of two samples.
class MatchFields : public testing::Test {
 protected:
  MatchFields() {
    write_file(folder_ / "a.txt", "abcdefghijklm");
    stream_ = open_dataset(folder_ / "a.txt", {.sequence = 3});
    TensorFileWriter file(
        folder_ / "a.safetensors",
        {{"image", parse_type("f64[2, 2]")},
         {"class", parse_type("u16[2]")},
         {"large", parse_type("i64[2]")}});
    file.write(bytes_of<double>({1.5, 2.5, 3.5, 4.5}));
    file.write(bytes_of<uint16_t>({65000, 3}));
    file.write(bytes_of<int64_t>({1, 1 << 20}));
    file.finish();
    arrays_ = open_dataset(folder_ / "a.safetensors", {});
  }

  // The names of what fills each input.
  static std::vector<std::string> names(
      const Dataset& dataset,
      const std::vector<BatchInput>& inputs,
      const std::vector<std::string>& pairs = {}) {
    std::vector<std::string> names;
    for (const FieldMatch& match : match_fields(inputs, dataset, pairs)) {
      names.push_back(
          match.source == FieldMatch::Source::Ones
              ? "ones"
              : dataset.fields()[match.field].name);
    }
    return names;
  }

  TestFolder folder_;
  std::unique_ptr<Dataset> stream_;
  std::unique_ptr<Dataset> arrays_;
};

using Names = std::vector<std::string>;

TEST_F(MatchFields, ByName) {
  const TensorType type = parse_type("i64[8, 3]");
  EXPECT_EQ(
      names(*stream_, {{"labels", type}, {"tokens", type}}),
      (Names{"labels", "tokens"}));
  EXPECT_EQ(
      names(
          *arrays_,
          {{"class", parse_type("i64[8]")},
           {"image", parse_type("f32[8, 2]")}}),
      (Names{"class", "image"}));
}

TEST_F(MatchFields, ByOrder) {
  EXPECT_EQ(
      names(
          *stream_,
          {{"0", parse_type("i64[8, 3]")}, {"1", parse_type("i64[8, 3]")}}),
      (Names{"tokens", "labels"}));
}

TEST_F(MatchFields, ByHuggingFace) {
  const TensorType type = parse_type("i64[8, 3]");
  EXPECT_EQ(
      names(
          *stream_,
          {{"attention_mask", type}, {"input_ids", type}, {"labels", type}}),
      (Names{"ones", "tokens", "tokens"}));
}

TEST_F(MatchFields, ByPairs) {
  const TensorType type = parse_type("i64[8, 3]");
  EXPECT_EQ(
      names(
          *stream_,
          {{"input_ids", type},
           {"labels", type},
           {"w", parse_type("f32[8, 3]")}},
          {"labels=labels", "w=ones"}),
      (Names{"tokens", "labels", "ones"}));
}

TEST_F(MatchFields, Mistakes) {
  const auto error = [&](const Dataset& dataset,
                         const std::vector<BatchInput>& inputs,
                         const std::vector<std::string>& pairs = {}) {
    return user_error([&] { match_fields(inputs, dataset, pairs); });
  };
  EXPECT_EQ(
      error(*arrays_, {{"x", parse_type("f32[8, 2]")}}),
      "no field for the input \"x\". The model's inputs: x f32[8, 2]; the "
      "fields of one sample: class u16[], image f64[2], large i64[]. Say which "
      "goes where by KEY=FIELD");
  EXPECT_TRUE(contains(
      error(*stream_, {{"0", parse_type("i64[8, 5]")}}),
      "no field for the input \"0\""));
  EXPECT_TRUE(contains(
      error(*arrays_, {{"image", parse_type("f32[8, 3]")}}),
      "the input \"image\" takes f32[3] a sample, and the field \"image\" is "
      "f64[2]"));
  EXPECT_TRUE(contains(
      error(*arrays_, {{"image", parse_type("i64[8, 2]")}}),
      "the field \"image\" of f64[2] does not become the i64[2]"));
  EXPECT_TRUE(contains(
      error(*arrays_, {{"x", parse_type("f32[8, 2]")}}, {"x=picture"}),
      "the data has no field \"picture\""));
  EXPECT_TRUE(contains(
      error(*arrays_, {{"x", parse_type("f32[8, 2]")}}, {"y=image"}),
      "the model has no batch input \"y\""));
  EXPECT_TRUE(contains(
      error(*arrays_, {{"x", parse_type("f32[8, 2]")}}, {"x"}),
      "\"x\" is no pair KEY=FIELD"));
  EXPECT_TRUE(contains(
      error(*arrays_, {{"x", parse_type("f32[8, 2]")}}, {"x=image", "x=class"}),
      "is given twice"));
  EXPECT_TRUE(contains(
      error(*arrays_, {{"image", parse_type("f32[]")}}),
      "has no dim for samples"));
}

TEST_F(MatchFields, ReadsRowsOfABatch) {
  const auto matches = match_fields(
      {{"class", parse_type("i64[4]")},
       {"image", parse_type("f32[4, 2]")},
       {"attention_mask", parse_type("bf16[4]")}},
      *arrays_);
  std::vector<std::byte> classes(24);
  std::vector<std::byte> images(24);
  std::vector<std::byte> mask(6);
  const std::vector<int64_t> samples = {1, 0, 1};
  read_batch(*arrays_, matches, samples, {classes, images, mask});
  EXPECT_EQ(values_of<int64_t>(classes), (std::vector<int64_t>{3, 65000, 3}));
  EXPECT_EQ(
      values_of<float>(images),
      (std::vector<float>{3.5, 4.5, 1.5, 2.5, 3.5, 4.5}));
  EXPECT_EQ(values_of<uint16_t>(mask), (std::vector<uint16_t>(3, 0x3F80)));
}

TEST_F(MatchFields, NumbersThatDoNotFit) {
  const auto matches =
      match_fields({{"large", parse_type("i16[4]")}}, *arrays_);
  std::vector<std::byte> to(2);
  read_batch(*arrays_, matches, std::vector<int64_t>{0}, {to});
  EXPECT_EQ(
      user_error([&] {
        read_batch(*arrays_, matches, std::vector<int64_t>{1}, {to});
      }),
      "sample 1, field \"large\": the number 1048576 does not fit an integer "
      "of "
      "2 bytes");
}

TEST(Convert, Kinds) {
  EXPECT_TRUE(converts(DType::U16, DType::I64));
  EXPECT_TRUE(converts(DType::F64, DType::F32));
  EXPECT_TRUE(converts(DType::U8, DType::F32));
  EXPECT_TRUE(converts(DType::Bool, DType::F16));
  EXPECT_TRUE(converts(DType::F8E4M3, DType::F8E4M3));
  EXPECT_FALSE(converts(DType::F32, DType::I64));
  EXPECT_FALSE(converts(DType::U8, DType::Bool));
  EXPECT_FALSE(converts(DType::F8E4M3, DType::F32));
  EXPECT_FALSE(converts(DType::C64, DType::F32));
}

// Every number of 16 bits survives the way to f32 and back.
TEST(Convert, SixteenBitsThereAndBack) {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<uint16_t>(i);
    }
    std::vector<std::byte> wide(all.size() * 4);
    std::vector<std::byte> back(all.size() * 2);
    convert(dtype, bytes_of(all), DType::F32, wide);
    convert(DType::F32, wide, dtype, back);
    const auto floats = values_of<float>(wide);
    const auto again = values_of<uint16_t>(back);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!std::isnan(floats[i])) {
        ASSERT_EQ(again[i], all[i]) << floats[i];
      }
    }
  }
}

TEST(Convert, RoundsToNearestEven) {
  const std::vector<float> values = {
      1.0F + 0x1p-11F,
      1.0F + 3 * 0x1p-11F,
      65519,
      65520,
      0x1p-25F,
      3 * 0x1p-25F,
      -2,
      0x1.FFCp-15F};
  std::vector<std::byte> half(values.size() * 2);
  convert(DType::F32, bytes_of(values), DType::F16, half);
  EXPECT_EQ(
      values_of<uint16_t>(half),
      (std::vector<uint16_t>{
          0x3C00, 0x3C02, 0x7BFF, 0x7C00, 0, 2, 0xC000, 0x0400}));
}

}  // namespace
}  // namespace weft
