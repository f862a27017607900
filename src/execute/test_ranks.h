// SPDX-License-Identifier: Apache-2.0
// For tests with real processes: a test starts its own program again as ranks,
// which run one DISABLED_ test and fail by their exit status.
#pragma once

#include "execute/communicator.h"
#include "execute/launch.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>

#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

namespace weft {

inline int run_as_ranks(
    int64_t ranks, const std::string& test, bool pin = false) {
  StartOptions options;
  options.pin = pin;
  return start_ranks(
      ranks,
      {"--gtest_filter=" + test,
       "--gtest_also_run_disabled_tests",
       "--gtest_brief=1"},
      options);
}

// As `weft run` does: many ranks with many threads each would spin for cores.
inline Rendezvous begin_rank() {
  at::set_num_threads(1);
  return rendezvous_from_environment().value();
}

inline std::vector<int64_t> all_ranks(const Rendezvous& rendezvous) {
  std::vector<int64_t> ranks(static_cast<size_t>(rendezvous.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Numbers of which some sums are not exact, other ones on every rank.
inline at::Tensor numbers(int64_t count, int64_t rank, at::ScalarType type) {
  const at::Tensor exact =
      at::arange(1000 * rank, 1000 * rank + count, at::kDouble);
  return c10::isFloatingType(type) ? at::sin(exact).to(type)
                                   : exact.remainder(100).to(type);
}

// By shared memory, and by Gloo.
class Communication : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ::setenv("WEFT_COMMUNICATION", GetParam(), 1); }
  void TearDown() override { ::unsetenv("WEFT_COMMUNICATION"); }
};

}  // namespace weft
