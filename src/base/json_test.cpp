// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

std::string fault_of(const std::string& text) {
  try {
    parse_json<Json>(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string nested(size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(Json, ReadsWhatTheLibraryReads) {
  const std::string text =
      R"({"b": [1, -2, 2.5, true, null, "\u00e9"], "a": {"c": {}}, "d": []})";
  EXPECT_EQ(parse_json<Json>(text), Json::parse(text));
  EXPECT_EQ(parse_json<Json>(text).dump(), Json::parse(text).dump());
  EXPECT_EQ(parse_json<nlohmann::json>(text), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json<Json>(" 7 "), Json(7));
}

TEST(Json, NamesThePlace) {
  EXPECT_EQ(
      fault_of("{\"a\": 1,\n \"b\" 2}"),
      "line 2, column 7: syntax error while parsing object separator - "
      "unexpected number literal; expected ':'");
  EXPECT_TRUE(fault_of("").starts_with("line 1, column 1: syntax error"));
  // The library takes a zero byte for the end.
  EXPECT_EQ(fault_of(std::string("{}\0{", 4)), "line 1, column 3: a zero byte");
  EXPECT_TRUE(fault_of("{} x").starts_with("line 1, column 4: syntax error"));
  EXPECT_TRUE(fault_of("[\"\xff\"]").starts_with("line 1, column 3: "));
  EXPECT_EQ(
      fault_of("[1, 1e999]"),
      "line 1, column 10: number overflow parsing '1e999'");
  EXPECT_EQ(
      fault_of("{\"a\": {\"x\": 1,\n\"x\": 2}}"),
      "line 2, column 3: the key \"x\" stands twice in one object");
  EXPECT_EQ(fault_of(R"({"a": {"x": 1}, "b": {"x": 2}})"), "");
  EXPECT_LT(fault_of("[" + std::string(1000000, 'x')).size(), 300U);
  EXPECT_LT(
      fault_of(
          "{\"" + std::string(10000, 'x') + "\":1,\"" +
          std::string(10000, 'x') + "\":1}")
          .size(),
      300U);
}

TEST(Json, BoundsTheDepth) {
  EXPECT_EQ(fault_of(nested(kDeepestJson)), "");
  EXPECT_EQ(
      fault_of(nested(kDeepestJson + 1)),
      "line 1, column 101: values are nested deeper than 100");
  EXPECT_EQ(
      fault_of(nested(100000)),
      "line 1, column 101: values are nested deeper than 100");
  std::string objects;
  for (int i = 0; i < 100000; ++i) {
    objects += "{\"a\":";
  }
  EXPECT_EQ(
      fault_of(objects),
      "line 1, column 501: values are nested deeper than 100");
}

// The library looks through all keys before each that it adds.
TEST(Json, ManyKeysTakeNoLongTime) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) {
    text += cat(i == 0 ? "" : ",", "\"key", i, "\":", i);
  }
  EXPECT_EQ(parse_json<Json>(text + "}").size(), 200000U);
}

TEST(Json, WholeNumbersAreWhole) {
  EXPECT_EQ(whole_number(Json(-7)), -7);
  EXPECT_EQ(whole_number(Json::parse("9223372036854775807")), INT64_MAX);
  const auto fault = [](const char* text) -> std::string {
    try {
      whole_number(Json::parse(text));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault("1.5"), "expected a whole number, found 1.5");
  EXPECT_EQ(fault("true"), "expected a whole number, found true");
  EXPECT_EQ(fault("\"1\""), "expected a whole number, found \"1\"");
  EXPECT_EQ(
      fault("9223372036854775808"),
      "expected a whole number, found 9223372036854775808");
  EXPECT_EQ(
      fault("18446744073709551616"),
      "expected a whole number, found 1.8446744073709552e+19");
  EXPECT_EQ(whole_numbers(Json::parse("[1, 2]")), (std::vector<int64_t>{1, 2}));
  EXPECT_THROW(whole_numbers(Json::parse("[1, 2.0]")), UserError);
  EXPECT_THROW(whole_numbers(Json::parse("3")), UserError);
}

}  // namespace
}  // namespace weft
