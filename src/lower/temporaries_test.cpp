// SPDX-License-Identifier: Apache-2.0
#include "lower/temporaries.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(RoomBytes, HoldsWhatIsThereAtOneTime) {
  KernelRun run(1);
  const auto first = run.take(1024);
  const auto second = run.take(512);
  run.give_back({first});
  run.take(960);
  run.give_back({second});
  run.make(0);
  // The last lies where the first was.
  EXPECT_EQ(room_bytes(run.finish(), 0, 0), 1024 + 512);
}

TEST(RoomBytes, ReachesIntoAResultThatIsNotMadeYet) {
  KernelRun run(1);
  const auto operand = run.take(4096);
  const auto product = run.take(1024);
  run.give_back({operand});
  run.make(0);
  run.give_back({product});
  const KernelMemory memory = run.finish();
  // The product is there beside the result, the operand lies across both.
  EXPECT_EQ(room_bytes(memory, 0, 1024), 4096);
  EXPECT_EQ(room_bytes(memory, 0, 0), 4096 + 1024);
  EXPECT_EQ(room_bytes(memory, 0, 64), 4096 + 1024 - 64);
}

TEST(RoomBytes, EndsWithTheLastByteWhereNothingLiesBehind) {
  KernelRun run(1);
  run.make(0);
  run.take(100);
  const KernelMemory memory = run.finish();
  EXPECT_EQ(room_bytes(memory, 0, 0), 100);
  EXPECT_EQ(room_bytes(memory, 0, 64), 128);
}

TEST(RoomBytes, TakesNoTimeForThousandsOneAfterTheOther) {
  // As a convolution of many groups does; all of them lie in one place.
  KernelRun run(1);
  for (int group = 0; group < 4000; ++group) {
    const auto operand = run.take(256);
    const auto product = run.take(128);
    run.give_back({operand, product});
  }
  run.make(0);
  EXPECT_EQ(room_bytes(run.finish(), 0, 0), 256 + 128);
}

TEST(RoomBytes, TakesNoTimeForThousandsThatStay) {
  // A depthwise convolution in f64 keeps what each group gives until the last.
  KernelRun run(1);
  std::vector<KernelRun::Taken> kept;
  for (int group = 0; group < 2000; ++group) {
    const auto operand = run.take(1024);
    kept.push_back(run.take(64 + 64 * (group % 3)));
    run.give_back({operand});
  }
  run.make(0);
  run.give_back(kept);
  const KernelMemory memory = run.finish();
  const int64_t bytes = room_bytes(memory, 0, 4096);
  EXPECT_GE(bytes, 2000 * 64);
  EXPECT_LE(bytes, 2000 * 192 + 2 * 1024);
}

}  // namespace
}  // namespace weft
