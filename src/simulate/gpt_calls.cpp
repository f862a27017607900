// SPDX-License-Identifier: Apache-2.0
// Bytes are of 16 bit floats unless a comment says more.
#include "simulate/gpt_calls.h"

#include "profile/call_seconds.h"
#include "program/transfer.h"
#include "simulate/costs.h"

#include <numeric>

namespace weft {
namespace {

constexpr int64_t kMaskBytes = 1;
// Vocabularies are padded to that many rows a rank.
constexpr int64_t kVocabularyRows = 128;
// The kernel that scales, masks and sums scores in one call takes matrices in
// fours.
constexpr int64_t kSoftmaxMatrices = 4;

}  // namespace

GptCalls::GptCalls(const GptRun& run, const Cluster& cluster)
    : run_(run), device_(cluster.device) {
  tokens_ = run.micro_batch * run.sequence;
  values_ = tokens_ * run.hidden;
  matrices_ = run.micro_batch * run.heads / run.tensor;
  scores_ = matrices_ * run.sequence * run.sequence;
  head_width_ = run.hidden / run.heads;
  local_ = run.hidden / run.tensor;
  const int64_t rows = kVocabularyRows * run.tensor;
  words_ = (run.vocabulary + rows - 1) / rows * rows / run.tensor;
  std::vector<int64_t> group(static_cast<size_t>(run.tensor));
  std::iota(group.begin(), group.end(), 0);
  if (run.tensor > 1) {
    tensor_link_ = link_between(cluster, group);
  }
}

// Of the rank's share of one layer.
int64_t GptCalls::layer_parameters() const {
  return 12 * run_.hidden * local_ + 4 * run_.hidden + 9 * local_;
}

Calls GptCalls::layer_forward() const {
  Calls calls;
  norm(calls);
  product(calls, 1, tokens_, 3 * local_, run_.hidden);
  memory(calls, 2 * kHalfBytes * 3 * local_values());  // bias
  product(calls, matrices_, run_.sequence, run_.sequence, head_width_);
  softmax(calls);
  memory(calls, (2 * kHalfBytes + kMaskBytes) * scores_);  // dropout
  product(calls, matrices_, run_.sequence, head_width_, run_.sequence);
  memory(calls, 2 * kHalfBytes * local_values());  // heads side by side
  product(calls, 1, tokens_, run_.hidden, local_);
  all_reduce(calls, kHalfBytes * values_);
  bias_dropout_add(calls);
  norm(calls);
  product(calls, 1, tokens_, 4 * local_, run_.hidden);
  memory(calls, 2 * kHalfBytes * 4 * local_values());  // bias and gelu
  product(calls, 1, tokens_, run_.hidden, 4 * local_);
  all_reduce(calls, kHalfBytes * values_);
  bias_dropout_add(calls);
  return calls;
}

Calls GptCalls::layer_backward() const {
  Calls calls;
  bias_dropout_add(calls);
  product_backward(calls, 4 * local_, run_.hidden);
  memory(calls, 3 * kHalfBytes * 4 * local_values());  // gelu
  product_backward(calls, run_.hidden, 4 * local_);
  all_reduce(calls, kHalfBytes * values_);
  norm_backward(calls);
  bias_dropout_add(calls);
  product_backward(calls, local_, run_.hidden);
  memory(calls, 2 * kHalfBytes * local_values());
  product(calls, matrices_, run_.sequence, run_.sequence, head_width_);
  product(calls, matrices_, run_.sequence, head_width_, run_.sequence);
  memory(calls, (2 * kHalfBytes + kMaskBytes) * scores_);
  softmax_backward(calls);
  product(calls, matrices_, run_.sequence, head_width_, run_.sequence);
  product(calls, matrices_, run_.sequence, head_width_, run_.sequence);
  memory(calls, 2 * kHalfBytes * 3 * local_values());  // one tensor of three
  product_backward(calls, run_.hidden, 3 * local_);
  all_reduce(calls, kHalfBytes * values_);
  norm_backward(calls);
  // Gradients are added up over micro-batches: 4 weights, 8 vectors.
  for (const int64_t rows : {3, 1, 4, 4}) {
    memory(calls, 3 * kHalfBytes * rows * local_ * run_.hidden);
  }
  for (int i = 0; i < 8; ++i) {
    memory(calls, 3 * kHalfBytes * run_.hidden);
  }
  return calls;
}

Calls GptCalls::embedding_forward() const {
  Calls calls;
  for (int i = 0; i < 10; ++i) {  // the batch, its mask and positions
    memory(calls, 8 * tokens_);
  }
  for (int i = 0; i < 4; ++i) {  // two look-ups, sum, dropout
    memory(calls, 2 * kHalfBytes * values_);
  }
  all_reduce(calls, kHalfBytes * values_);
  return calls;
}

Calls GptCalls::embedding_backward() const {
  Calls calls;
  bias_dropout_add(calls);
  memory(calls, 2 * kHalfBytes * values_);
  memory(calls, kHalfBytes * words_ * run_.hidden);
  memory(calls, 3 * kHalfBytes * words_ * run_.hidden);
  return calls;
}

// The last norm, logits, and their cross entropy in f32.
Calls GptCalls::head_forward() const {
  Calls calls;
  norm(calls);
  product(calls, 1, tokens_, words_, run_.hidden);
  const int64_t logits = tokens_ * words_;
  memory(calls, (kHalfBytes + kSingleBytes) * logits);
  memory(calls, kSingleBytes * logits);  // maximum
  all_reduce(calls, kSingleBytes * tokens_);
  memory(calls, 2 * kSingleBytes * logits);  // less the maximum
  all_reduce(calls, kSingleBytes * tokens_);
  memory(calls, 2 * kSingleBytes * logits);  // exp
  memory(calls, kSingleBytes * logits);      // sum
  all_reduce(calls, kSingleBytes * tokens_);
  memory(calls, 2 * kSingleBytes * logits);  // over the sum
  for (int i = 0; i < 8; ++i) {              // one number a token
    memory(calls, 2 * kSingleBytes * tokens_);
  }
  return calls;
}

Calls GptCalls::head_backward() const {
  Calls calls;
  const int64_t logits = tokens_ * words_;
  memory(calls, 2 * kSingleBytes * logits);
  memory(calls, (kHalfBytes + kSingleBytes) * logits);
  product(calls, 1, tokens_, run_.hidden, words_);
  product(calls, 1, words_, run_.hidden, tokens_);
  memory(calls, 3 * kHalfBytes * words_ * run_.hidden);
  all_reduce(calls, kHalfBytes * values_);
  norm_backward(calls);
  return calls;
}

double GptCalls::memory_seconds(int64_t bytes) const {
  NodeCosts costs;
  costs.read_bytes = bytes;
  return call_seconds(costs, DType::F16, device_);
}

void GptCalls::memory(Calls& calls, int64_t bytes) const {
  calls.push_back(memory_seconds(bytes));
}

void GptCalls::product(
    Calls& calls,
    int64_t count,
    int64_t rows,
    int64_t columns,
    int64_t depth) const {
  NodeCosts costs;
  costs.work = Work::Product;
  costs.product = {count, rows, columns, depth};
  costs.flops = 2 * count * rows * columns * depth;
  costs.read_bytes = kHalfBytes * count * (rows * depth + depth * columns);
  costs.written_bytes = kHalfBytes * count * rows * columns;
  calls.push_back(call_seconds(costs, DType::F16, device_));
}

// For inputs and weights, and the sum for the bias.
void GptCalls::product_backward(Calls& calls, int64_t in, int64_t out) const {
  product(calls, 1, tokens_, in, out);
  product(calls, 1, in, out, tokens_);
  memory(calls, kHalfBytes * tokens_ * out);
}

void GptCalls::norm(Calls& calls) const {
  memory(calls, 2 * kHalfBytes * values_);
}

// Its input, then its weights, then the sum with what went around it.
void GptCalls::norm_backward(Calls& calls) const {
  memory(calls, 3 * kHalfBytes * values_);
  memory(calls, 2 * kHalfBytes * values_);
  memory(calls, 3 * kHalfBytes * values_);
}

void GptCalls::bias_dropout_add(Calls& calls) const {
  memory(calls, (3 * kHalfBytes + kMaskBytes) * values_);
}

bool GptCalls::is_softmax_fused() const {
  return matrices_ % kSoftmaxMatrices == 0;
}

// Of causal scores half is read; else scale, mask, to f32, softmax and back.
void GptCalls::softmax(Calls& calls) const {
  if (is_softmax_fused()) {
    memory(calls, 3 * scores_);
    return;
  }
  for (int i = 0; i < 6; ++i) {
    memory(calls, 2 * kHalfBytes * scores_);
  }
}

void GptCalls::softmax_backward(Calls& calls) const {
  if (is_softmax_fused()) {
    memory(calls, 3 * kHalfBytes * scores_);
    return;
  }
  for (int i = 0; i < 5; ++i) {
    memory(calls, 2 * kHalfBytes * scores_);
  }
}

void GptCalls::all_reduce(Calls& calls, int64_t bytes) const {
  if (run_.tensor > 1) {
    calls.push_back(transfer_seconds(
        TransferKind::AllReduce,
        run_.tensor,
        collective_bytes(TransferKind::AllReduce, run_.tensor, bytes, bytes),
        tensor_link_));
  }
}

}  // namespace weft
