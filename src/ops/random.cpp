// SPDX-License-Identifier: Apache-2.0
// Ops that draw random numbers. A number belongs to the seed, the step, the
// node and the position of its element in the whole, so pieces draw what the
// whole would have drawn.
#include "ops/families.h"

namespace weft {

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
       "aten.random",
       "aten.poisson"},
      {
          .rule = "... -> ...",
          .kind = OpKind::Random,
          .examples = {"(f32[8, 4])"},
      });
  for (OpDef& def : ops) {
    if (def.name == "aten.bernoulli.p") {
      def.examples = {"(f32[8, 4], 0.5)"};
    } else if (def.name == "aten.bernoulli" || def.name == "aten.poisson") {
      def.examples = {"(f32[8, 4]>0)"};
    }
  }
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
      .backward = "aten.native_dropout_backward",
      .examples = {"(f32[8, 4], 0.5, true)"},
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
      .examples = {"(f32[8, 4]>0, 3)"},
  });
  ops.push_back({
      .name = "aten.randperm",
      .kind = OpKind::Random,
      .examples = {"(8)"},
  });
}

}  // namespace weft
