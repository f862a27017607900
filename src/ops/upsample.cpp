// SPDX-License-Identifier: Apache-2.0
// Resizing of images. Batch and channels are free. The nearest pixel repeated a
// whole number of times splits over space as well; where pixels are blended,
// space stays whole.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

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

  size_t scale_position() const {
    return 2 + (backward ? 1 : 0) + (nearest ? 0 : 1);
  }
};

Dims spatial_sizes(const Dims& sizes) {
  return {sizes.begin() + 2, sizes.end()};
}

Dims input_sizes(
    const Upsample& up, const Function& function, const Node& node) {
  return up.backward ? dims_arg(node, 2) : type_arg(function, node, 0).sizes;
}

// How often a pixel is repeated along a dim; 0 when it is not a whole number.
int64_t repeats(
    const Upsample& up,
    const Node& node,
    size_t dim,
    int64_t input,
    int64_t output) {
  if (!up.nearest || input == 0 || output % input != 0) {
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
    if (repeats(up, node, d, input[d], output[d]) > 0) {
      small += cat(" s", d, "=", input[d]);
      large += cat(" (s", d, "=", input[d], " r", d, "!)");
    } else {
      small += cat(" s", d, "=", input[d], "!");
      large += cat(" p", d, "!");
    }
  }
  return up.backward ? rule_from_terms({large}, {small}, function, node)
                     : rule_from_terms({small}, {large}, function, node);
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
      const int steps = find_factor(rule, cat("s", d));
      sizes[d] = pieces[static_cast<size_t>(steps)].size *
                 pieces[static_cast<size_t>(repeat)].size;
    }
  }
  set_arg(node, 1, to_arg(sizes));
  if (up.backward) {
    Dims input = {pieces[0].size, pieces[1].size};
    for (size_t d = 0; d < up.spatial; ++d) {
      const int steps = find_factor(rule, cat("s", d));
      input.push_back(pieces[static_cast<size_t>(steps)].size);
    }
    set_arg(node, 2, to_arg(input));
  }
}

// Small row-major planes, and RGB where pixels are blended, are resized as
// channels-last: copies of input and output.
int64_t upsample_scratch(
    const Upsample& up, const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  if (up.spatial != 2 || is_channels_last(input)) {
    return 0;
  }
  const Dims output = dims_arg(node, 1);
  const int64_t channels = input.sizes.at(1);
  const bool small = output.at(0) + output.at(1) <= 128;
  if (channels == 1 || !(small || (channels == 3 && !up.nearest))) {
    return 0;
  }
  const int64_t pixels = output.at(0) * output.at(1) * input.sizes.at(0);
  return dense_bytes(input) + channels * pixels * element_bytes(input.dtype);
}

struct UpsampleEntry {
  std::string_view name;
  std::string_view backward;
  size_t spatial;
  bool nearest;
  int64_t operations;
  bool copies;
  std::vector<std::string_view> examples;
  std::vector<std::string_view> backward_examples;
};

void add_upsample(OpTable& ops, UpsampleEntry entry) {
  for (const bool backward : {false, true}) {
    const Upsample up = {entry.spatial, entry.nearest, backward};
    OpDef def;
    def.name = backward ? entry.backward : entry.name;
    def.rule_of = [up](const Function& function, const Node& node) {
      return upsample_rule(up, function, node);
    };
    def.linear = Linear::All;
    def.flops = per_element(entry.operations);
    def.localize = [up](
                       const Function& function,
                       Node& node,
                       const std::vector<Piece>& pieces) {
      localize_upsample(up, function, node, pieces);
    };
    def.examples =
        std::move(backward ? entry.backward_examples : entry.examples);
    def.backward = backward ? "" : entry.backward;
    if (entry.copies && !backward) {
      def.scratch_bytes = [up](const Function& function, const Node& node) {
        return upsample_scratch(up, function, node);
      };
    }
    ops.push_back(std::move(def));
  }
}

}  // namespace

void add_upsample_ops(OpTable& ops) {
  for (const auto& [name, backward] :
       {std::pair{
            "aten.upsample_nearest1d", "aten.upsample_nearest1d_backward"},
        std::pair{
            "aten._upsample_nearest_exact1d",
            "aten._upsample_nearest_exact1d_backward"}}) {
    add_upsample(
        ops,
        {name,
         backward,
         1,
         true,
         1,
         false,
         {"(f32[4, 8, 8], [16])", "(f32[4, 8, 8], [12])"},
         {"(f32[4, 8, 16], [16], [4, 8, 8])"}});
  }
  for (const auto& [name, backward] :
       {std::pair{
            "aten.upsample_nearest2d", "aten.upsample_nearest2d_backward"},
        std::pair{
            "aten._upsample_nearest_exact2d",
            "aten._upsample_nearest_exact2d_backward"}}) {
    add_upsample(
        ops,
        {name,
         backward,
         2,
         true,
         1,
         true,
         {"(f32[4, 8, 4, 4], [8, 12])",
          "(f32[4, 8, 4, 4], [8, 8], 2.0, 2.0)",
          "(f32[4, 8, 4, 4], [7, 8])"},
         {"(f32[4, 8, 8, 12], [8, 12], [4, 8, 4, 4])"}});
  }
  for (const auto& [name, backward] :
       {std::pair{
            "aten.upsample_nearest3d", "aten.upsample_nearest3d_backward"},
        std::pair{
            "aten._upsample_nearest_exact3d",
            "aten._upsample_nearest_exact3d_backward"}}) {
    add_upsample(
        ops,
        {name,
         backward,
         3,
         true,
         1,
         false,
         {"(f32[2, 4, 4, 4, 4], [8, 8, 8])"},
         {"(f32[2, 4, 8, 8, 8], [8, 8, 8], [2, 4, 4, 4, 4])"}});
  }
  add_upsample(
      ops,
      {"aten.upsample_linear1d",
       "aten.upsample_linear1d_backward",
       1,
       false,
       4,
       false,
       {"(f32[4, 8, 8], [16], false)"},
       {"(f32[4, 8, 16], [16], [4, 8, 8], false)"}});
  for (const auto& [name, backward, operations] :
       {std::tuple{
            "aten.upsample_bilinear2d",
            "aten.upsample_bilinear2d_backward",
            int64_t{8}},
        std::tuple{
            "aten._upsample_bilinear2d_aa",
            "aten._upsample_bilinear2d_aa_backward",
            int64_t{16}},
        std::tuple{
            "aten.upsample_bicubic2d",
            "aten.upsample_bicubic2d_backward",
            int64_t{32}},
        std::tuple{
            "aten._upsample_bicubic2d_aa",
            "aten._upsample_bicubic2d_aa_backward",
            int64_t{64}}}) {
    add_upsample(
        ops,
        {name,
         backward,
         2,
         false,
         operations,
         std::string_view(name) == "aten.upsample_bilinear2d",
         {"(f32[4, 8, 4, 4], [8, 12], false)",
          "(f32[4, 8, 4, 4], [8, 8], true)"},
         {"(f32[4, 8, 8, 12], [8, 12], [4, 8, 4, 4], false)"}});
  }
  add_upsample(
      ops,
      {"aten.upsample_trilinear3d",
       "aten.upsample_trilinear3d_backward",
       3,
       false,
       16,
       false,
       {"(f32[2, 4, 4, 4, 4], [8, 8, 8], false)"},
       {"(f32[2, 4, 8, 8, 8], [8, 8, 8], [2, 4, 4, 4, 4], false)"}});
}

}  // namespace weft
