// SPDX-License-Identifier: Apache-2.0
// Tensors made from numbers alone.
#include "base/error.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/split.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace weft {
namespace {

bool is_integer(const Arg& arg) {
  return std::holds_alternative<int64_t>(arg.data);
}

// Start, end and step of an arange, whichever overload it is.
struct Range {
  Arg start = {int64_t{0}};
  Arg end;
  Arg step = {int64_t{1}};

  explicit Range(const Node& node) {
    if (node.op == "aten.arange") {
      end = node.args.at(0);
      return;
    }
    start = node.args.at(0);
    end = node.args.at(1);
    if (node.args.size() > 2) {
      step = node.args[2];
    }
  }

  bool integers() const {
    return is_integer(start) && is_integer(end) && is_integer(step);
  }
};

double to_double(const Arg& arg) {
  return is_integer(arg) ? static_cast<double>(std::get<int64_t>(arg.data))
                         : std::get<double>(arg.data);
}

Rule arange_rule(const Function& function, const Node& node) {
  Range range(node);
  int64_t count = 0;
  if (range.integers()) {
    int64_t start = std::get<int64_t>(range.start.data);
    int64_t end = std::get<int64_t>(range.end.data);
    int64_t step = std::get<int64_t>(range.step.data);
    WEFT_CHECK(step != 0, "a step is 0");
    count = (end - start + step - (step > 0 ? 1 : -1)) / step;
  } else {
    count = static_cast<int64_t>(std::ceil(
        (to_double(range.end) - to_double(range.start)) /
        to_double(range.step)));
  }
  return rule_from_text(cat("-> n=", count), function, node);
}

// Integers are i64; what else there is PyTorch's default may say.
std::vector<TensorType> arange_types(
    const Function& function, const Node& node) {
  const std::optional<DType> dtype = dtype_option(node, "dtype");
  if (!dtype && !Range(node).integers()) {
    return {};
  }
  return {make_type(
      dtype.value_or(DType::I64),
      result_sizes(arange_rule(function, node), 0))};
}

// A piece starts later and ends earlier, with the same step.
void localize_arange(
    const Function&, Node& node, const std::vector<Piece>& pieces) {
  Range range(node);
  const Piece& piece = pieces.at(0);
  node.op = "aten.arange.start_step";
  if (range.integers()) {
    int64_t step = std::get<int64_t>(range.step.data);
    int64_t start = std::get<int64_t>(range.start.data) + piece.start * step;
    node.args = {{start}, {start + piece.size * step}, {step}};
    return;
  }
  double step = to_double(range.step);
  double start =
      to_double(range.start) + static_cast<double>(piece.start) * step;
  // Between two steps, so that rounding cannot change the count.
  double end = start + (static_cast<double>(piece.size) - 0.5) * step;
  node.args = {{start}, {end}, {step}};
}

Rule linspace_rule(const Function& function, const Node& node) {
  return rule_from_text(cat("-> n=", int_arg(node, 2, 0)), function, node);
}

void localize_linspace(
    const Function&, Node& node, const std::vector<Piece>& pieces) {
  const Piece& piece = pieces.at(0);
  if (piece.size == piece.whole) {
    return;
  }
  double start = number_arg(node, 0, 0);
  double step =
      (number_arg(node, 1, 0) - start) / static_cast<double>(piece.whole - 1);
  auto at = [&](int64_t i) { return start + static_cast<double>(i) * step; };
  set_arg(node, 0, {at(piece.start)});
  set_arg(node, 1, {at(piece.start + piece.size - 1)});
  set_arg(node, 2, {piece.size});
}

// The stated strides, kept in their order and without gaps for the local sizes
// (already written into `sizes_at`).
LocalizeFunction localize_strides(size_t sizes_at) {
  return [=](const Function& function, Node& node, const std::vector<Piece>&) {
    const TensorType& whole = result_type(function, node);
    Dims sizes = dims_arg(node, sizes_at);
    if (sizes != whole.sizes) {
      set_arg(node, sizes_at + 1, to_arg(strides_of(with_sizes(whole, sizes))));
    }
  };
}

// One column an element of the triangle.
std::vector<TensorType> triangle_types(const Function&, const Node& node) {
  int64_t rows = int_arg(node, 0, 0);
  int64_t columns = int_arg(node, 1, 0);
  bool lower = node.op == "aten.tril_indices";
  // The upper triangle is what the lower one below it leaves.
  int64_t offset = int_arg(node, 2, 0) - (lower ? 0 : 1);
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    count += std::clamp<int64_t>(row + offset + 1, 0, columns);
  }
  return {make_type(
      dtype_option(node, "dtype").value_or(DType::I64),
      {2, lower ? count : rows * columns - count})};
}

// (sizes, ...): every dim of the result may be split.
OpDef filled(
    std::string_view name,
    OpKind kind,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule = "-> ...",
      .kind = kind,
      .sizes_arg = 0,
      .examples = std::move(examples),
  };
}

// (self, sizes, ...): self only says dtype and device.
OpDef made_new(
    std::string_view name,
    std::string_view factory,
    OpKind kind,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule = "_ -> ...",
      .kind = kind,
      .sizes_arg = 1,
      .factory = factory,
      .examples = std::move(examples),
  };
}

OpDef made_like(
    std::string_view name,
    OpKind kind,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule = "... -> ...",
      .kind = kind,
      .types = copied_types,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_creation_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.arange",
      .rule_of = arange_rule,
      .types = arange_types,
      .localize = localize_arange,
      .examples = {"(8)", "(8, dtype=f32)", "(4.0)"},
  });
  ops.push_back({
      .name = "aten.arange.start",
      .rule_of = arange_rule,
      .types = arange_types,
      .localize = localize_arange,
      .examples = {"(2, 10)", "(0.5, 8.5)"},
  });
  ops.push_back({
      .name = "aten.arange.start_step",
      .rule_of = arange_rule,
      .types = arange_types,
      .localize = localize_arange,
      .examples = {"(0, 16, 2)", "(8, 0, -1)", "(0, 1, 0.125)"},
  });
  ops.push_back({
      .name = "aten.linspace",
      .rule_of = linspace_rule,
      .localize = localize_linspace,
      .examples = {"(-1, 1, 8)", "(0, 0.5, 4, dtype=f64)"},
  });
  ops.push_back({
      .name = "aten.scalar_tensor",
      .rule = "-> ()",
      .examples = {"(0.5)", "(3, dtype=i64)"},
  });

  ops.push_back(filled(
      "aten.full", OpKind::Compute, {"([8, 4], 0.5)", "([8], 1, dtype=i64)"}));
  for (std::string_view name : {"aten.zeros", "aten.ones"}) {
    ops.push_back(
        filled(name, OpKind::Compute, {"([8, 4])", "([4], dtype=bool)"}));
  }
  ops.push_back(filled(
      "aten.empty.memory_format",
      OpKind::Empty,
      {"([8, 4], dtype=f64)", "([4, 8, 4, 4], memory_format=channels_last)"}));
  ops.push_back(
      filled("aten.empty_permuted", OpKind::Empty, {"([8, 4], [1, 0])"}));
  ops.push_back(
      filled("aten.empty_strided", OpKind::Empty, {"([8, 4], [1, 8])"}));
  ops.back().localize = localize_strides(0);

  ops.push_back(made_new(
      "aten.new_zeros",
      "aten.zeros",
      OpKind::Compute,
      {"(f32[3], [8, 4])", "(f32[3], [8], dtype=i64)"}));
  ops.push_back(made_new(
      "aten.new_ones",
      "aten.ones",
      OpKind::Compute,
      {"(f32[3], [8, 4])", "(f32[3], [8], dtype=i64)"}));
  ops.push_back(made_new(
      "aten.new_full",
      "aten.full",
      OpKind::Compute,
      {"(f32[3], [8, 4], 0.5)"}));
  ops.push_back(made_new(
      "aten.new_empty",
      "aten.empty.memory_format",
      OpKind::Empty,
      {"(f32[3], [8, 4])"}));
  ops.push_back(made_new(
      "aten.new_empty_strided",
      "aten.empty_strided",
      OpKind::Empty,
      {"(f32[3], [8, 4], [4, 1])", "(f32[3], [8, 4], [1, 8])"}));
  ops.back().localize = localize_strides(1);

  for (std::string_view name : {"aten.zeros_like", "aten.ones_like"}) {
    ops.push_back(made_like(
        name,
        OpKind::Compute,
        {"(f32[8, 4])",
         "(f32[8, 4]{1, 8})",
         "(f32[8, 4]{1, 8}, memory_format=contiguous)",
         "(f32[8, 4], dtype=i64)"}));
  }
  ops.push_back(
      made_like("aten.full_like", OpKind::Compute, {"(f32[8, 4]{1, 8}, 0.5)"}));
  ops.push_back(made_like("aten.zero", OpKind::Compute, {"(f32[8, 4])"}));
  ops.push_back(made_like(
      "aten.empty_like",
      OpKind::Empty,
      {"(f32[8, 4])", "(f32[8, 4]{1, 8}, dtype=i64)"}));

  // A piece of these is not one of their kind.
  ops.push_back({.name = "aten.eye", .examples = {"(8)"}});
  ops.push_back({.name = "aten.eye.m", .examples = {"(8, 4)"}});
  add_ops(
      ops,
      {"aten.tril_indices", "aten.triu_indices"},
      {.types = triangle_types,
       .examples = {"(8, 4)", "(4, 8, 2)", "(8, 8, -3, dtype=i32)"}});
  add_ops(
      ops,
      {"aten.hann_window",
       "aten.hamming_window",
       "aten.blackman_window",
       "aten.bartlett_window",
       "aten.kaiser_window"},
      {.examples = {"(8)"}});
}

}  // namespace weft
