// SPDX-License-Identifier: Apache-2.0
#include "search/rank_memory.h"

#include "lower/lower.h"
#include "plan/parallel.h"
#include "program/live_bytes.h"
#include "search/test_step.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

std::vector<RankMemory> memories(const Graph& graph, const char* words) {
  return rank_memories(
      lower(graph, expand(parse_parallel(words, "words"), graph)));
}

// 3 layers of 2 matrices of 64 x 256 floats.
constexpr int64_t kParameterBytes = 3 * 2 * 64 * 256 * 4;

TEST(RankMemory, PartsAddUpToThePeak) {
  const Graph graph = chain_step(3, 32, 64, 256);
  for (const char* words :
       {"data=2",
        "data=2,zero=3",
        "tensor=2",
        "data=2,micro-batches=4",
        "pipeline=2,micro-batches=4"}) {
    const Program program =
        lower(graph, expand(parse_parallel(words, "words"), graph));
    const std::vector<RankMemory> all = rank_memories(program);
    ASSERT_EQ(all.size(), program.blocks.size());
    int64_t most = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(total(all[i].parts), peak_bytes(program.blocks[i])) << words;
      EXPECT_EQ(all[i].peak_bytes, peak_bytes(program.blocks[i])) << words;
      EXPECT_GE(all[i].parts.temporary_bytes, 0) << words;
      most = std::max(most, all[i].peak_bytes);
    }
    EXPECT_EQ(fullest(all)->peak_bytes, most);
  }
  EXPECT_EQ(fullest({}), nullptr);
}

TEST(RankMemory, PartsAreWhatTheyAreCalled) {
  const Graph graph = chain_step(3, 32, 64, 256);
  const RankMemory alone = memories(graph, "data=1").front();
  // With the learning rate, in a place of its own.
  EXPECT_EQ(alone.parts.parameter_bytes, kParameterBytes + kAlignmentBytes);
  EXPECT_EQ(alone.parts.state_bytes, 0);
  EXPECT_GT(alone.parts.gradient_bytes, 0);
  EXPECT_GT(alone.parts.kept_bytes, 0);
  const RankMemory zero = memories(graph, "data=2,zero=3").front();
  EXPECT_EQ(zero.parts.parameter_bytes, kParameterBytes / 2 + kAlignmentBytes);
  // Half of the rows are half of what forward keeps.
  const RankMemory half = memories(graph, "data=2").front();
  EXPECT_LT(half.parts.kept_bytes, alone.parts.kept_bytes);
}

}  // namespace
}  // namespace weft
