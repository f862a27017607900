// SPDX-License-Identifier: Apache-2.0
// Two calls as one, where what the first makes for the second is as large as
// the largest tensors of a step, and is most of it zeros or only added up.
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <algorithm>

namespace weft {
namespace {

// --- The gradient of scores under a cross entropy: that of the log
// likelihood, which has one number a label, through a log softmax over dim 1.
// (grad, log_probabilities, labels, weight, reduction, ignore_index,
//  total_weight), as aten.nll_loss_backward has them.

// Samples whose gradients are there at a time: enough for caches to hold them
// and for threads to share them.
constexpr int64_t kSampleBytes = int64_t{256} << 10;
constexpr int64_t kLeastSamples = 16;

int64_t samples_bytes(const Function& function, const Node& node) {
  const TensorType& type = type_arg(function, node, 1);
  const int64_t samples = type.sizes.front();
  const int64_t bytes =
      samples == 0 ? 0 : dense_bytes(type) / std::max<int64_t>(samples, 1);
  const int64_t at_once =
      std::max(kLeastSamples, kSampleBytes / std::max<int64_t>(bytes, 1));
  return std::min(samples, at_once) * bytes;
}

std::optional<std::vector<Arg>> join_cross_entropy(
    const Function& function, const Node& first, const Node& second) {
  const ValueId log_probabilities = value_arg(first, 1);
  const TensorType& type = function[log_probabilities].type;
  const Arg* dtype = find_arg(second, 3);
  const bool fits =
      value_arg(second, 0) == first.results.front() &&
      value_arg(second, 1) == log_probabilities && type.sizes.size() >= 2 &&
      wrap_dim(int_arg(second, 2, -1), type.sizes.size()) == 1 &&
      dtype != nullptr && std::get<DType>(dtype->data) == type.dtype &&
      is_row_major(type) && function[second.results.front()].type == type &&
      is_row_major(type_arg(function, first, 2)) && first.args.size() == 7;
  return fits ? std::optional(first.args) : std::nullopt;
}

// --- The gradient of an embedding whose table has another reader too (a tied
// head): the rows are added to the other gradient.
// (grad, indices, other, padding_idx)

std::optional<std::vector<Arg>> join_embedding(
    const Function& function, const Node& first, const Node& second) {
  const ValueId made = first.results.front();
  const std::vector<ValueId> both = operands(second);
  // Not a number.
  if (both.size() != 2) {
    return std::nullopt;
  }
  const ValueId other = both[0] == made ? both[1] : both[0];
  const TensorType& type = function[made].type;
  const bool fits =
      other != made && function[other].type == type &&
      function[second.results.front()].type == type && is_row_major(type) &&
      is_row_major(type_arg(function, first, 0)) &&
      is_row_major(type_arg(function, first, 1)) &&
      !bool_arg(first, 4, false) && number_option(second, "alpha", 1) == 1;
  if (!fits) {
    return std::nullopt;
  }
  return std::vector<Arg>{
      first.args[0], first.args[1], {other}, {int_arg(first, 3, -1)}};
}

// Where each row of the gradient goes, in the order of the table's rows.
int64_t order_bytes(const Function& function, const Node& node) {
  return element_count(type_arg(function, node, 1)) * element_bytes(DType::I64);
}

// --- A product that is added to what there is of its sum.
// (sum, mat1, mat2), as aten.addmm has them.

std::optional<std::vector<Arg>> join_product(
    const Function& function, const Node& first, const Node& second) {
  const ValueId made = first.results.front();
  const std::vector<ValueId> both = operands(second);
  if (both.size() != 2 || both[0] == both[1]) {
    return std::nullopt;
  }
  const ValueId other = both[0] == made ? both[1] : both[0];
  const TensorType& type = function[made].type;
  const bool fits = function[other].type == type &&
                    function[second.results.front()].type == type &&
                    is_row_major(type) &&
                    number_option(second, "alpha", 1) == 1;
  return fits ? std::optional(
                    std::vector<Arg>{{other}, first.args[0], first.args[1]})
              : std::nullopt;
}

int64_t product_flops(const Function& function, const Node& node) {
  const TensorType& mat1 = type_arg(function, node, 1);
  const TensorType& mat2 = type_arg(function, node, 2);
  return 2 * element_count(mat1) * mat2.sizes.back();
}

std::vector<TensorType> types_of_arg(
    size_t position, const Function& function, const Node& node) {
  return {type_arg(function, node, position)};
}

}  // namespace

void add_fused_ops(OpTable& ops) {
  ops.push_back({
      .name = "weft.cross_entropy_backward",
      .flops = per_element(5),
      .special = Special::Exponential,
      .work_bytes = samples_bytes,
      .types = [](const Function& function,
                  const Node& node) { return types_of_arg(1, function, node); },
      .in_place = true,
      .fusions =
          {{"aten.nll_loss_backward",
            "aten._log_softmax_backward_data",
            /*same_bits=*/true,
            join_cross_entropy},
           {"aten.nll_loss2d_backward",
            "aten._log_softmax_backward_data",
            /*same_bits=*/true,
            join_cross_entropy}},
      .examples =
          {"(f32[], f32[8, 12], i64[8]<12, none, 1, -100, f32[])",
           "(f32[8], f32[8, 12], i64[8]<12, f32[12], 0, 2, f32[])",
           "(f32[], f32[4, 8, 4, 4], i64[4, 4, 4]<8, none, 1, -100, f32[])"},
  });
  ops.push_back({
      .name = "weft.embedding_backward_add",
      .work_bytes = order_bytes,
      .types = [](const Function& function,
                  const Node& node) { return types_of_arg(2, function, node); },
      .in_place = true,
      .overwritten_operand = 2,
      .fusions =
          {{"aten.embedding_dense_backward",
            "aten.add.Tensor",
            /*same_bits=*/true,
            join_embedding}},
      .examples =
          {"(f32[4, 4, 8], i64[4, 4]<12, f32[12, 8], -1)",
           "(f32[12, 8], i64[12]<12, f32[12, 8], -1)"},
  });
  ops.push_back({
      .name = "weft.mm_add",
      .flops = product_flops,
      .types = [](const Function& function,
                  const Node& node) { return types_of_arg(0, function, node); },
      .in_place = true,
      .overwritten_operand = 0,
      .fusions =
          {{"aten.mm", "aten.add.Tensor", /*same_bits=*/false, join_product}},
      .examples = {"(f32[8, 12], f32[8, 4], f32[4, 12])"},
  });
}

}  // namespace weft
