// SPDX-License-Identifier: Apache-2.0
#include "train/machine_rate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>

namespace weft {

double measured_flops_per_second() {
  constexpr int64_t kSize = 768;
  constexpr int kRuns = 5;
  const at::Tensor a = at::ones({kSize, kSize});
  at::Tensor product = at::empty({kSize, kSize});
  double best_seconds = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    at::mm_out(product, a, a);
    best_seconds = std::min(
        best_seconds,
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
  }
  return 2.0 * kSize * kSize * kSize / best_seconds;
}

}  // namespace weft
