// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files, each broken in one place: refused here where
// the format's own library refuses them, and in a few places more.
#include "base/error.h"
#include "checkpoint/tensor_file.h"
#include "checkpoint/test_folder.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

namespace weft {
namespace {

enum class Answer : uint8_t { Read, Refused, RefusedHereAlone };

struct Case {
  std::string name;
  Answer answer;
  std::string header;
  // Elements, all of them 0.
  size_t elements_bytes = 0;
  // Of what the first eight bytes say.
  int64_t longer_bytes = 0;
};

std::string entry(
    const std::string& name,
    const std::string& dtype,
    const std::string& shape,
    const std::string& offsets) {
  return cat(
      quote(name),
      R"(:{"dtype":")",
      dtype,
      R"(","shape":)",
      shape,
      R"(,"data_offsets":)",
      offsets,
      "}");
}

std::string one(const std::string& shape, const std::string& offsets) {
  return "{" + entry("a", "F32", shape, offsets) + "}";
}

std::string two(const std::string& first, const std::string& second) {
  return "{" + entry("a", "U8", "[4]", first) + "," +
         entry("b", "U8", "[4]", second) + "}";
}

std::vector<Case> cases() {
  using enum Answer;
  const std::string good = one("[2]", "[0,8]");
  const std::string meta = R"({"__metadata__":)";
  return {
      {"one", Read, good, 8},
      {"none", Read, "{}", 0},
      {"scalar", Read, one("[]", "[0,4]"), 4},
      {"spaces_behind", Read, good + "   ", 8},
      {"spaces_inside", Read, "{ " + good.substr(1), 8},
      {"any_order", Read, two("[4,8]", "[0,4]"), 8},
      {"empty_tensor", Read, one("[0,3]", "[0,0]"), 0},
      {"empty_between",
       Read,
       "{" + entry("a", "U8", "[4]", "[0,4]") + "," +
           entry("b", "U8", "[0]", "[4,4]") + "," +
           entry("c", "U8", "[4]", "[4,8]") + "}",
       8},
      {"metadata", Read, meta + R"({"x":"y"},)" + good.substr(1), 8},
      {"metadata_null", Read, meta + "null," + good.substr(1), 8},
      {"metadata_number", Refused, meta + R"({"x":1},)" + good.substr(1), 8},
      {"metadata_list", Refused, meta + R"(["x"],)" + good.substr(1), 8},
      {"odd_header", Read, good, 8},
      {"space_before", RefusedHereAlone, " " + good, 8},
      {"list", Refused, "[]", 0},
      {"no_json", Refused, "{\"a\"", 0},
      {"text_behind", Refused, good + "x", 8},
      {"zero_behind", Refused, good + std::string(1, '\0'), 8},
      {"not_utf8", Refused, "{\"\xff\":1}", 0},
      {"header_too_long", Refused, good, 8, 1000},
      {"header_huge", Refused, good, 8, int64_t{1} << 60},
      {"header_one_longer", Refused, good, 8, 1},
      {"header_one_shorter", Refused, good, 8, -1},
      {"too_few_elements", Refused, good, 7},
      {"too_many_elements", Refused, good, 9},
      {"elements_of_none", Refused, "{}", 1},
      {"hole_at_start", Refused, one("[1]", "[4,8]"), 8},
      {"hole", Refused, two("[0,4]", "[8,12]"), 12},
      {"overlap", Refused, two("[0,4]", "[2,6]"), 8},
      {"same_bytes", Refused, two("[0,4]", "[0,4]"), 4},
      {"offsets_backwards", Refused, one("[2]", "[8,0]"), 8},
      {"offsets_negative", Refused, one("[2]", "[-8,0]"), 8},
      {"offsets_three", Refused, one("[2]", "[0,8,8]"), 8},
      {"offsets_one", Refused, one("[2]", "[0]"), 8},
      {"offsets_fraction", Refused, one("[2]", "[0,8.0]"), 8},
      {"offsets_text", Refused, one("[2]", R"(["0","8"])"), 8},
      {"offsets_huge", Refused, one("[2]", "[0,18446744073709551615]"), 8},
      {"offsets_beyond", Refused, one("[2]", "[0,18446744073709551616]"), 8},
      {"shape_too_large", Refused, one("[3]", "[0,8]"), 8},
      {"shape_too_small", Refused, one("[1]", "[0,8]"), 8},
      {"shape_negative", Refused, one("[-1,-2]", "[0,8]"), 8},
      {"shape_fraction", Refused, one("[2.0]", "[0,8]"), 8},
      {"shape_true", Refused, one("[2,true]", "[0,8]"), 8},
      {"shape_null", Refused, one("null", "[0,8]"), 8},
      {"shape_overflow",
       Refused,
       one("[4294967296,4294967296,4294967296]", "[0,0]"),
       0},
      {"shape_wraps", Refused, one("[9223372036854775808,2]", "[0,0]"), 0},
      {"shape_wraps_to_bytes",
       Refused,
       one("[4611686018427387905]", "[0,4]"),
       4},
      {"shape_empty_and_huge",
       RefusedHereAlone,
       one("[0,4611686018427387904,4]", "[0,0]"),
       0},
      {"dtype_unknown",
       Refused,
       "{" + entry("a", "F33", "[2]", "[0,8]") + "}",
       8},
      {"dtype_lower",
       Refused,
       "{" + entry("a", "f32", "[2]", "[0,8]") + "}",
       8},
      {"dtype_other_size",
       Refused,
       "{" + entry("a", "F64", "[2]", "[0,8]") + "}",
       8},
      {"dtype_of_bits",
       RefusedHereAlone,
       "{" + entry("a", "F4", "[2]", "[0,1]") + "}",
       1},
      {"dtype_half_byte",
       Refused,
       "{" + entry("a", "F4", "[3]", "[0,1]") + "}",
       1},
      {"no_dtype", Refused, R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8},
      {"no_shape", Refused, R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8},
      {"no_offsets", Refused, R"({"a":{"dtype":"F32","shape":[2]}})", 8},
      {"tensor_number", Refused, R"({"a":1})", 0},
      {"key_unknown",
       Read,
       R"({"a":{"x":1,"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8},
      {"key_twice",
       Refused,
       R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8},
      {"name_twice",
       RefusedHereAlone,
       "{" + entry("a", "U8", "[4]", "[0,4]") + "," +
           entry("a", "U8", "[4]", "[0,4]") + "}",
       4},
      {"name_empty", Read, "{" + entry("", "U8", "[4]", "[0,4]") + "}", 4},
      {"deep", Refused, R"({"a":)" + std::string(100000, '['), 0},
      {"deep_whole",
       Refused,
       R"({"a":)" + std::string(100000, '[') + std::string(100000, ']') + "}",
       0},
  };
}

void write_case(const std::string& path, const Case& one) {
  const auto length = static_cast<uint64_t>(
      static_cast<int64_t>(one.header.size()) + one.longer_bytes);
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  write_file(path, text + one.header + std::string(one.elements_bytes, '\0'));
}

std::string read_error(const std::string& path) {
  return user_error([&] { TensorFileReader reader(path); });
}

TEST(TensorHeader, IsReadAsTheFormatSays) {
  const TestFolder folder;
  for (const Case& one : cases()) {
    const std::string path = folder / (one.name + ".safetensors");
    write_case(path, one);
    const std::string error = read_error(path);
    EXPECT_EQ(error == "no error", one.answer == Answer::Read)
        << one.name << ": " << error;
    EXPECT_LT(error.size(), 600U) << one.name;
    EXPECT_TRUE(error == "no error" || contains(error, path)) << error;
  }
}

TEST(TensorHeader, SaysWhatIsWrong) {
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  const auto error = [&](const std::string& name) {
    for (const Case& one : cases()) {
      if (one.name == name) {
        write_case(path, one);
        return read_error(path).substr(path.size());
      }
    }
    return std::string("no case");
  };
  EXPECT_EQ(
      error("hole"),
      ": bytes 4 to 8 of the elements belong to no tensor; the next one is "
      "\"b\"");
  EXPECT_EQ(
      error("overlap"),
      ": tensors \"a\" and \"b\" overlap, at byte 2 of the elements");
  EXPECT_EQ(
      error("too_many_elements"),
      ": the last tensor ends at byte 8 of the elements, and there are 9");
  EXPECT_EQ(
      error("name_twice"),
      " is not a safetensors file: its header, line 1, column 56: the key "
      "\"a\" stands twice in one object");
  EXPECT_EQ(
      error("deep"),
      " is not a safetensors file: its header, line 1, column 105: values are "
      "nested deeper than 100");
  EXPECT_EQ(
      error("shape_fraction"),
      ": tensor \"a\": expected a whole number, found 2.0");
}

TEST(TensorHeader, TheLibraryOfTheFormatAgrees) {
  const std::string python = python_of_clone();
  if (python.empty()) {
    GTEST_SKIP() << "no .venv above the test program";
  }
  const TestFolder folder;
  std::string expected;
  for (const Case& one : cases()) {
    write_case(folder / (one.name + ".safetensors"), one);
    expected +=
        cat(one.name, one.answer == Answer::Refused ? " refused\n" : " read\n");
  }
  write_file(folder / "expected", expected);
  write_file(
      folder / "check.py",
      "import pathlib, sys\n"
      "import safetensors\n"
      "folder = pathlib.Path(sys.argv[1])\n"
      "wrong = 0\n"
      "for line in (folder / 'expected').read_text().splitlines():\n"
      "    name, expected = line.split()\n"
      "    try:\n"
      "        safetensors.deserialize((folder / f'{name}.safetensors')"
      ".read_bytes())\n"
      "        found = 'read'\n"
      "    except Exception as error:\n"
      "        found = 'refused'\n"
      "    if found != expected:\n"
      "        print(name, 'is', found, 'by the library')\n"
      "        wrong += 1\n"
      "sys.exit(wrong)\n");
  EXPECT_EQ(
      std::system(
          cat(python, " ", folder / "check.py", " ", folder.path()).c_str()),
      0);
}

}  // namespace
}  // namespace weft
