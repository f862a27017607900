// SPDX-License-Identifier: Apache-2.0
#ifdef WEFT_NCCL
#include "execute/nccl.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <algorithm>
#include <chrono>

namespace weft {
namespace {

// Its own limit comes after ours, which can name the rank at fault.
constexpr int64_t kMoreSeconds = 60;

}  // namespace

C10dBackend make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout =
      std::chrono::seconds(rendezvous.timeout_seconds + kMoreSeconds);
  const auto here = std::find(ranks.begin(), ranks.end(), rendezvous.rank);
  return {
      .backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          store,
          static_cast<int>(here - ranks.begin()),
          static_cast<int>(ranks.size()),
          options),
      .scatters_sums = true,
      .tells_of_sends = true};
}

}  // namespace weft
#endif
