// SPDX-License-Identifier: Apache-2.0
// Pooling. Batch and channels are free, and space is with the neighbours'
// borders. The indices of maxima count the whole plane.
#include "base/error.h"
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <limits>
#include <optional>
#include <utility>

namespace weft {

namespace {

// A sliding window: kernel_size, stride and padding stand one after the other.
struct PoolWindow {
  size_t kernel_position;
  const Node* node;

  int64_t kernel(size_t d) const {
    return dim_at(*node, kernel_position, d, 1);
  }
  // Defaults to the kernel's size.
  int64_t stride(size_t d) const {
    const int64_t step = dim_at(*node, kernel_position + 1, d, kernel(d));
    WEFT_CHECK(step > 0, "a stride is ", step);
    return step;
  }
  int64_t padding(size_t d) const {
    return dim_at(*node, kernel_position + 2, d, 0);
  }
};

// Who splits a dim pads it.
void localize_padding(
    const Rule& rule,
    size_t spatial,
    size_t kernel_position,
    Node& node,
    const std::vector<Piece>& pieces) {
  if (rule.halos.empty()) {
    return;
  }
  const Node whole = node;
  const PoolWindow window = {kernel_position, &whole};
  Dims stride;
  Dims padding;
  for (size_t d = 0; d < spatial; ++d) {
    const Piece& steps =
        pieces[static_cast<size_t>(find_factor(rule, cat("s", d)))];
    stride.push_back(window.stride(d));
    padding.push_back(steps.size == steps.whole ? window.padding(d) : 0);
  }
  set_arg(node, kernel_position + 1, to_arg(stride));
  set_arg(node, kernel_position + 2, to_arg(padding));
}

void set_windows(
    const PoolWindow& window,
    size_t spatial,
    const Dims& dilation,
    double fill,
    Rule& rule) {
  if (rule.halos.empty()) {
    return;
  }
  for (size_t d = 0; d < spatial; ++d) {
    const int factor = find_factor(rule, cat("s", d));
    rule.factors[static_cast<size_t>(factor)].window = {
        .stride = window.stride(d),
        .before = window.padding(d),
        .after = dilation[d] * (window.kernel(d) - 1) - window.padding(d),
        .fill = fill};
  }
}

// --- Maxima with indices.

// (input, kernel_size, stride, padding, dilation, ceil_mode)
//   -> (output, indices)
// (grad, input, kernel_size, ..., ceil_mode, indices) -> gradient
struct MaxPool {
  size_t spatial;
  bool backward;

  size_t kernel_position() const { return backward ? 2 : 1; }
  size_t input_position() const { return backward ? 1 : 0; }

  Dims dilation(const Node& node) const {
    Dims out;
    for (size_t d = 0; d < spatial; ++d) {
      out.push_back(dim_at(node, kernel_position() + 3, d, 1));
    }
    return out;
  }

  Rule rule(const Function& function, const Node& node) const {
    const std::string lead =
        plane(type_arg(function, node, input_position()), spatial);
    const std::string input = cat(lead, " ", numbered(spatial, "s", "~"));
    const std::string output = cat(lead, " ", numbered(spatial, "s", ""));
    Rule rule =
        backward
            ? rule_from_terms({output, input, output}, {input}, function, node)
            : rule_from_terms({input}, {output, output}, function, node);
    set_windows(
        {kernel_position(), &node},
        spatial,
        dilation(node),
        -std::numeric_limits<double>::infinity(),
        rule);
    return rule;
  }

  OpDef entry(std::string_view name) const {
    return {
        .name = name,
        .rule_of = [*this](
                       const Function& function,
                       const Node& node) { return rule(function, node); },
        .linear = backward ? Linear::First : Linear::No,
        .localize =
            [*this](
                const Function& function,
                Node& node,
                const std::vector<Piece>& pieces) {
              localize_padding(
                  rule(function, node),
                  spatial,
                  kernel_position(),
                  node,
                  pieces);
            },
        .plane_index =
            PlaneIndex{.in_result = !backward, .tensor = backward ? 2 : 1},
        .input_gradient = backward ? std::optional(InputGradient{.operand = 1})
                                   : std::nullopt,
    };
  }
};

// The last window must start inside the input or its left border.
Dims pooled_sizes(
    const PoolWindow& window,
    size_t spatial,
    const Dims& input,
    const Dims& dilation,
    bool ceil_mode) {
  Dims sizes = input;
  const size_t lead = sizes.size() - spatial;
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t reach = dilation.at(d) * (window.kernel(d) - 1) + 1;
    const int64_t stride = window.stride(d);
    const int64_t padding = window.padding(d);
    const int64_t size = input[lead + d];
    const int64_t room = size + 2 * padding - reach;
    int64_t steps = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (ceil_mode && (steps - 1) * stride >= size + padding) {
      --steps;
    }
    sizes[lead + d] = steps;
  }
  return sizes;
}

// (input, kernel_size, stride, padding, dilation, ceil_mode)
TypesFunction max_pool_types(size_t spatial) {
  return [spatial](const Function& function, const Node& node) {
    const TensorType& input = type_arg(function, node, 0);
    const Dims dilation =
        MaxPool{.spatial = spatial, .backward = false}.dilation(node);
    const Dims sizes = pooled_sizes(
        {1, &node}, spatial, input.sizes, dilation, bool_arg(node, 5, false));
    return std::vector{
        in_format_of(input, input.dtype, sizes),
        in_format_of(input, DType::I64, sizes)};
  };
}

std::vector<TensorType> input_gradient_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  return {in_format_of(input, input.dtype, input.sizes)};
}

// A copy of what is neither row-major nor channels-last.
int64_t pool_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  return is_channels_last(input) ? 0 : copy_bytes(input);
}

// The same where the kernel knows row-major only.
int64_t volume_scratch(const Function& function, const Node& node) {
  return copy_bytes(type_arg(function, node, 0));
}

// --- Averages over a sliding window.

// Whether every window has the same divisor, wherever it lies.
bool divides_evenly(
    const PoolWindow& window,
    size_t spatial,
    bool ceil_mode,
    bool count_include_pad) {
  bool padded = false;
  for (size_t d = 0; d < spatial; ++d) {
    padded = padded || window.padding(d) != 0;
  }
  return !ceil_mode && (count_include_pad || !padded);
}

struct AverageTerms {
  std::string input;
  std::string output;
};

AverageTerms average_terms(
    const std::string& lead, size_t spatial, bool splits) {
  return {
      cat(lead, " ", numbered(spatial, splits ? "s" : "p", splits ? "~" : "!")),
      cat(lead, " ", numbered(spatial, "s", splits ? "" : "!"))};
}

// (input, kernel_size, stride, padding, ceil_mode, count_include_pad,
//  divisor_override)
Rule average_rule(size_t spatial, const Function& function, const Node& node) {
  const PoolWindow window = {1, &node};
  const bool splits = divides_evenly(
      window, spatial, bool_arg(node, 4, false), bool_arg(node, 5, true));
  const AverageTerms t = average_terms(
      plane(type_arg(function, node, 0), spatial), spatial, splits);
  Rule rule = rule_from_terms({t.input}, {t.output}, function, node);
  set_windows(window, spatial, Dims(spatial, 1), 0, rule);
  return rule;
}

// (grad, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
//  divisor_override)
Rule average_backward_rule(
    size_t spatial, const Function& function, const Node& node) {
  const PoolWindow window = {2, &node};
  const bool splits = divides_evenly(
      window, spatial, bool_arg(node, 5, false), bool_arg(node, 6, true));
  const AverageTerms t = average_terms(
      plane(type_arg(function, node, 1), spatial), spatial, splits);
  Rule rule = rule_from_terms({t.output, t.input}, {t.input}, function, node);
  set_windows(window, spatial, Dims(spatial, 1), 0, rule);
  return rule;
}

// The kernel for volumes knows row-major only.
TypesFunction average_types(size_t spatial) {
  return [spatial](const Function& function, const Node& node) {
    const TensorType& input = type_arg(function, node, 0);
    Dims sizes = pooled_sizes(
        {1, &node},
        spatial,
        input.sizes,
        Dims(spatial, 1),
        bool_arg(node, 4, false));
    return std::vector{
        spatial == 2 ? in_format_of(input, input.dtype, std::move(sizes))
                     : make_type(input.dtype, std::move(sizes))};
  };
}

TypesFunction average_backward_types(size_t spatial) {
  return [spatial](const Function& function, const Node& node) {
    const TensorType& input = type_arg(function, node, 1);
    return std::vector{
        spatial == 2 ? in_format_of(input, input.dtype, input.sizes)
                     : make_type(input.dtype, input.sizes)};
  };
}

OpDef average_pool(
    std::string_view name,
    std::string_view backward,
    size_t spatial,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of =
          [=](const Function& function, const Node& node) {
            return average_rule(spatial, function, node);
          },
      .linear = Linear::All,
      .scratch_bytes = spatial == 2 ? pool_scratch : volume_scratch,
      .types = average_types(spatial),
      .localize =
          [=](const Function& function,
              Node& node,
              const std::vector<Piece>& pieces) {
            localize_padding(
                average_rule(spatial, function, node),
                spatial,
                1,
                node,
                pieces);
          },
      .backward = backward,
      .examples = std::move(examples),
  };
}

OpDef average_pool_backward(
    std::string_view name,
    size_t spatial,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of =
          [=](const Function& function, const Node& node) {
            return average_backward_rule(spatial, function, node);
          },
      .linear = Linear::First,
      .types = average_backward_types(spatial),
      .localize =
          [=](const Function& function,
              Node& node,
              const std::vector<Piece>& pieces) {
            localize_padding(
                average_backward_rule(spatial, function, node),
                spatial,
                2,
                node,
                pieces);
          },
      .input_gradient = InputGradient{.operand = 1},
      .examples = std::move(examples),
  };
}

}  // namespace

void add_pooling_ops(OpTable& ops) {
  const auto add_max = [&](std::string_view name,
                           std::string_view backward,
                           size_t spatial,
                           std::vector<std::string_view> examples) {
    OpDef def = MaxPool{.spatial = spatial, .backward = false}.entry(name);
    def.scratch_bytes = pool_scratch;
    def.types = max_pool_types(spatial);
    def.backward = backward;
    def.examples = std::move(examples);
    ops.push_back(std::move(def));
  };
  const auto add_max_backward = [&](std::string_view name,
                                    size_t spatial,
                                    std::vector<std::string_view> examples) {
    OpDef def = MaxPool{.spatial = spatial, .backward = true}.entry(name);
    def.types = input_gradient_types;
    def.examples = std::move(examples);
    ops.push_back(std::move(def));
  };
  add_max(
      "aten.max_pool2d_with_indices",
      "aten.max_pool2d_with_indices_backward",
      2,
      {"(f32[4, 8, 8, 8], [3, 3], [2, 2], [1, 1])",
       "(f32[4, 8, 8], [2, 2])",
       "(f32[4, 8, 16, 16], [3, 3], [1, 1], [1, 1], [2, 2])"});
  add_max_backward(
      "aten.max_pool2d_with_indices_backward",
      2,
      {"(f32[4, 8, 4, 4], f32[4, 8, 8, 8], [3, 3], [2, 2], [1, 1], "
       "[1, 1], false, i64[4, 8, 4, 4]<64)"});
  add_max(
      "aten.max_pool3d_with_indices",
      "aten.max_pool3d_with_indices_backward",
      3,
      {"(f32[4, 4, 4, 8, 8], [2, 2, 2], [2, 2, 2])",
       "(f32[4, 4, 7, 8, 8], [3, 3, 3], [2, 2, 2], [1, 1, 1], "
       "[1, 1, 1], true)"});
  add_max_backward(
      "aten.max_pool3d_with_indices_backward",
      3,
      {"(f32[4, 4, 2, 4, 4], f32[4, 4, 4, 8, 8], [2, 2, 2], [2, 2, 2], "
       "[0, 0, 0], [1, 1, 1], false, i64[4, 4, 2, 4, 4]<256)"});
  ops.push_back(average_pool(
      "aten.avg_pool2d",
      "aten.avg_pool2d_backward",
      2,
      {"(f32[4, 8, 16, 16], [2, 2])",
       "(f32[4, 8, 16, 16], [3, 3], [1, 1], [1, 1])",
       "(f32[4, 8, 16, 16], [3, 3], [2, 2], [1, 1], false, false)"}));
  ops.push_back(average_pool_backward(
      "aten.avg_pool2d_backward",
      2,
      {"(f32[4, 8, 8, 8], f32[4, 8, 16, 16], [2, 2], [2, 2], [0, 0], false, "
       "true, none)",
       "(f32[4, 8, 16, 16], f32[4, 8, 16, 16], [3, 3], [1, 1], [1, 1], "
       "false, true, none)"}));
  ops.push_back(average_pool(
      "aten.avg_pool3d",
      "aten.avg_pool3d_backward",
      3,
      {"(f32[2, 4, 8, 8, 8], [2, 2, 2])"}));
  ops.push_back(average_pool_backward(
      "aten.avg_pool3d_backward",
      3,
      {"(f32[2, 4, 4, 4, 4], f32[2, 4, 8, 8, 8], [2, 2, 2], [2, 2, 2], "
       "[0, 0, 0], false, true, none)"}));
}

}  // namespace weft
