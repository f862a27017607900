// SPDX-License-Identifier: Apache-2.0
// The families of the op table, one source file each. A new family is one file,
// one line here and one line in op_table.cpp.
#pragma once

#include "ops/op_def.h"

#include <initializer_list>
#include <string_view>
#include <vector>

namespace weft {

using OpTable = std::vector<OpDef>;

struct OpFamily {
  // A heading of docs/ops.md.
  std::string_view name;
  void (*add)(OpTable&);
};

// In the order of all_ops().
const std::vector<OpFamily>& op_families();

// Entries that differ in nothing but the name.
inline void add_ops(
    OpTable& ops, std::initializer_list<std::string_view> names, OpDef common) {
  for (std::string_view name : names) {
    common.name = name;
    ops.push_back(common);
  }
}

// Every entry from number `first` on works in place, but one.
inline void mark_in_place(
    OpTable& ops, size_t first, std::string_view but = "") {
  for (size_t i = first; i < ops.size(); ++i) {
    ops[i].in_place = ops[i].name != but;
  }
}

void add_matmul_ops(OpTable& ops);
void add_pointwise_ops(OpTable& ops);
void add_activation_ops(OpTable& ops);
void add_reduction_ops(OpTable& ops);
void add_view_ops(OpTable& ops);
void add_view_part_ops(OpTable& ops);
void add_view_backward_ops(OpTable& ops);
void add_strided_ops(OpTable& ops);
void add_join_ops(OpTable& ops);
void add_padding_ops(OpTable& ops);
void add_creation_ops(OpTable& ops);
void add_random_ops(OpTable& ops);
void add_sampling_ops(OpTable& ops);
void add_linalg_ops(OpTable& ops);
void add_fft_ops(OpTable& ops);
void add_data_dependent_ops(OpTable& ops);
void add_convolution_ops(OpTable& ops);
void add_pooling_ops(OpTable& ops);
void add_adaptive_pooling_ops(OpTable& ops);
void add_upsample_ops(OpTable& ops);
void add_norm_ops(OpTable& ops);
void add_batch_norm_ops(OpTable& ops);
void add_global_batch_norm_ops(OpTable& ops);
void add_softmax_ops(OpTable& ops);
void add_nll_loss_ops(OpTable& ops);
void add_loss_ops(OpTable& ops);
void add_ctc_ops(OpTable& ops);
void add_embedding_ops(OpTable& ops);
void add_index_ops(OpTable& ops);
void add_scatter_ops(OpTable& ops);
void add_sort_ops(OpTable& ops);
void add_expert_rows_ops(OpTable& ops);
void add_attention_ops(OpTable& ops);
void add_gpu_attention_ops(OpTable& ops);
void add_recurrent_ops(OpTable& ops);
void add_fused_ops(OpTable& ops);
void add_optimizer_ops(OpTable& ops);
void add_guard_ops(OpTable& ops);
void add_crossing_ops(OpTable& ops);

}  // namespace weft
