// SPDX-License-Identifier: Apache-2.0
// The calls of a GPT on one rank, kernel by kernel, as Megatron-LM made them in
// 2021, and what each takes.
#pragma once

#include "cluster/cluster.h"
#include "simulate/gpt_run.h"

#include <cstdint>
#include <vector>

namespace weft {

// Device seconds of calls and transfers, in the order of the stream.
using Calls = std::vector<double>;

inline constexpr int64_t kHalfBytes = 2;
inline constexpr int64_t kSingleBytes = 4;

// Of one micro-batch. The run and the cluster must outlive it.
class GptCalls {
 public:
  GptCalls(const GptRun& run, const Cluster& cluster);

  Calls embedding_forward() const;
  Calls layer_forward() const;
  // The last norm, logits, and their cross entropy in f32.
  Calls head_forward() const;
  Calls head_backward() const;
  // Without the forward that it needs again.
  Calls layer_backward() const;
  Calls embedding_backward() const;

  // This rank's share of the vocabulary, padded.
  int64_t words() const { return words_; }
  // Parameters in this rank's share of one layer.
  int64_t layer_parameters() const;
  // What a stage sends to the next.
  int64_t stage_bytes() const { return kHalfBytes * values_; }
  double memory_seconds(int64_t bytes) const;

 private:
  int64_t local_values() const { return tokens_ * local_; }
  bool is_softmax_fused() const;
  void memory(Calls& calls, int64_t bytes) const;
  void product(
      Calls& calls,
      int64_t count,
      int64_t rows,
      int64_t columns,
      int64_t depth) const;
  void product_backward(Calls& calls, int64_t in, int64_t out) const;
  void norm(Calls& calls) const;
  void norm_backward(Calls& calls) const;
  void bias_dropout_add(Calls& calls) const;
  void softmax(Calls& calls) const;
  void softmax_backward(Calls& calls) const;
  void all_reduce(Calls& calls, int64_t bytes) const;

  const GptRun& run_;
  const Device& device_;
  Link tensor_link_;
  int64_t tokens_ = 0;
  int64_t values_ = 0;
  // Of scores on this rank, and all their elements.
  int64_t matrices_ = 0;
  int64_t scores_ = 0;
  int64_t head_width_ = 0;
  // This rank's share of `hidden`.
  int64_t local_ = 0;
  int64_t words_ = 0;
};

}  // namespace weft
