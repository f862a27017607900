// SPDX-License-Identifier: Apache-2.0
// Normalisation over channels: batch and group norm. Statistics of a batch are
// sums over the global batch that a nonlinear function then uses, so a batch
// that trains stays whole.
#include "base/text.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {

namespace {

// "n! c s0! s1!" when the batch trains; "n c s0 s1", with marks of the
// caller's, when running statistics serve.
std::string image_term(
    const TensorType& input, bool training, const char* otherwise = "") {
  const char* mark = training ? "!" : otherwise;
  std::string term = cat("n", mark, " c");
  if (input.sizes.size() > 2) {
    term += cat(" ", numbered(input.sizes.size() - 2, "s", mark));
  }
  return term;
}

bool is_local(const Node& node) {
  return find_option(node, kLocalOption) != nullptr;
}

// "n:any c s0! s1!": each rank has the statistics of its own samples.
std::string local_term(const TensorType& input) {
  std::string term = "n:any c";
  if (input.sizes.size() > 2) {
    term += cat(" ", numbered(input.sizes.size() - 2, "s", "!"));
  }
  return term;
}

// Saved statistics are empty tensors when the batch does not train.
std::string channel_term(
    const Function& function, const Node& node, size_t position) {
  const ValueId id = value_arg(node, position);
  return id != ValueId::None && is_undefined(function[id].type) ? "_" : "c";
}

DType parameter_type(
    const Function& function,
    const Node& node,
    const TensorType& input,
    std::initializer_list<size_t> positions) {
  for (const size_t position : positions) {
    const ValueId id = value_arg(node, position);
    if (id != ValueId::None && function[id].type.dtype == DType::F32) {
      return accumulate_type(input.dtype);
    }
  }
  return input.dtype;
}

// The kernel takes what is row-major, too, for row-major.
bool lies_in_rows(const TensorType& image) {
  return is_channels_last(image) && !is_row_major(image);
}

// One entry serves the variants of batch norm, which differ in where `training`
// stands (after two or four tensors) and in what they return.
struct BatchNorm {
  size_t training_position;
  bool returns_running_statistics;

  bool training(const Node& node) const {
    return bool_arg(node, training_position, false);
  }

  Rule rule(const Function& function, const Node& node) const {
    // Running statistics that do not change are equal on all pieces: their
    // maximum is any of them.
    const char* equal = returns_running_statistics ? ":max" : "";
    const TensorType& input = type_arg(function, node, 0);
    const std::string image = is_local(node)
                                  ? local_term(input)
                                  : image_term(input, training(node), equal);
    std::vector<std::string> operands(training_position, "c");
    operands[0] = image;
    const std::string saved = training(node) ? "c" : "_";
    std::vector<std::string> results = {image, saved, saved};
    if (returns_running_statistics) {
      results.resize(5, "c");
    }
    return rule_from_terms(operands, results, function, node);
  }

  std::vector<TensorType> types(
      const Function& function, const Node& node) const {
    const TensorType& input = type_arg(function, node, 0);
    const DType saved = parameter_type(function, node, input, {1, 2});
    const int64_t channels = training(node) ? input.sizes.at(1) : 0;
    std::vector<TensorType> types = {
        in_contiguous_format_of(input),
        make_type(saved, {channels}),
        make_type(saved, {channels})};
    if (returns_running_statistics) {
      types.push_back(type_arg(function, node, 3));
      types.push_back(type_arg(function, node, 4));
    }
    return types;
  }

  // Scale and shift a channel, in the type that the kernel adds up in; the
  // channels-last kernel also keeps a row of sums a thread.
  int64_t scratch(const Function& function, const Node& node) const {
    const TensorType& input = type_arg(function, node, 0);
    const bool rows = training(node) && lies_in_rows(input);
    return int64_t{rows ? 12 : 8} * input.sizes.at(1);
  }
};

OpDef batch_norm(
    std::string_view name,
    BatchNorm variant,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = [variant](
                     const Function& function,
                     const Node& node) { return variant.rule(function, node); },
      .flops = per_element(7),
      .scratch_bytes =
          [variant](const Function& function, const Node& node) {
            return variant.scratch(function, node);
          },
      .types = [variant](
                   const Function& function,
                   const Node& node) { return variant.types(function, node); },
      .batch_norm =
          BatchNormKind{static_cast<int>(variant.training_position), false},
      .backward = "aten.native_batch_norm_backward",
      .examples = std::move(examples),
  };
}

// (grad, input, weight, running_mean, running_var, save_mean, save_invstd,
//  train, eps, output_mask) -> (input's, weight's, bias's gradient)
Rule batch_norm_backward_rule(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  const std::string image = is_local(node)
                                ? cat("n", local_term(input).substr(5))
                                : image_term(input, bool_arg(node, 7, false));
  std::vector<std::string> operands = {image, image};
  for (size_t position = 2; position < 7; ++position) {
    operands.push_back(channel_term(function, node, position));
  }
  return rule_from_terms(operands, {image, "c", "c"}, function, node);
}

std::vector<TensorType> batch_norm_backward_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  const DType parameter = parameter_type(function, node, input, {2});
  std::vector<TensorType> types(3, undefined_type());
  if (flag_at(node, 9, 0)) {
    types[0] = in_contiguous_format_of(input);
  }
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (flag_at(node, 9, i)) {
      types[i] = make_type(parameter, {input.sizes.at(1)});
    }
  }
  return types;
}

// Where all lie alike, the kernel makes a second tensor of the input's size.
int64_t batch_norm_backward_scratch(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  const bool alike =
      lies_in_rows(input) == lies_in_rows(type_arg(function, node, 0));
  return flag_at(node, 9, 0) && alike ? dense_bytes(input) : 0;
}

// Channels are groups of channels that are normalized together.
std::string group_term(const TensorType& input) {
  std::string term = "n (g k!)";
  if (input.sizes.size() > 2) {
    term += cat(" ", numbered(input.sizes.size() - 2, "s", "!"));
  }
  return term;
}

std::string group_count(const Node& node, size_t position) {
  return cat("(g=", int_arg(node, position, 1), " k)");
}

// (input, weight, bias, N, C, HxW, group, eps) -> (output, mean, rstd)
Rule group_norm_rule(const Function& function, const Node& node) {
  const std::string image = group_term(type_arg(function, node, 0));
  const std::string weight = group_count(node, 6);
  return rule_from_terms(
      {image, weight, weight},
      {image, cat("n g=", int_arg(node, 6, 1)), "n g"},
      function,
      node);
}

// Pieces are those of n, g, k.
void localize_group_norm(
    Node& node, size_t batch_position, const std::vector<Piece>& pieces) {
  set_arg(node, batch_position, {pieces[0].size});
  set_arg(node, batch_position + 1, {pieces[1].size * pieces[2].size});
  set_arg(node, batch_position + 3, {pieces[1].size});
}

std::vector<TensorType> group_norm_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const TensorType statistics = make_type(
      parameter_type(function, node, input, {1, 2}),
      {int_arg(node, 3, 0), int_arg(node, 6, 1)});
  return {in_contiguous_format_of(input), statistics, statistics};
}

// The channels-last kernel keeps a sum and a sum of squares a channel.
int64_t group_norm_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  if (is_channels_last(input)) {
    return int64_t{8} * int_arg(node, 3, 0) * int_arg(node, 4, 0);
  }
  return copy_bytes(input);
}

// (grad, input, mean, rstd, weight, N, C, HxW, group, output_mask)
//   -> (input's, weight's, bias's gradient)
Rule group_norm_backward_rule(const Function& function, const Node& node) {
  const std::string image = group_term(type_arg(function, node, 1));
  const std::string weight = group_count(node, 8);
  return rule_from_terms(
      {image, image, "n g", "n g", weight},
      {image, weight, weight},
      function,
      node);
}

std::vector<TensorType> group_norm_backward_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  std::vector<TensorType> types(3, undefined_type());
  if (flag_at(node, 9, 0)) {
    types[0] = in_contiguous_format_of(input);
  }
  const DType parameter = parameter_type(function, node, input, {4});
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (flag_at(node, 9, i)) {
      types[i] = make_type(parameter, {int_arg(node, 6, 0)});
    }
  }
  return types;
}

// Two sums for every sample and channel, in f32.
int64_t group_norm_backward_scratch(
    const Function& function, const Node& node) {
  const int64_t sums = int64_t{8} * int_arg(node, 5, 0) * int_arg(node, 6, 0);
  const TensorType& input = type_arg(function, node, 1);
  const TensorType& gradient = type_arg(function, node, 0);
  return is_channels_last(input)
             ? sums
             : sums + copy_bytes(input) + copy_bytes(gradient);
}

}  // namespace

void add_batch_norm_ops(OpTable& ops) {
  ops.push_back(batch_norm(
      "aten.native_batch_norm",
      {.training_position = 5, .returns_running_statistics = false},
      {"(f32[4, 8, 4, 4], f32[8], f32[8], f32[8], f32[8], true, 0.1, 1e-05)",
       "(f32[4, 8, 4, 4], f32[8], f32[8], f32[8], f32[8], false, 0.1, "
       "1e-05)"}));
  ops.push_back(batch_norm(
      "aten._native_batch_norm_legit_functional",
      {.training_position = 5, .returns_running_statistics = true},
      {"(f32[4, 8, 4, 4], f32[8], f32[8], f32[8], f32[8], true, 0.1, 1e-05)",
       "(f32[4, 8, 4], none, none, f32[8], f32[8], false, 0.1, 1e-05)"}));
  ops.push_back(batch_norm(
      "aten._native_batch_norm_legit.no_stats",
      {.training_position = 3, .returns_running_statistics = false},
      {"(f32[4, 8, 4, 4], f32[8], f32[8], true, 0.1, 1e-05)"}));
  ops.push_back({
      .name = "aten.native_batch_norm_backward",
      .rule_of = batch_norm_backward_rule,
      .linear = Linear::First,
      .flops = per_element(11),
      .scratch_bytes = batch_norm_backward_scratch,
      .types = batch_norm_backward_types,
      .batch_norm = BatchNormKind{7, true},
      .examples =
          {"(f32[4, 8, 4, 4], f32[4, 8, 4, 4], f32[8], f32[8], f32[8], f32[8], "
           "f32[8], true, 1e-05, [true, true, true])",
           "(f32[4, 8, 4, 4], f32[4, 8, 4, 4], f32[8], f32[8], f32[8], f32[0], "
           "f32[0], false, 1e-05, [true, true, true])"},
  });
  ops.push_back({
      .name = "aten.native_group_norm",
      .rule_of = group_norm_rule,
      .flops = per_element(7),
      .scratch_bytes = group_norm_scratch,
      .types = group_norm_types,
      .localize =
          [](const Function&, Node& node, const std::vector<Piece>& pieces) {
            localize_group_norm(node, 3, pieces);
          },
      .expand = expand_group_norm,
      .backward = "aten.native_group_norm_backward",
      .examples =
          {"(f32[4, 8, 4, 4], f32[8], f32[8], 4, 8, 16, 4, 1e-05)",
           "(f32[4, 8, 4], none, none, 4, 8, 4, 4, 1e-05)",
           "(f32[4, 8, 4, 4]{128, 1, 32, 8}, f32[8], f32[8], 4, 8, 16, 2, "
           "1e-05)"},
  });
  ops.push_back({
      .name = "aten.native_group_norm_backward",
      .rule_of = group_norm_backward_rule,
      .linear = Linear::First,
      .flops = per_element(12),
      .scratch_bytes = group_norm_backward_scratch,
      .types = group_norm_backward_types,
      .localize =
          [](const Function&, Node& node, const std::vector<Piece>& pieces) {
            localize_group_norm(node, 5, pieces);
          },
      .expand = expand_group_norm_backward,
      .examples =
          {"(f32[4, 8, 4, 4], f32[4, 8, 4, 4], f32[4, 4], f32[4, 4], f32[8], "
           "4, 8, 16, 4, [true, true, true])"},
  });
}

}  // namespace weft
