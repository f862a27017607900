// SPDX-License-Identifier: Apache-2.0
// Order and running totals: the dim in question stays whole, the others are
// free.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/words.h"

#include <utility>

namespace weft {

namespace {

using DimFunction = int64_t (*)(const Node&);

// Where the dim stands in the arguments.
int64_t dim_at_one(const Node& node) { return int_arg(node, 1, -1); }
int64_t dim_at_two(const Node& node) { return int_arg(node, 2, -1); }
int64_t dim_option(const Node& node) { return int_option(node, "dim", -1); }

// The words of operand 0 with `word` in the place of the dim.
Words words_with(
    const Function& function,
    const Node& node,
    DimFunction dim,
    const std::string& word) {
  const size_t ndim = type_arg(function, node, 0).sizes.size();
  Words words = dim_words(ndim);
  if (ndim > 0) {
    words.at(static_cast<size_t>(wrap_dim(dim(node), ndim))) = word;
  }
  return words;
}

// Results have the sizes of the operand but for the dim.
RuleFunction along(
    DimFunction dim, size_t results, const std::string& made = "v!") {
  return [=](const Function& function, const Node& node) {
    const std::string result = term(words_with(function, node, dim, made));
    return rule_from_terms(
        {term(words_with(function, node, dim, "v!"))},
        std::vector<std::string>(results, result),
        function,
        node);
  };
}

// The dim is taken away, or becomes 1 with `keepdim`.
bool keeps_dim(const Node& node, size_t position) {
  return bool_arg(node, position, false);
}

Rule chosen_rule(
    const Function& function,
    const Node& node,
    DimFunction dim,
    size_t keepdim_position) {
  const Words input = words_with(function, node, dim, "v!");
  Words result = words_with(function, node, dim, "1");
  if (!keeps_dim(node, keepdim_position) && !result.empty()) {
    result.erase(
        result.begin() +
        static_cast<std::ptrdiff_t>(wrap_dim(dim(node), result.size())));
  }
  return rule_from_terms(
      {term(input)}, {term(result), term(result)}, function, node);
}

std::vector<TensorType> chosen_types(
    const Function& function,
    const Node& node,
    DimFunction dim,
    size_t keepdim_position) {
  const TensorType& input = type_arg(function, node, 0);
  Dims sizes = input.sizes;
  if (!sizes.empty()) {
    const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(
                                        wrap_dim(dim(node), sizes.size()));
    if (keeps_dim(node, keepdim_position)) {
      *at = 1;
    } else {
      sizes.erase(at);
    }
  }
  return {make_type(input.dtype, sizes), make_type(DType::I64, sizes)};
}

std::vector<TensorType> cumulative_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  return {
      make_type(input.dtype, input.sizes), make_type(DType::I64, input.sizes)};
}

// (input, k, dim)
std::vector<TensorType> topk_types(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  Dims sizes = input.sizes;
  if (!sizes.empty()) {
    const int64_t dim = wrap_dim(dim_at_two(node), sizes.size());
    sizes[static_cast<size_t>(dim)] = int_arg(node, 1, 1);
  }
  return {make_type(input.dtype, sizes), make_type(DType::I64, sizes)};
}

int64_t dim_size(const Function& function, const Node& node, DimFunction dim) {
  const Dims& sizes = type_arg(function, node, 0).sizes;
  return sizes.empty()
             ? 1
             : sizes[static_cast<size_t>(wrap_dim(dim(node), sizes.size()))];
}

// A comparison for every halving of the row, an element.
CountFunction sort_flops(DimFunction dim) {
  return [dim](const Function& function, const Node& node) {
    int64_t steps = 1;
    for (int64_t n = dim_size(function, node, dim); n > 1; n /= 2) {
      ++steps;
    }
    return steps * element_count(type_arg(function, node, 0));
  };
}

// The order of one row.
CountFunction sort_scratch(DimFunction dim) {
  return [dim](const Function& function, const Node& node) {
    return 8 * dim_size(function, node, dim);
  };
}

// Values and their positions, to be put in order.
int64_t kth_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  return dense_bytes(input) + 8 * element_count(input);
}

// The dim is brought last, by a copy unless its elements are neighbours.
int64_t median_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  if (input.sizes.empty()) {
    return 0;
  }
  const int64_t dim = wrap_dim(dim_at_one(node), input.sizes.size());
  const bool neighbours = strides_of(input)[static_cast<size_t>(dim)] == 1;
  return neighbours ? 0 : dense_bytes(input);
}

int64_t copy_scratch(const Function& function, const Node& node) {
  return dense_bytes(type_arg(function, node, 0));
}

// A running total in another type reads a copy in that type.
int64_t cumulative_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const DType dtype =
      dtype_option(node, "dtype")
          .value_or(
              is_floating(input.dtype) || is_complex(input.dtype) ? input.dtype
                                                                  : DType::I64);
  return dtype == input.dtype ? 0 : element_count(input) * element_bytes(dtype);
}

// (input, bins, min, max): counts add up, given the same bins everywhere.
Rule histogram_rule(const Function& function, const Node& node) {
  const size_t ndim = type_arg(function, node, 0).sizes.size();
  const bool named = number_arg(node, 2, 0) != number_arg(node, 3, 0);
  const std::string input =
      ndim == 0 ? "()" : numbered(ndim, "d", named ? "" : "!");
  return rule_from_terms(
      {input}, {cat("b=", int_arg(node, 1, 100), "!")}, function, node);
}

std::vector<TensorType> histogram_types(
    const Function& function, const Node& node) {
  return {
      make_type(type_arg(function, node, 0).dtype, {int_arg(node, 1, 100)})};
}

// The borders of the bins, and the counts of a thread.
int64_t histogram_scratch(const Function& function, const Node& node) {
  const int64_t bins = int_arg(node, 1, 100);
  return (2 * bins + 1) * element_bytes(type_arg(function, node, 0).dtype);
}

std::vector<TensorType> scalar_types(
    const Function& function, const Node& node) {
  return {make_type(type_arg(function, node, 0).dtype, {})};
}

}  // namespace

void add_sort_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.sort",
      .rule_of = along(dim_at_one, 2),
      .flops = sort_flops(dim_at_one),
      .scratch_bytes = sort_scratch(dim_at_one),
      .examples = {"(f32[8, 4])", "(f32[8, 4], 0, true)"},
  });
  ops.push_back({
      .name = "aten.sort.stable",
      .rule_of = along(dim_option, 2),
      .flops = sort_flops(dim_option),
      .scratch_bytes = sort_scratch(dim_option),
      .examples = {"(f32[8, 4], stable=true, dim=0)"},
  });
  ops.push_back({
      .name = "aten.topk",
      .rule_of = along(dim_at_two, 2, "k!"),
      .flops = sort_flops(dim_at_two),
      .types = topk_types,
      .examples = {"(f32[8, 12], 4)", "(f32[8, 12], 3, 0)"},
  });
  for (const auto& [name, linear] :
       {std::pair{"aten.cumsum", Linear::All},
        std::pair{"aten.cumprod", Linear::No}}) {
    ops.push_back({
        .name = name,
        .rule_of = along(dim_at_one, 1),
        .linear = linear,
        .scratch_bytes = cumulative_scratch,
        .examples = {"(f32[8, 4], 1)", "(f32[8, 4, 4], 0)"},
    });
  }
  for (const char* name : {"aten.cummax", "aten.cummin"}) {
    ops.push_back({
        .name = name,
        .rule_of = along(dim_at_one, 2),
        .types = cumulative_types,
        .examples = {"(f32[8, 4], 1)"},
    });
  }
  ops.push_back({
      .name = "aten.kthvalue",
      .rule_of =
          [](const Function& function, const Node& node) {
            return chosen_rule(function, node, dim_at_two, 3);
          },
      .flops = sort_flops(dim_at_two),
      .scratch_bytes = kth_scratch,
      .types =
          [](const Function& function, const Node& node) {
            return chosen_types(function, node, dim_at_two, 3);
          },
      .examples = {"(f32[8, 4], 2)", "(f32[8, 4], 2, 0, true)"},
  });
  for (const char* name :
       {"aten.median.dim", "aten.nanmedian.dim", "aten.mode"}) {
    ops.push_back({
        .name = name,
        .rule_of =
            [](const Function& function, const Node& node) {
              return chosen_rule(function, node, dim_at_one, 2);
            },
        .flops = sort_flops(dim_at_one),
        .scratch_bytes = std::string_view(name) == "aten.mode" ? CountFunction()
                                                               : median_scratch,
        .types =
            [](const Function& function, const Node& node) {
              return chosen_types(function, node, dim_at_one, 2);
            },
        .examples = {"(f32[8, 4], 1)", "(f32[8, 4], 0, true)"},
    });
  }
  for (const char* name : {"aten.median", "aten.nanmedian"}) {
    ops.push_back({
        .name = name,
        .scratch_bytes = copy_scratch,
        .types = scalar_types,
        .examples = {"(f32[8, 4])"},
    });
  }
  ops.push_back({
      .name = "aten.histc",
      .rule_of = histogram_rule,
      .scratch_bytes = histogram_scratch,
      .types = histogram_types,
      .examples = {"(f32[8, 4], 4, -1, 1)", "(f32[8, 4], 4)"},
  });
}

}  // namespace weft
