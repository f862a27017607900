// SPDX-License-Identifier: Apache-2.0
// Decompositions and solvers: a matrix stays whole, a batch of them may be
// split. And distances between rows.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"

#include <utility>

namespace weft {
namespace {

void add_decompositions(OpTable& ops) {
  add_ops(
      ops,
      {"aten.linalg_cholesky_ex", "aten.linalg_inv_ex"},
      {
          .rule = "... n! n -> ... n n, ...",
          .examples = {"(f32[4, 3, 3])", "(f32[4, 8, 3, 3])"},
      });
  ops.push_back({
      .name = "aten.linalg_lu_factor_ex",
      .rule = "... n! n -> ... n n, ... n, ...",
      .examples = {"(f32[4, 3, 3])"},
  });
  ops.push_back({
      .name = "aten.linalg_qr",
      .rule = "... m! n! -> ... m k!, ... k n",
      .examples = {"(f32[4, 5, 3])"},
  });
  ops.push_back({
      .name = "aten._linalg_svd",
      .rule = "... m! n! -> ... m k!, ... k, ... k n",
      .examples = {"(f32[4, 5, 3])"},
  });
  ops.push_back({
      .name = "aten._linalg_eigh",
      .rule = "... n! n -> ... n, ... n n",
      .examples = {"(f32[4, 3, 3])"},
  });
  ops.push_back({
      .name = "aten._linalg_det",
      .rule = "... n! n -> ..., ... n n, ... n",
      .examples = {"(f32[4, 3, 3])"},
  });
  ops.push_back({
      .name = "aten._linalg_slogdet",
      .rule = "... n! n -> ..., ..., ... n n, ... n",
      .examples = {"(f32[4, 3, 3])"},
  });
  ops.push_back({
      .name = "aten._linalg_solve_ex",
      .rule = "... n! n, ... n k! -> ... n k, ... n n, ... n, ...",
      .examples = {"(f32[4, 3, 3], f32[4, 3, 2])"},
  });
  ops.push_back({
      .name = "aten.linalg_solve_triangular",
      .rule = "... n! n, ... n k -> ... n k",
      .types =
          [](const Function& function, const Node& node) {
            const TensorType& b = operand_type(function, node, 1);
            Dims order = b.sizes;
            std::swap(order[order.size() - 1], order[order.size() - 2]);
            Dims strides = row_major_strides(order);
            std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
            return std::vector<TensorType>{
                make_type(b.dtype, b.sizes, strides)};
          },
      .examples = {"(f32[4, 3, 3], f32[4, 3, 4], upper=true)"},
  });
  ops.push_back({
      .name = "aten.linalg_cross",
      .rule_of =
          [](const Function& function, const Node& node) {
            size_t ndim = operand_type(function, node, 0).sizes.size();
            auto dim = static_cast<size_t>(
                wrap_dim(int_option(node, "dim", -1), ndim));
            std::string words;
            for (size_t i = 0; i < ndim; ++i) {
              words += cat(" d", i, i == dim ? "!" : "");
            }
            return rule_from_text(
                cat(words, ",", words, " ->", words), function, node);
          },
      .linear = Linear::Each,
      .examples = {"(f32[8, 3], f32[8, 3])", "(f32[3, 8], f32[3, 8], dim=0)"},
  });
}

std::vector<TensorType> distance_types(
    const Function& function, const Node& node) {
  const TensorType& x = operand_type(function, node, 0);
  Dims sizes = x.sizes;
  const Dims& other = operand_type(function, node, 1).sizes;
  sizes.back() = other[other.size() - 2];
  return {make_type(x.dtype, sizes)};
}

// m and n count rows, k is along them.
void add_distances(OpTable& ops) {
  ops.push_back({
      .name = "aten._cdist_forward",
      .rule = "... m k!, ... n k! -> ... m n",
      .types = distance_types,
      .backward = "aten._cdist_backward",
      .examples = {"(f32[4, 8, 3], f32[4, 12, 3], 2.0, none)"},
  });
  ops.push_back({
      .name = "aten._euclidean_dist",
      .rule = "... m k!, ... n k! -> ... m n",
      .types = distance_types,
      .examples = {"(f32[8, 3], f32[12, 3])"},
  });
  ops.push_back({
      .name = "aten._cdist_backward",
      .rule = "... m n, ... m k, ... n k, ... m n -> ... m k",
      .linear = Linear::First,
      .types =
          [](const Function& function, const Node& node) {
            const TensorType& x = operand_type(function, node, 1);
            return std::vector<TensorType>{make_type(x.dtype, x.sizes)};
          },
      .examples = {"(f32[4, 8, 12], f32[4, 8, 4], f32[4, 12, 4], 2.0, "
                   "f32[4, 8, 12]>0)"},
  });
}

}  // namespace

void add_linalg_ops(OpTable& ops) {
  add_decompositions(ops);
  add_distances(ops);
}

}  // namespace weft
