// SPDX-License-Identifier: Apache-2.0
// Element by element: one operand, several that are broadcast against each
// other, numbers beside tensors.
#include "ops/call.h"
#include "ops/families.h"
#include "ops/iterator.h"
#include "ops/kernel.h"

namespace weft {
namespace {

constexpr std::string_view kUnary = "... -> ...";
constexpr std::string_view kBinary = "..., ... -> ...";
constexpr std::string_view kTernary = "..., ..., ... -> ...";

std::vector<TensorType> magnitude_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  DType dtype = real_type(self.dtype);
  if (node.op == "aten.angle" && !is_floating(dtype)) {
    dtype = DType::F32;
  }
  return {iterated_type(dtype, {self})};
}

std::vector<TensorType> frexp_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  return {like(self), like(self, DType::I32)};
}

std::vector<TensorType> complex_types(
    const Function& function, const Node& node) {
  const TensorType& a = operand_type(function, node, 0);
  DType dtype = a.dtype == DType::F64 ? DType::C128 : DType::C64;
  return {iterated_type(dtype, {a, operand_type(function, node, 1)})};
}

// Row-major, of the type of operand 0.
std::vector<TensorType> masked_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  return {make_type(
      self.dtype,
      iterated_type(self.dtype, {self, operand_type(function, node, 1)})
          .sizes)};
}

// The condition does not say the element type.
std::vector<TensorType> where_types(
    const Function& function, const Node& node) {
  Node choice = node;
  choice.args.erase(choice.args.begin());
  std::vector<TensorType> operand_types;
  for (ValueId id : operands(node)) {
    operand_types.push_back(function[id].type);
  }
  return {iterated_type(promoted_type(function, choice), operand_types)};
}

void add_unary(OpTable& ops) {
  add_ops(
      ops,
      {"aten.acos",
       "aten.acosh",
       "aten.asin",
       "aten.asinh",
       "aten.atan",
       "aten.atanh",
       "aten.cos",
       "aten.cosh",
       "aten.digamma",
       "aten.erfinv",
       "aten.i0",
       "aten.lgamma",
       "aten.sin",
       "aten.sinc",
       "aten.sinh",
       "aten.special_entr",
       "aten.special_erfcx",
       "aten.special_i0e",
       "aten.special_i1",
       "aten.special_i1e",
       "aten.special_log_ndtr",
       "aten.special_ndtri",
       "aten.tan",
       "aten.tanh"},
      {.rule = kUnary,
       .special = Special::Tangent,
       .types = iterated_as_first(/*real=*/true),
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}});
  add_ops(
      ops,
      {"aten.erf",
       "aten.erfc",
       "aten.exp",
       "aten.exp2",
       "aten.expm1",
       "aten.log",
       "aten.log10",
       "aten.log1p",
       "aten.log2",
       "aten.sigmoid"},
      {.rule = kUnary,
       .special = Special::Exponential,
       .types = iterated_as_first(/*real=*/true),
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}});
  add_ops(
      ops,
      {"aten.reciprocal", "aten.rsqrt", "aten.sqrt"},
      {.rule = kUnary,
       .types = iterated_as_first(/*real=*/true),
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}});
  // Integers stay integers.
  add_ops(
      ops,
      {"aten.ceil",
       "aten.floor",
       "aten.frac",
       "aten.round",
       "aten.sgn",
       "aten.sign",
       "aten.trunc",
       "aten.nan_to_num",
       "aten.relu"},
      {.rule = kUnary,
       .types = iterated_as_first(),
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}});
  add_ops(
      ops,
      {"aten.logit"},
      {.rule = kUnary,
       .types = iterated_as_first(/*real=*/true),
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8}, 0.1)"}});
  add_ops(
      ops,
      {"aten.isinf",
       "aten.isnan",
       "aten.isneginf",
       "aten.isposinf",
       "aten.logical_not",
       "aten.signbit"},
      {.rule = kUnary,
       .types = iterated(DType::Bool),
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}});
  add_ops(
      ops,
      {"aten.abs", "aten.angle"},
      {.rule = kUnary,
       .types = magnitude_types,
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})", "(c64[8, 4])"}});
  // Linear in their operand.
  add_ops(
      ops,
      {"aten.clone", "aten._to_copy"},
      {.rule = kUnary,
       .linear = Linear::All,
       .types = copied_types,
       .examples = {
           "(f32[8, 4])",
           "(f32[8, 4]{1, 8})",
           "(f32[8, 4]{1, 8}, memory_format=contiguous)",
           "(f32[8, 4]{0, 1})"}});
  add_ops(
      ops,
      {"aten.deg2rad", "aten.neg", "aten.positive", "aten.rad2deg"},
      {.rule = kUnary,
       .linear = Linear::All,
       .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"}});
  add_ops(
      ops,
      {"aten.bitwise_not"},
      {.rule = kUnary,
       .types = iterated_as_first(),
       .examples = {"(i64[8, 4])", "(bool[8, 4])"}});
  add_ops(
      ops,
      {"aten.conj_physical", "aten._conj_physical"},
      {.rule = kUnary,
       .linear = Linear::All,
       .types = iterated_as_first(),
       .examples = {"(c64[8, 4])", "(c64[8, 4]{1, 8})"}});
  ops.push_back({
      .name = "aten.round.decimals",
      .rule = kUnary,
      .examples = {"(f32[8, 4], decimals=1)"},
  });
  ops.push_back({
      .name = "aten.polygamma",
      .rule = kUnary,
      .examples = {"(1, f32[8, 4])"},
  });
  ops.push_back({
      .name = "aten.frexp.Tensor",
      .rule = "... -> ..., ...",
      .types = frexp_types,
      .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"},
  });
}

// A tensor and a number.
void add_scalar(OpTable& ops) {
  const std::vector<std::string_view> with_number = {
      "(f32[8, 4], 0.5)", "(f32[8, 4]{1, 8}, 2)"};
  add_ops(
      ops,
      {"aten.add.Scalar",
       "aten.clamp_max",
       "aten.clamp_min",
       "aten.fmod.Scalar",
       "aten.pow.Tensor_Scalar",
       "aten.remainder.Scalar",
       "aten.rsub.Scalar",
       "aten.sub.Scalar"},
      {.rule = kUnary, .types = iterated(), .examples = with_number});
  add_ops(
      ops,
      {"aten.copysign.Scalar", "aten.xlogy.Scalar_Other"},
      {.rule = kUnary, .types = iterated_real(), .examples = with_number});
  add_ops(
      ops,
      {"aten.eq.Scalar",
       "aten.ge.Scalar",
       "aten.gt.Scalar",
       "aten.le.Scalar",
       "aten.lt.Scalar",
       "aten.ne.Scalar"},
      {.rule = kUnary,
       .types = iterated(DType::Bool),
       .examples = with_number});
  add_ops(
      ops,
      {"aten.fill.Scalar"},
      {.rule = kUnary, .types = copied_types, .examples = with_number});
  add_ops(
      ops,
      {"aten.mul.Scalar"},
      {.rule = kUnary,
       .linear = Linear::All,
       .types = iterated(),
       .examples = with_number});
  add_ops(
      ops,
      {"aten.div.Scalar"},
      {.rule = kUnary,
       .linear = Linear::All,
       .types = iterated_real(),
       .examples = with_number});
  add_ops(
      ops,
      {"aten.pow.Scalar", "aten.xlogy.Scalar_Self"},
      {.rule = kUnary, .examples = {"(1.5, f32[8, 4])"}});
  add_ops(
      ops,
      {"aten.remainder.Scalar_Tensor"},
      {.rule = kUnary,
       .types = iterated(),
       .examples = {"(1.5, f32[8, 4]{1, 8})", "(2, i64[8, 4]>0)"}});
  add_ops(
      ops,
      {"aten.floor_divide.Scalar"},
      {.rule = kUnary,
       .types = iterated(),
       .examples = {"(f32[8, 4]{1, 8}, 0.5)", "(i64[8, 4], 2)"}});
  add_ops(
      ops,
      {"aten.bitwise_and.Scalar",
       "aten.bitwise_or.Scalar",
       "aten.bitwise_xor.Scalar",
       "aten.bitwise_left_shift.Tensor_Scalar",
       "aten.bitwise_right_shift.Tensor_Scalar"},
      {.rule = kUnary, .examples = {"(i64[8, 4], 1)"}});
  add_ops(
      ops,
      {"aten.bitwise_and.Scalar_Tensor",
       "aten.bitwise_or.Scalar_Tensor",
       "aten.bitwise_xor.Scalar_Tensor",
       "aten.bitwise_left_shift.Scalar_Tensor",
       "aten.bitwise_right_shift.Scalar_Tensor"},
      {.rule = kUnary, .examples = {"(1, i64[8, 4])"}});
  add_ops(
      ops,
      {"aten.__lshift__.Scalar", "aten.__rshift__.Scalar"},
      {.rule = kUnary,
       .types = iterated(),
       .examples = {"(i64[8, 4], 1)", "(i32[8, 4]{1, 8}, 1)"}});
  ops.push_back({
      .name = "aten.clamp",
      .rule = kUnary,
      .types = iterated(),
      .examples =
          {"(f32[8, 4], -0.5, 0.5)", "(f32[8, 4], 0)", "(f32[8, 4], none, 1)"},
  });
  ops.push_back({
      .name = "aten.div.Scalar_mode",
      .rule = kUnary,
      .examples = {"(f32[8, 4], 0.3, rounding_mode=\"floor\")"},
  });
  ops.push_back({
      .name = "aten.isin.Tensor_Scalar",
      .rule = kUnary,
      .examples = {"(i64[8, 4], 2)"},
  });
}

void add_binary(OpTable& ops) {
  const std::vector<std::string_view> floats = {
      "(f32[8, 4], f32[8, 4])",
      "(f32[8, 1, 4], f32[4, 1])",
      "(f32[8, 4]{1, 8}, f32[8, 4]{1, 8})",
      "(f32[8, 4], f32[])"};
  const std::vector<std::string_view> integers = {
      "(i64[8, 4], i64[8, 4])", "(i64[8, 1, 4], i64[4, 1])"};
  add_ops(
      ops,
      {"aten.eq.Tensor",
       "aten.ge.Tensor",
       "aten.gt.Tensor",
       "aten.le.Tensor",
       "aten.lt.Tensor",
       "aten.ne.Tensor"},
      {.rule = kBinary, .types = iterated(DType::Bool), .examples = floats});
  add_ops(
      ops,
      {"aten.fmax",
       "aten.fmin",
       "aten.fmod.Tensor",
       "aten.logaddexp",
       "aten.logaddexp2",
       "aten.maximum",
       "aten.minimum",
       "aten.remainder.Tensor"},
      {.rule = kBinary, .types = iterated(), .examples = floats});
  add_ops(
      ops,
      {"aten.atan2",
       "aten.copysign.Tensor",
       "aten.heaviside",
       "aten.hypot",
       "aten.igamma",
       "aten.igammac",
       "aten.ldexp.Tensor",
       "aten.nextafter",
       "aten.pow.Tensor_Tensor",
       "aten.special_xlog1py",
       "aten.special_zeta",
       "aten.xlogy.Tensor",
       "aten.clamp_max.Tensor",
       "aten.clamp_min.Tensor"},
      {.rule = kBinary, .examples = floats});
  add_ops(
      ops,
      {"aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"},
      {.rule = kBinary,
       .linear = Linear::All,
       .types = iterated(),
       .examples = floats});
  add_ops(
      ops,
      {"aten.floor_divide"},
      {.rule = kBinary, .types = iterated(), .examples = floats});
  add_ops(
      ops,
      {"aten.logical_and", "aten.logical_or", "aten.logical_xor"},
      {.rule = kBinary, .types = iterated(DType::Bool), .examples = floats});
  add_ops(
      ops,
      {"aten.mul.Tensor"},
      {.rule = kBinary,
       .linear = Linear::Each,
       .types = iterated(),
       .examples = floats});
  add_ops(
      ops,
      {"aten.div.Tensor"},
      {.rule = kBinary,
       .linear = Linear::First,
       .types = iterated_real(),
       .examples = floats});
  add_ops(
      ops,
      {"aten.bitwise_and.Tensor",
       "aten.bitwise_or.Tensor",
       "aten.bitwise_xor.Tensor",
       "aten.bitwise_left_shift.Tensor",
       "aten.bitwise_right_shift.Tensor",
       "aten.gcd",
       "aten.lcm"},
      {.rule = kBinary, .types = iterated(), .examples = integers});
  add_ops(
      ops,
      {"aten.__lshift__.Tensor", "aten.__rshift__.Tensor"},
      {.rule = kBinary, .types = iterated(), .examples = integers});
  ops.push_back({
      .name = "aten.div.Tensor_mode",
      .rule = kBinary,
      .examples =
          {"(f32[8, 4], f32[4], rounding_mode=\"floor\")",
           "(f32[8, 4], f32[4], rounding_mode=\"trunc\")"},
  });
  add_ops(
      ops,
      {"aten.complex", "aten.polar"},
      {.rule = kBinary,
       .types = complex_types,
       .examples = {
           "(f32[8, 4], f32[8, 4])", "(f32[8, 4]{1, 8}, f32[8, 4]{1, 8})"}});
  // The result has the sizes of the first operand.
  ops.push_back({
      .name = "aten.copy",
      .rule = kBinary,
      .linear = Linear::All,
      .types = copied_types,
      .examples =
          {"(f32[8, 4], f32[8, 4])",
           "(f32[8, 4], f32[4])",
           "(f32[8, 4]{1, 8}, i64[8, 4])"},
  });
  ops.push_back({
      .name = "aten.fill.Tensor",
      .rule = "..., () -> ...",
      .examples = {"(f32[8, 4], f32[])"},
  });
  ops.push_back({
      .name = "aten.lerp.Scalar",
      .rule = kBinary,
      .linear = Linear::All,
      .examples = {"(f32[8, 4], f32[4], 0.25)"},
  });
  ops.push_back({
      .name = "aten.masked_fill.Scalar",
      .rule = kBinary,
      .types = masked_types,
      .examples =
          {"(f32[8, 4], bool[8, 4], -1.5)", "(f32[8, 4], bool[8, 1], 0)"},
  });
  // Compared with every element of a list.
  add_ops(
      ops,
      {"aten.isin.Tensor_Tensor"},
      {.rule = "..., t! -> ...", .examples = {"(i64[8, 4], i64[3])"}});
}

void add_ternary(OpTable& ops) {
  add_ops(
      ops,
      {"aten.addcmul", "aten.addcdiv"},
      {.rule = kTernary,
       .examples = {
           "(f32[8, 4], f32[8, 4], f32[8, 4], value=0.5)",
           "(f32[8, 4], f32[4], f32[8, 1])"}});
  ops.push_back({
      .name = "aten.where.self",
      .rule = kTernary,
      .types = where_types,
      .examples =
          {"(bool[8, 4], f32[8, 4], f32[8, 4])",
           "(bool[8, 1], f32[4], f32[])",
           "(bool[8, 4], f32[8, 4]{1, 8}, i64[8, 4])",
           "(bool[8, 4]{1, 8}, 0.5, f16[8, 4]{1, 8})",
           "(bool[4, 1, 8], f32[4, 8, 1], f32[8, 8]{1, 8})"},
  });
  ops.push_back({
      .name = "aten.lerp.Tensor",
      .rule = kTernary,
      .examples = {"(f32[8, 4], f32[8, 4], f32[4])"},
  });
  ops.push_back({
      .name = "aten.clamp.Tensor",
      .rule = kTernary,
      .examples =
          {"(f32[8, 4], f32[8, 1], f32[4])", "(f32[8, 4], none, f32[4])"},
  });
  ops.push_back({
      .name = "aten.masked_fill.Tensor",
      .rule = "..., ..., () -> ...",
      .examples = {"(f32[8, 4], bool[8, 4], f32[])"},
  });
}

}  // namespace

void add_pointwise_ops(OpTable& ops) {
  const size_t first = ops.size();
  add_unary(ops);
  add_scalar(ops);
  add_binary(ops);
  add_ternary(ops);
  mark_in_place(ops, first, "aten.copy");
}

}  // namespace weft
