// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signals.h"

#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(StopSignals, TheFirstIsNotedByName) {
  {
    const StopSignals signals;
    EXPECT_FALSE(signals.caught());
    std::raise(SIGTERM);
    EXPECT_EQ(signals.caught(), "SIGTERM");
  }
  const StopSignals signals;
  EXPECT_FALSE(signals.caught());
  std::raise(SIGINT);
  EXPECT_EQ(signals.caught(), "SIGINT");
}

TEST(StopSignalsDeathTest, TheSecondEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGTERM);
        std::raise(SIGINT);
        std::exit(0);
      },
      testing::ExitedWithCode(130),
      "");
}

TEST(StopSignalsDeathTest, AfterwardsASignalKillsAgain) {
  EXPECT_EXIT(
      {
        { const StopSignals signals; }
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM),
      "");
}

}  // namespace
}  // namespace weft
