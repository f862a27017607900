// SPDX-License-Identifier: Apache-2.0
// Embeddings: rows of a table looked up by an index. A split of the rows gives
// masked partial sums.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {

namespace {

// (weight, indices) -> rows
std::vector<TensorType> embedding_types(
    const Function& function, const Node& node) {
  const TensorType& weight = type_arg(function, node, 0);
  Dims sizes = type_arg(function, node, 1).sizes;
  sizes.push_back(weight.sizes.at(1));
  return {make_type(weight.dtype, std::move(sizes))};
}

// The index that stands for padding, as the rows of one piece count it.
int64_t local_padding(int64_t padding, const Piece& rows) {
  const bool here = padding >= rows.start && padding < rows.start + rows.size;
  return here ? padding - rows.start : -1;
}

// Pieces are those of v, e, and the dims of the indices.
void localize_embedding(
    const Function&, Node& node, const std::vector<Piece>& pieces) {
  if (find_arg(node, 2) != nullptr) {
    set_arg(node, 2, {local_padding(int_arg(node, 2, -1), pieces[0])});
  }
}

int64_t embedding_scratch(const Function& function, const Node& node) {
  return copy_bytes(type_arg(function, node, 1));
}

int64_t count_gradient(const Function& function, const Node& node) {
  return element_count(type_arg(function, node, 0));
}

// (grad, indices, num_weights, padding_idx, scale_grad_by_freq) -> gradient of
// the table
Rule embedding_backward_rule(const Function& function, const Node& node) {
  const size_t ndim = type_arg(function, node, 1).sizes.size();
  // A scale by how often a row is used needs to see every use.
  const bool counts = bool_arg(node, 4, false);
  const std::string index = numbered(ndim, "d", counts ? "!" : "");
  return rule_from_terms(
      {cat(index, " e"), ndim == 0 ? "()" : index},
      {cat("v=", int_arg(node, 2, 0), counts ? "! e" : "? e")},
      function,
      node);
}

void localize_embedding_backward(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  // Factors are the dims of the indices, then e, then v.
  const Piece& rows = pieces[type_arg(function, node, 1).sizes.size() + 1];
  set_arg(node, 2, {rows.size});
}

std::vector<TensorType> embedding_backward_types(
    const Function& function, const Node& node) {
  const TensorType& grad = type_arg(function, node, 0);
  return {make_type(grad.dtype, {int_arg(node, 2, 0), grad.sizes.back()})};
}

int64_t embedding_backward_scratch(const Function& function, const Node& node) {
  return copy_bytes(type_arg(function, node, 0)) +
         copy_bytes(type_arg(function, node, 1));
}

// --- Bags: rows looked up and reduced at once. Modes of at::embedding_bag:
constexpr int64_t kBagSum = 0;
constexpr int64_t kBagMax = 2;

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse,
//  per_sample_weights, include_last_offset, padding_idx)
//   -> (bags, offset2bag, bag_size, max_indices)
Rule bag_rule(const Function& function, const Node& node) {
  const bool max = int_arg(node, 4, kBagSum) == kBagMax;
  return rule_from_terms(
      {"v! e", "i!", "o!", "i!"},
      {"b! e", "_", "_", max ? "b! e" : "_"},
      function,
      node);
}

std::vector<TensorType> bag_types(const Function& function, const Node& node) {
  const TensorType& weight = type_arg(function, node, 0);
  const TensorType& indices = type_arg(function, node, 1);
  const bool extra = bool_arg(node, 7, false);
  const int64_t bags =
      type_arg(function, node, 2).sizes.at(0) - (extra ? 1 : 0);
  const int64_t mode = int_arg(node, 4, kBagSum);
  // Sums of rows have a kernel that needs no map from offsets to bags.
  const bool direct =
      mode == kBagSum && int_arg(node, 8, -1) < 0 && weight.dtype != DType::F64;
  const int64_t width = weight.sizes.at(1);
  return {
      make_type(weight.dtype, {bags, width}),
      make_type(indices.dtype, {direct ? 0 : indices.sizes.at(0)}),
      make_type(indices.dtype, {bags}),
      make_type(
          indices.dtype, mode == kBagMax ? Dims{bags, width} : Dims{bags})};
}

// (grad, indices, offsets, offset2bag, bag_size, max_indices, num_weights,
//  scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx)
Rule bag_backward_rule(const Function& function, const Node& node) {
  const bool max = int_arg(node, 8, kBagSum) == kBagMax;
  return rule_from_terms(
      {"b! e", "_", "_", "_", "_", max ? "b! e" : "_", "_"},
      {"v! e"},
      function,
      node);
}

std::vector<TensorType> bag_backward_types(
    const Function& function, const Node& node) {
  const TensorType& grad = type_arg(function, node, 0);
  return {make_type(grad.dtype, {int_arg(node, 6, 0), grad.sizes.at(1)})};
}

// Sorting the indices: their order, their values, and how often each is used.
int64_t bag_backward_scratch(const Function& function, const Node& node) {
  const TensorType& indices = type_arg(function, node, 1);
  return 4 * dense_bytes(indices);
}

// (grad, weight, indices, offsets, offset2bag, mode, padding_idx)
std::vector<TensorType> bag_weights_types(
    const Function& function, const Node& node) {
  return {make_type(
      type_arg(function, node, 0).dtype,
      {type_arg(function, node, 2).sizes.at(0)})};
}

}  // namespace

void add_embedding_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.embedding",
      .rule = "v? e, ... -> ... e",
      .flops = count_result,
      .scratch_bytes = embedding_scratch,
      .types = embedding_types,
      .localize = localize_embedding,
      .lookup_operand = 1,
      .backward = "aten.embedding_dense_backward",
      .examples = {"(f32[12, 8], i64[4, 4])", "(f32[12, 8], i64[8], 5)"},
  });
  ops.push_back({
      .name = "aten.embedding_dense_backward",
      .rule_of = embedding_backward_rule,
      .linear = Linear::First,
      .flops = count_gradient,
      .scratch_bytes = embedding_backward_scratch,
      .types = embedding_backward_types,
      .localize = localize_embedding_backward,
      .lookup_operand = 1,
      .ignore_arg = 3,
      .examples =
          {"(f32[4, 4, 8], i64[4, 4], 12, -1, false)",
           "(f32[8, 8], i64[8], 12, 5, false)",
           "(f32[8, 8], i64[8], 12, -1, true)"},
  });
  for (const char* name :
       {"aten._embedding_bag", "aten._embedding_bag_forward_only"}) {
    ops.push_back({
        .name = name,
        .rule_of = bag_rule,
        .flops =
            [](const Function& function, const Node& node) {
              return element_count(type_arg(function, node, 1)) *
                     type_arg(function, node, 0).sizes.at(1);
            },
        .types = bag_types,
        .backward = "aten._embedding_bag_backward",
        .examples =
            {"(f32[12, 8], i64[8]<12, i64[4]<1)",
             "(f32[12, 8], i64[8]<12, i64[4]<1, false, 2)"},
    });
  }
  ops.push_back({
      .name = "aten._embedding_bag_backward",
      .rule_of = bag_backward_rule,
      .linear = Linear::First,
      .flops = count_gradient,
      .scratch_bytes = bag_backward_scratch,
      .types = bag_backward_types,
      .examples = {"(f32[4, 8], i64[8]<12, i64[4]<1, i64[0], i64[4], i64[4], "
                   "12, false, "
                   "0, false, none)"},
  });
  ops.push_back({
      .name = "aten._embedding_bag_per_sample_weights_backward",
      .rule = "b! e, v! e, i!, o!, _ -> i!",
      .linear = Linear::First,
      .flops = count_gradient,
      .types = bag_weights_types,
      .examples = {"(f32[4, 8], f32[12, 8], i64[8]<12, i64[4]<1, i64[8]<4, 0)"},
  });
}

}  // namespace weft
