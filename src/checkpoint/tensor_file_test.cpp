// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_file.h"

#include "checkpoint/export_tensors.h"
#include "checkpoint/tensor_source.h"
#include "checkpoint/test_folder.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace weft {
namespace {

// Header and elements as given, with the length that goes before them.
void write_raw(
    const std::string& path,
    const std::string& header,
    const std::string& elements) {
  const uint64_t length = header.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  write_file(path, text + header + elements);
}

void write_two(const std::string& path) {
  TensorFileWriter file(
      path,
      {{"a", parse_type("f32[2, 3]")}, {"b", parse_type("i64[]")}},
      {{"format", "pt"}});
  file.write(bytes_of<float>({1, 2, 3}));
  file.write(bytes_of<float>({4, 5, 6}));
  file.write(bytes_of<int64_t>({7}));
  file.finish();
}

std::string open_error(const std::string& path) {
  return user_error([&] { TensorFileReader reader(path); });
}

TEST(TensorFile, ReadsWhatWasWritten) {
  const TestFolder folder;
  write_two(folder / "x.safetensors");
  const TensorFileReader reader(folder / "x.safetensors");
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(print(reader.type("a")), "f32[2, 3]");
  const auto bytes = reader.bytes("a");
  EXPECT_EQ(
      values_of<float>({bytes.begin(), bytes.end()}),
      (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 8, 0U);
  EXPECT_EQ(
      user_error([&] { reader.type("c"); }),
      folder / "x.safetensors" + " has no tensor \"c\"");
}

TEST(TensorFile, RefusesWhatIsNotOne) {
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  EXPECT_EQ(
      open_error(path), "cannot open " + path + ": No such file or directory");
  write_file(path, "");
  EXPECT_EQ(open_error(path), path + " is not a safetensors file");
  write_file(path, "this is a text and not a header");
  EXPECT_EQ(open_error(path), path + " is not a safetensors file");
  write_raw(path, "[not json", "");
  EXPECT_TRUE(contains(open_error(path), path + " is not a safetensors file:"));
  write_raw(
      path, R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "x");
  EXPECT_EQ(
      open_error(path), path + ": tensor \"a\": unknown element type \"F4\"");
  write_raw(
      path,
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
      "1234");
  EXPECT_EQ(
      open_error(path), path + ": tensor \"a\" has 4 bytes for \"F32\" [2]");
  write_raw(
      path, R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", "1234");
  EXPECT_EQ(
      open_error(path), path + ": tensor \"a\" has offsets that are no range");
  write_raw(
      path,
      R"({"a":{"dtype":"U8","shape":[-4,-1],"data_offsets":[0,4]}})",
      "1234");
  EXPECT_TRUE(contains(open_error(path), "has 4 bytes for"));
}

TEST(TensorFile, SeesEveryCut) {
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  write_two(path);
  const std::string whole = read_file(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    ASSERT_NE(open_error(path), "no error") << size;
  }
  EXPECT_TRUE(contains(open_error(path), "the file is cut short: tensor"));
}

TEST(TensorFile, RefusesWhatItCannotWrite) {
  const TestFolder folder;
  EXPECT_EQ(
      user_error([&] {
        TensorFileWriter(folder / "x", {{"a", parse_type("c128[2]")}});
      }),
      "a tensor file cannot hold elements of type c128");
  EXPECT_TRUE(contains(
      user_error([&] {
        TensorFileWriter(
            folder / "x",
            {{"a", parse_type("f32[2]")}, {"a", parse_type("f32[2]")}});
      }),
      "two tensors have the name \"a\""));
  EXPECT_TRUE(contains(
      user_error([&] { TensorFileWriter(folder / "no/x", {}); }),
      "No such file or directory"));
}

TEST(TensorSource, ReadsAFileAndAFolder) {
  const TestFolder folder;
  write_two(folder / "model.safetensors");
  for (const std::string& path :
       {folder.path(), folder / "model.safetensors"}) {
    const auto source = open_tensors(path);
    EXPECT_EQ(source->names(), (std::vector<std::string>{"a", "b"}));
    std::vector<std::byte> box(8);
    source->read("a", {{0, 1}, {2, 1}}, box);
    EXPECT_EQ(values_of<float>(box), (std::vector<float>{2, 5}));
    EXPECT_EQ(
        user_error([&] { source->type("c"); }), path + " has no tensor \"c\"");
  }
}

TEST(TensorSource, ReadsTheFilesOfAnIndex) {
  const TestFolder folder;
  write_two(folder / "one.safetensors");
  {
    TensorFileWriter file(
        folder / "two.safetensors", {{"c", parse_type("u8[2]")}});
    file.write(bytes_of<uint8_t>({8, 9}));
    file.finish();
  }
  const std::string index = folder / "model.safetensors.index.json";
  write_file(
      index,
      R"({"weight_map": {"a": "one.safetensors", "c": "two.safetensors"}})");
  const auto source = open_tensors(folder.path());
  EXPECT_EQ(source->names(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(
      values_of<uint8_t>(read_whole(*source, "c")),
      (std::vector<uint8_t>{8, 9}));

  write_file(index, R"({"weight_map": {"b": "two.safetensors"}})");
  EXPECT_TRUE(contains(
      user_error([&] { open_tensors(folder.path()); }),
      "the index puts tensor \"b\" into " + (folder / "two.safetensors") +
          ", which does not hold it"));
  write_file(index, "{}");
  EXPECT_TRUE(contains(
      user_error([&] { open_tensors(folder.path()); }),
      index + " has no weight_map"));
}

TEST(TensorSource, StaysInTheFolderOfAnIndex) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "model/sub");
  write_two(folder / "outside.safetensors");
  write_two(folder / "model/sub/one.safetensors");
  const std::string index = folder / "model/model.safetensors.index.json";
  const auto error_of = [&](const std::string& file) {
    write_file(index, cat(R"({"weight_map": {"a": ")", file, "\"}}"));
    return user_error([&] { open_tensors(folder / "model"); });
  };
  EXPECT_EQ(error_of("sub/one.safetensors"), "no error");
  for (const std::string& file :
       {std::string("../outside.safetensors"),
        std::string("sub/../../outside.safetensors"),
        std::string(".."),
        std::string("sub/"),
        std::string(""),
        folder / "outside.safetensors"}) {
    EXPECT_EQ(
        error_of(file),
        cat(index,
            " puts tensor \"a\" into ",
            quote(file),
            ", which does not lie in the folder of the index: name files "
            "there"));
  }
  EXPECT_TRUE(contains(error_of("\\u0000/x"), "does not lie in the folder"));
  write_file(index, std::string(100000, '['));
  EXPECT_TRUE(contains(
      user_error([&] { open_tensors(folder / "model"); }),
      index + " has no weight_map from tensors to files: line 1, column 101: "
              "values are nested deeper than 100"));
}

TEST(TensorSource, SaysWhatItLookedFor) {
  const TestFolder folder;
  EXPECT_TRUE(contains(
      user_error([&] { open_tensors(folder.path()); }),
      "no tensors in " + folder.path() + ": looked for"));
  EXPECT_TRUE(contains(
      user_error([&] { open_tensors(folder / "none"); }),
      "there is no such file or folder"));
}

TEST(ExportTensors, PythonReadsThem) {
  const TestFolder folder;
  write_two(folder / "model.safetensors");
  const auto source = open_tensors(folder.path());
  const std::string path = folder / "out.safetensors";
  export_tensors(
      *source, {{"b", "count"}, {"a", "h.weight"}, {"a", "lm_head"}}, path);
  const TensorFileReader reader(path);
  EXPECT_EQ(
      reader.names(),
      (std::vector<std::string>{"count", "h.weight", "lm_head"}));
  const std::string python = python_of_clone();
  if (python.empty()) {
    GTEST_SKIP() << "no .venv above the test program";
  }
  write_file(
      folder / "check.py",
      "import sys\n"
      "from safetensors.numpy import load_file\n"
      "got = load_file(sys.argv[1])\n"
      "assert sorted(got) == ['count', 'h.weight', 'lm_head'], got\n"
      "assert got['h.weight'].tolist() == [[1, 2, 3], [4, 5, 6]], got\n"
      "assert got['lm_head'].tolist() == got['h.weight'].tolist(), got\n"
      "assert got['count'].shape == () and int(got['count']) == 7, got\n");
  EXPECT_EQ(
      std::system(cat(python, " ", folder / "check.py", " ", path).c_str()), 0);
}

TEST(ExportTensors, LeavesNothingWhenItFails) {
  const TestFolder folder;
  write_two(folder / "model.safetensors");
  const auto source = open_tensors(folder / "model.safetensors");
  const std::string path = folder / "out.safetensors";
  EXPECT_TRUE(contains(
      user_error([&] { export_tensors(*source, {{"no", "no"}}, path); }),
      "has no tensor \"no\""));
  int files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1);
}

}  // namespace
}  // namespace weft
