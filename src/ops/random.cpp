// SPDX-License-Identifier: Apache-2.0
// Ops that draw random numbers. A number belongs to the seed, the step, the
// node and the position of its element in the whole, so pieces draw what the
// whole would have drawn.
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {
namespace {

// The result, and which elements are kept.
std::vector<TensorType> dropout_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  return {like(self), like(self, DType::Bool)};
}

}  // namespace

void add_random_ops(OpTable& ops) {
  add_ops(
      ops,
      {"aten.rand", "aten.randn"},
      {
          .rule = "-> ...",
          .kind = OpKind::Random,
          .sizes_arg = 0,
          .examples = {"([8, 4])", "([8, 4], dtype=f64)"},
      });
  ops.push_back({
      .name = "aten.randint",
      .rule = "-> ...",
      .kind = OpKind::Random,
      .sizes_arg = 1,
      .examples = {"(10, [8, 4])"},
  });
  ops.push_back({
      .name = "aten.randint.low",
      .rule = "-> ...",
      .kind = OpKind::Random,
      .sizes_arg = 2,
      .examples = {"(2, 10, [8, 4])"},
  });
  ops.push_back({
      .name = "aten.normal.float_float",
      .rule = "-> ...",
      .kind = OpKind::Random,
      .sizes_arg = 2,
      .examples = {"(0.0, 1.0, [8, 4])"},
  });
  add_ops(
      ops,
      {"aten.rand_like",
       "aten.randn_like",
       "aten.bernoulli",
       "aten.bernoulli.p",
       "aten.normal_functional",
       "aten.uniform",
       "aten.exponential",
       "aten.log_normal",
       "aten.cauchy",
       "aten.random"},
      {
          .rule = "... -> ...",
          .kind = OpKind::Random,
          .examples = {"(f32[8, 4])"},
      });
  for (OpDef& def : ops) {
    if (def.name == "aten.bernoulli.p") {
      def.examples = {"(f32[8, 4], 0.5)"};
    } else if (def.name == "aten.bernoulli") {
      def.examples = {"(f32[8, 4]>0)"};
    }
  }
  ops.push_back({
      .name = "aten.poisson",
      .rule = "... -> ...",
      .kind = OpKind::Random,
      .types =
          [](const Function& function, const Node& node) {
            const TensorType& self = operand_type(function, node, 0);
            return std::vector<TensorType>{make_type(self.dtype, self.sizes)};
          },
      .examples = {"(f32[8, 4]>0)", "(f32[8, 4]{1, 8}>0)"},
  });
  add_ops(
      ops,
      {"aten.geometric"},
      {
          .rule = "... -> ...",
          .kind = OpKind::Random,
          .examples = {"(f32[8, 4], 0.5)"},
      });
  add_ops(
      ops,
      {"aten.randint_like", "aten.random.to"},
      {
          .rule = "... -> ...",
          .kind = OpKind::Random,
          .examples = {"(f32[8, 4], 10)"},
      });
  add_ops(
      ops,
      {"aten.randint_like.low_dtype", "aten.random.from"},
      {
          .rule = "... -> ...",
          .kind = OpKind::Random,
          .examples = {"(f32[8, 4], 2, 10)"},
      });
  ops.push_back({
      .name = "aten.bernoulli.Tensor",
      .rule = "..., ... -> ...",
      .kind = OpKind::Random,
      .examples = {"(f32[8, 4], f32[8, 4]>0)"},
  });
  add_ops(
      ops,
      {"aten.normal.Tensor_float"},
      {
          .rule = "... -> ...",
          .kind = OpKind::Random,
          .examples = {"(f32[8, 4])", "(f32[8, 4], 0.5)"},
      });
  ops.push_back({
      .name = "aten.normal.float_Tensor",
      .rule = "... -> ...",
      .kind = OpKind::Random,
      .examples = {"(0.5, f32[8, 4]>0)"},
  });
  ops.push_back({
      .name = "aten.normal.Tensor_Tensor",
      .rule = "..., ... -> ...",
      .kind = OpKind::Random,
      .examples = {"(f32[8, 4], f32[8, 4]>0)"},
  });
  ops.push_back({
      .name = "aten.native_dropout",
      .rule = "... -> ..., ...",
      .kind = OpKind::Random,
      .types = dropout_types,
      .in_place = true,
      .backward = "aten.native_dropout_backward",
      .examples = {"(f32[8, 4], 0.5, true)", "(f32[8, 4]{1, 8}, 0.5, true)"},
  });
  ops.push_back({
      .name = "aten.rrelu_with_noise_functional",
      .rule = "..., ... -> ..., ...",
      .kind = OpKind::Random,
      .backward = "aten.rrelu_with_noise_backward",
      .examples = {"(f32[8, 4], f32[8, 4], 0.125, 0.25, true)"},
  });
  ops.push_back({
      .name = "aten.multinomial",
      .rule = "... class! -> ... sample!",
      .kind = OpKind::Random,
      .types =
          [](const Function& function, const Node& node) {
            Dims sizes = operand_type(function, node, 0).sizes;
            sizes.back() = int_arg(node, 1, 1);
            return std::vector<TensorType>{make_type(DType::I64, sizes)};
          },
      .examples = {"(f32[8, 4]>0, 3)"},
  });
  ops.push_back({
      .name = "aten.randperm",
      .kind = OpKind::Random,
      .types =
          [](const Function&, const Node& node) {
            return std::vector<TensorType>{make_type(
                dtype_option(node, "dtype").value_or(DType::I64),
                {int_arg(node, 0, 0)})};
          },
      .examples = {"(8)"},
  });
  ops.push_back({
      .name = "weft.trunc_normal",
      .rule = "... -> ...",
      .kind = OpKind::Random,
      .types =
          [](const Function& function, const Node& node) {
            return std::vector{operand_type(function, node, 0)};
          },
      .examples = {"(f32[8, 4], 0.0, 1.0, -2.0, 2.0)"},
  });
}

}  // namespace weft
