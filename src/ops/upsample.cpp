// SPDX-License-Identifier: Apache-2.0
// Resizing of images. Batch and channels are free, and so is space where a
// pixel becomes a whole number of pixels. Where these are blended of
// neighbours, a piece takes its border from the pieces beside it, which is
// resized too: what comes of the border is cut off, and in backward given as
// zeros. With corners aligned no pixel stands for so many, and space stays
// whole; so it does with anti-aliasing, which is for smaller images.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/node_builder.h"
#include "ops/split.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft {

namespace {

// One way to resize, in one number of dims.
struct Upsample {
  size_t spatial;
  bool nearest;
  // Forward (input, output_size, ...), backward (grad, output_size,
  // input_size, ...); then align_corners unless nearest, then one scale a dim.
  bool backward;
  bool row_major_gradient;
  // Pixels that make one, along a dim.
  int64_t taps;
  bool antialias;

  size_t corners_position() const { return backward ? 3 : 2; }
  size_t scale_position() const {
    return corners_position() + (nearest ? 0 : 1);
  }
  // Pixels on each side of one that are blended into those that it becomes.
  int64_t reach() const { return nearest ? 0 : taps / 2; }
};

Dims spatial_sizes(const Dims& sizes) {
  return {sizes.begin() + 2, sizes.end()};
}

Dims input_sizes(
    const Upsample& up, const Function& function, const Node& node) {
  return up.backward ? dims_arg(node, 2) : type_arg(function, node, 0).sizes;
}

// How many pixels one becomes along a dim; 0 when it is not a whole number.
int64_t repeats(
    const Upsample& up,
    const Node& node,
    size_t dim,
    int64_t input,
    int64_t output) {
  const bool aligned =
      !up.nearest && bool_arg(node, up.corners_position(), false);
  if (aligned || up.antialias || input == 0 || output % input != 0) {
    return 0;
  }
  const int64_t ratio = output / input;
  const double scale =
      number_arg(node, up.scale_position() + dim, static_cast<double>(ratio));
  return scale == static_cast<double>(ratio) ? ratio : 0;
}

Rule upsample_rule(
    const Upsample& up, const Function& function, const Node& node) {
  const Dims input = spatial_sizes(input_sizes(up, function, node));
  const Dims output = dims_arg(node, 1);
  std::string small = "n c";
  std::string large = "n c";
  for (size_t d = 0; d < up.spatial; ++d) {
    const int64_t ratio = repeats(up, node, d, input[d], output[d]);
    if (ratio > 0) {
      // One that becomes one takes nothing from its neighbours.
      const bool is_blended = up.reach() > 0 && ratio > 1;
      small += cat(" s", d, "=", input[d], is_blended ? "~" : "");
      large += cat(" (s", d, "=", input[d], " r", d, "!)");
    } else {
      small += cat(" s", d, "=", input[d], "!");
      large += cat(" p", d, "!");
    }
  }
  Rule rule = up.backward ? rule_from_terms({large}, {small}, function, node)
                          : rule_from_terms({small}, {large}, function, node);
  for (Factor& factor : rule.factors) {
    if (factor.kind == FactorKind::Halo) {
      factor.window = {
          .before = up.reach(), .after = up.reach(), .inside = true};
    }
  }
  return rule;
}

// The pixels of the smaller image along a dim that a piece of it touches.
Piece touched_pixels(
    const Rule& rule, const std::vector<Piece>& pieces, size_t dim) {
  const auto steps = static_cast<size_t>(find_factor(rule, cat("s", dim)));
  const Factor& factor = rule.factors[steps];
  return touched(factor.window, pieces[steps], factor.size);
}

// The sizes named in the arguments are those of the pieces.
void localize_upsample(
    const Upsample& up,
    const Function& function,
    Node& node,
    const std::vector<Piece>& pieces) {
  const Rule rule = upsample_rule(up, function, node);
  Dims sizes = dims_arg(node, 1);
  for (size_t d = 0; d < up.spatial; ++d) {
    const int repeat = find_factor(rule, cat("r", d));
    if (repeat >= 0) {
      sizes[d] = touched_pixels(rule, pieces, d).size *
                 pieces[static_cast<size_t>(repeat)].size;
    }
  }
  set_arg(node, 1, to_arg(sizes));
  if (up.backward) {
    Dims input = {pieces[0].size, pieces[1].size};
    for (size_t d = 0; d < up.spatial; ++d) {
      input.push_back(touched_pixels(rule, pieces, d).size);
    }
    set_arg(node, 2, to_arg(input));
  }
}

// Of the input's format; the gradients of bicubic and of the nearest voxel are
// always row-major.
std::vector<TensorType> upsample_types(
    const Upsample& up, const Function& function, const Node& node) {
  const TensorType& operand = type_arg(function, node, 0);
  if (up.backward) {
    Dims sizes = dims_arg(node, 2);
    return {
        up.row_major_gradient
            ? make_type(operand.dtype, std::move(sizes))
            : in_format_of(operand, operand.dtype, std::move(sizes))};
  }
  Dims sizes = dims_arg(node, 1);
  sizes.insert(sizes.begin(), operand.sizes.begin(), operand.sizes.begin() + 2);
  return {in_format_of(operand, operand.dtype, std::move(sizes))};
}

// What the border of a piece becomes along a dim of the larger image.
struct Frame {
  int64_t before = 0;
  int64_t inside = 0;
  int64_t behind = 0;
};

Frame frame_of(const Rule& rule, const std::vector<Piece>& pieces, size_t dim) {
  const int repeat = find_factor(rule, cat("r", dim));
  if (repeat < 0) {
    return {};
  }
  const Piece range = touched_pixels(rule, pieces, dim);
  const Piece& own =
      pieces[static_cast<size_t>(find_factor(rule, cat("s", dim)))];
  const int64_t ratio = pieces[static_cast<size_t>(repeat)].size;
  return {
      .before = (own.start - range.start) * ratio,
      .inside = own.size * ratio,
      .behind = (range.start + range.size - own.start - own.size) * ratio};
}

// The larger image with its border, cut off.
std::vector<ValueId> append_framed(
    const Upsample& up,
    NodeBuilder& builder,
    Node local,
    const Rule& rule,
    const std::vector<Piece>& pieces) {
  const std::vector<TensorType> types =
      upsample_types(up, builder.function(), local);
  ValueId image = builder.call(std::move(local), types).front();
  for (size_t d = 0; d < up.spatial; ++d) {
    const Frame frame = frame_of(rule, pieces, d);
    if (frame.before + frame.behind > 0) {
      image = builder.call(
          "aten.slice.Tensor",
          {{image},
           {static_cast<int64_t>(d + 2)},
           {frame.before},
           {frame.before + frame.inside}});
    }
  }
  return {image};
}

// Its gradient, with zeros for the border.
std::vector<ValueId> append_framed_backward(
    const Upsample& up,
    NodeBuilder& builder,
    Node local,
    const Rule& rule,
    const std::vector<Piece>& pieces) {
  const ValueId own = value_arg(local, 0);
  TensorType type = builder.type(own);
  // For the last dim first.
  Dims pad;
  for (size_t d = up.spatial; d-- > 0;) {
    const Frame frame = frame_of(rule, pieces, d);
    pad.push_back(frame.before);
    pad.push_back(frame.behind);
    type.sizes[d + 2] += frame.before + frame.behind;
  }
  Node padding;
  padding.op = "aten.constant_pad_nd";
  padding.args = {{own}, to_arg(pad), {0.0}};
  const ValueId framed =
      builder
          .call(
              std::move(padding),
              {in_format_of(builder.type(own), type.dtype, type.sizes)})
          .front();
  set_arg(local, 0, {framed});
  const std::vector<TensorType> types =
      upsample_types(up, builder.function(), local);
  return builder.call(std::move(local), types);
}

// An index and a weight a tap, for every place along every dim.
int64_t tap_bytes(const Upsample& up, const Node& node, DType dtype) {
  int64_t places = 0;
  for (const int64_t size : dims_arg(node, 1)) {
    places += size;
  }
  return places * up.taps * (8 + element_bytes(dtype));
}

// Small row-major planes, and RGB where pixels are blended, are resized as
// channels-last: copies of input and output.
bool resizes_copies(
    const Upsample& up, const TensorType& input, const Dims& output) {
  const int64_t channels = input.sizes.at(1);
  const bool small = output.at(0) + output.at(1) <= 128;
  return small || (channels == 3 && !up.nearest);
}

int64_t upsample_scratch(
    const Upsample& up, const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const bool blends_many = up.taps > 2;
  if (is_channels_last(input) && !blends_many) {
    return 0;
  }
  const Dims output = dims_arg(node, 1);
  if (up.spatial != 2 || blends_many || !resizes_copies(up, input, output)) {
    return tap_bytes(up, node, input.dtype);
  }
  if (input.sizes.at(1) == 1) {
    return 0;
  }
  const int64_t planes = input.sizes.at(0) * input.sizes.at(1);
  return dense_bytes(input) +
         planes * output.at(0) * output.at(1) * element_bytes(input.dtype);
}

// With anti-aliasing: the image after its rows were resized, and for every
// place four numbers and its weights.
int64_t antialias_scratch(
    const Upsample& up, const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const int64_t width = dims_arg(node, 1).at(1);
  const double shrink = std::max(
      1.0, static_cast<double>(input.sizes.at(3)) / static_cast<double>(width));
  const auto reach = static_cast<int64_t>(
      std::ceil(static_cast<double>(up.taps) / 2 * shrink));
  const int64_t element = element_bytes(input.dtype);
  const int64_t rows =
      input.sizes.at(0) * input.sizes.at(1) * input.sizes.at(2) * width;
  return rows * element + width * (32 + (2 * reach + 1) * element);
}

struct UpsampleMode {
  std::string_view name;
  std::string_view backward;
  size_t spatial;
  bool nearest;
  // An element of the larger tensor.
  int64_t operations;
  // Pixels that make one, along a dim.
  int64_t taps = 1;
  bool row_major_gradient = false;
  bool antialias = false;
};

// Backward names the sizes of the input.
std::vector<std::string_view> examples_of(
    const UpsampleMode& mode, bool backward) {
  switch (mode.spatial) {
    case 1:
      if (mode.nearest) {
        return backward
                   ? std::vector<
                         std::string_view>{"(f32[4, 8, 16], [16], [4, 8, 8])"}
                   : std::vector<std::string_view>{
                         "(f32[4, 8, 8], [16])", "(f32[4, 8, 8], [12])"};
      }
      return {
          backward ? "(f32[4, 8, 16], [16], [4, 8, 8], false)"
                   : "(f32[4, 8, 8], [16], false)"};
    case 2:
      if (mode.nearest) {
        return backward ? std::vector<std::string_view>{
                              "(f32[4, 8, 8, 12], [8, 12], [4, 8, 4, 4])"}
                        : std::vector<std::string_view>{
                              "(f32[4, 8, 4, 4], [8, 12])",
                              "(f32[4, 8, 4, 4], [8, 8], 2.0, 2.0)",
                              "(f32[4, 8, 4, 4], [7, 8])"};
      }
      return backward ? std::vector<std::string_view>{
                            "(f32[4, 8, 8, 12], [8, 12], [4, 8, 4, 4], false)",
                            "(f32[4, 8, 8, 12], [8, 12], [4, 8, 4, 4], true)"}
                      : std::vector<std::string_view>{
                            "(f32[4, 8, 4, 4], [8, 12], false)",
                            "(f32[4, 8, 8, 4], [16, 8], false, 2.0, 2.0)",
                            "(f32[4, 8, 4, 4], [8, 4], false)",
                            "(f32[4, 8, 4, 4], [8, 12], true)"};
    default:
      if (mode.nearest) {
        return {
            backward ? "(f32[2, 4, 8, 8, 8], [8, 8, 8], [2, 4, 4, 4, 4])"
                     : "(f32[2, 4, 4, 4, 4], [8, 8, 8])"};
      }
      return {
          backward ? "(f32[2, 4, 8, 8, 8], [8, 8, 8], [2, 4, 4, 4, 4], false)"
                   : "(f32[2, 4, 4, 4, 4], [8, 8, 8], false)"};
  }
}

OpDef upsample_op(const UpsampleMode& mode, bool backward) {
  const Upsample up = {
      mode.spatial,
      mode.nearest,
      backward,
      mode.row_major_gradient,
      mode.taps,
      mode.antialias};
  OpDef def;
  def.name = backward ? mode.backward : mode.name;
  def.rule_of = [up](const Function& function, const Node& node) {
    return upsample_rule(up, function, node);
  };
  def.linear = Linear::All;
  def.flops = per_element(mode.operations);
  def.types = [up](const Function& function, const Node& node) {
    return upsample_types(up, function, node);
  };
  def.localize = [up](
                     const Function& function,
                     Node& node,
                     const std::vector<Piece>& pieces) {
    localize_upsample(up, function, node, pieces);
  };
  if (!mode.nearest && !mode.antialias) {
    const auto append = backward ? append_framed_backward : append_framed;
    def.framed = [up, append](
                     NodeBuilder& builder,
                     Node local,
                     const Rule& rule,
                     const std::vector<Piece>& pieces) {
      return append(up, builder, std::move(local), rule, pieces);
    };
  }
  def.backward = backward ? "" : mode.backward;
  def.examples = examples_of(mode, backward);
  if (!backward) {
    const auto scratch = mode.antialias ? antialias_scratch : upsample_scratch;
    def.scratch_bytes = [=](const Function& function, const Node& node) {
      return scratch(up, function, node);
    };
  }
  return def;
}

constexpr UpsampleMode kModes[] = {
    {.name = "aten.upsample_nearest1d",
     .backward = "aten.upsample_nearest1d_backward",
     .spatial = 1,
     .nearest = true,
     .operations = 1},
    {.name = "aten._upsample_nearest_exact1d",
     .backward = "aten._upsample_nearest_exact1d_backward",
     .spatial = 1,
     .nearest = true,
     .operations = 1},
    {.name = "aten.upsample_nearest2d",
     .backward = "aten.upsample_nearest2d_backward",
     .spatial = 2,
     .nearest = true,
     .operations = 1},
    {.name = "aten._upsample_nearest_exact2d",
     .backward = "aten._upsample_nearest_exact2d_backward",
     .spatial = 2,
     .nearest = true,
     .operations = 1},
    {.name = "aten.upsample_nearest3d",
     .backward = "aten.upsample_nearest3d_backward",
     .spatial = 3,
     .nearest = true,
     .operations = 1,
     .row_major_gradient = true},
    {.name = "aten._upsample_nearest_exact3d",
     .backward = "aten._upsample_nearest_exact3d_backward",
     .spatial = 3,
     .nearest = true,
     .operations = 1,
     .row_major_gradient = true},
    {.name = "aten.upsample_linear1d",
     .backward = "aten.upsample_linear1d_backward",
     .spatial = 1,
     .nearest = false,
     .operations = 4,
     .taps = 2},
    {.name = "aten.upsample_bilinear2d",
     .backward = "aten.upsample_bilinear2d_backward",
     .spatial = 2,
     .nearest = false,
     .operations = 8,
     .taps = 2},
    {.name = "aten._upsample_bilinear2d_aa",
     .backward = "aten._upsample_bilinear2d_aa_backward",
     .spatial = 2,
     .nearest = false,
     .operations = 16,
     .taps = 2,
     .antialias = true},
    {.name = "aten.upsample_bicubic2d",
     .backward = "aten.upsample_bicubic2d_backward",
     .spatial = 2,
     .nearest = false,
     .operations = 32,
     .taps = 4,
     .row_major_gradient = true},
    {.name = "aten._upsample_bicubic2d_aa",
     .backward = "aten._upsample_bicubic2d_aa_backward",
     .spatial = 2,
     .nearest = false,
     .operations = 64,
     .taps = 4,
     .antialias = true},
    {.name = "aten.upsample_trilinear3d",
     .backward = "aten.upsample_trilinear3d_backward",
     .spatial = 3,
     .nearest = false,
     .operations = 16,
     .taps = 2}};

}  // namespace

void add_upsample_ops(OpTable& ops) {
  for (const UpsampleMode& mode : kModes) {
    ops.push_back(upsample_op(mode, false));
    ops.push_back(upsample_op(mode, true));
  }
}

}  // namespace weft
