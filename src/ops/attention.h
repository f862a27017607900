// SPDX-License-Identifier: Apache-2.0
// What the kernels of scaled dot-product attention have in common. Queries are
// [batch, heads, s, k], keys [batch, heads, t, k], values [batch, heads, t, v].
// Batch and heads are free. So is the query's s, unless the mask is causal: a
// piece would need to know where it starts. A split of t would need the softmax
// joined across ranks, so it stays whole. The expansion frees both
// (expand_attention.cpp), and so do blocks of keys (attention_blocks.cpp).
#pragma once

#include "ops/op_def.h"

#include <string>

namespace weft {

struct AttentionTerms {
  std::string query;  // and its gradient
  std::string key;
  std::string value;
  std::string output;  // and its gradient
  std::string row;     // one number a query: logsumexp
  std::string heads;   // of queries: "h", or "(h g!)" when g share one key
  std::string s;       // "s" or "s!"
};

// `whole` keeps the queries whole.
AttentionTerms attention_terms(
    const TensorType& query, const TensorType& key, bool whole);

// A mask of 2 to 4 dims that broadcasts to [b, h, s, t]; "_" when absent.
std::string mask_term(
    const Function& function, ValueId mask, const AttentionTerms& terms);

// The option attn_mask; None when absent.
ValueId attention_mask(const Node& node);

// By blocks of keys and values, for the CPU's kernel and its backward.
Blocks attention_blocks();
Blocks attention_backward_blocks();

// As torch.utils.flop_counter: two matrix products a head, causal or not, of
// the operands at positions 0 to 2.
int64_t attention_flops(const Function& function, const Node& node);
// The scores again, then two products for each of its two sides; operands at
// positions 1 to 3.
int64_t attention_backward_flops(const Function& function, const Node& node);

// [batch, heads, s, d] lying in memory as [batch, s, heads, d].
TensorType heads_inside(DType dtype, const Dims& sizes);
// That of the operands at positions 1 to 3: the gradients of query, key and
// value.
std::vector<TensorType> attention_gradients(
    const Function& function, const Node& node);

}  // namespace weft
