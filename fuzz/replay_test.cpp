// SPDX-License-Identifier: Apache-2.0
// Every input of the corpora, once, in any build: what a fuzzer has found stays
// mended.
#include "base/error.h"
#include "base/text.h"
#include "mutate.h"
#include "reader.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> inputs_of(std::string_view reader) {
  std::vector<std::string> paths;
  for (const auto& entry :
       fs::directory_iterator(fs::path(WEFT_CORPUS) / reader)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// "" where the reader gives an answer.
std::string fault_of(const FuzzedReader& reader, std::string_view bytes) {
  try {
    reader.read(bytes);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

class Replay : public testing::TestWithParam<FuzzedReader> {};

TEST_P(Replay, HasAnAnswerToEveryInput) {
  const std::vector<std::string> paths = inputs_of(GetParam().name);
  EXPECT_FALSE(paths.empty());
  for (const std::string& path : paths) {
    EXPECT_EQ(fault_of(GetParam(), read_file(path)), "") << path;
  }
}

// Without clang, too, mutants can be made: WEFT_MUTANTS=100000 fuzz_test. Those
// that have no answer are left beside, as mutant-READER-N.
TEST_P(Replay, HasAnAnswerToMutants) {
  const char* wanted = std::getenv("WEFT_MUTANTS");
  const int count = wanted == nullptr ? 0 : std::atoi(wanted);
  const char* seed = std::getenv("WEFT_SEED");
  std::minstd_rand random(seed == nullptr ? 1 : std::atoi(seed));
  const std::vector<std::string> paths = inputs_of(GetParam().name);
  int found = 0;
  for (int i = 0; i < count && found < 20; ++i) {
    const std::string text = mutated(
        read_file(paths[random() % paths.size()]), size_t{1} << 16, random);
    write_file(cat("mutant-", GetParam().name, "-now"), text);
    const std::string fault = fault_of(GetParam(), text);
    EXPECT_EQ(fault, "");
    if (!fault.empty()) {
      write_file(cat("mutant-", GetParam().name, "-", found++), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Readers,
    Replay,
    testing::ValuesIn(fuzzed_readers()),
    [](const auto& reader) { return std::string(reader.param.name); });

}  // namespace
}  // namespace weft
