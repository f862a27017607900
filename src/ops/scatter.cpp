// SPDX-License-Identifier: Apache-2.0
// Gather and scatter, whose index has the dims of what is read or written; and
// other ways to find elements.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/words.h"

#include <utility>

namespace weft {

namespace {

struct ScatterTerms {
  std::string self;
  std::string index;
};

// (self, dim, index, ...): dims other than `dim` line up. An index that is
// smaller than self there uses the first elements only, so both stay whole.
ScatterTerms scatter_terms(
    const Function& function,
    const Node& node,
    const std::string& looked_up,
    const std::string& along) {
  const Dims& self = type_arg(function, node, 0).sizes;
  const Dims& index = type_arg(function, node, 2).sizes;
  const size_t ndim = self.size();
  Words self_words = dim_words(ndim);
  Words index_words = dim_words(ndim);
  const auto dim = static_cast<size_t>(wrap_dim(int_arg(node, 1, 0), ndim));
  for (size_t d = 0; d < ndim; ++d) {
    if (d == dim) {
      self_words[d] = looked_up;
      index_words[d] = along;
    } else if (self[d] != index[d]) {
      self_words[d] = cat("s", d, "!");
      index_words[d] = cat("d", d, "!");
    }
  }
  return {term(self_words), term(index_words)};
}

bool is_scalar(const Function& function, const Node& node) {
  return type_arg(function, node, 0).sizes.empty() ||
         type_arg(function, node, 2).sizes.empty();
}

Rule gather_rule(const Function& function, const Node& node) {
  if (is_scalar(function, node)) {
    return whole_rule(function, node);
  }
  const ScatterTerms t = scatter_terms(function, node, "v?", "j");
  return rule_from_terms({t.self, t.index}, {t.index}, function, node);
}

// Sources larger than the index use their first elements only.
RuleFunction scatter_rule(bool has_source) {
  return [=](const Function& function, const Node& node) {
    if (is_scalar(function, node) ||
        (has_source && type_arg(function, node, 3).sizes !=
                           type_arg(function, node, 2).sizes)) {
      return whole_rule(function, node);
    }
    const ScatterTerms t = scatter_terms(function, node, "v?", "j!");
    std::vector<std::string> operands = {t.self, t.index};
    if (has_source) {
      operands.push_back(t.index);
    }
    return rule_from_terms(operands, {t.self}, function, node);
  };
}

// A mean counts: ones to add, the counts, and where nothing was added.
int64_t scatter_reduce_scratch(const Function& function, const Node& node) {
  const Arg* reduce = find_arg(node, 4);
  const auto* word =
      reduce == nullptr ? nullptr : std::get_if<std::string>(&reduce->data);
  if (word == nullptr || *word != "mean") {
    return 0;
  }
  const TensorType& self = type_arg(function, node, 0);
  return dense_bytes(type_arg(function, node, 3)) + dense_bytes(self) +
         element_count(self);
}

// --- Positions in a sorted sequence.

DType position_type(const Node& node) {
  return bool_option(node, "out_int32", false) ? DType::I32 : DType::I64;
}

// A comparison for every halving of the sequence.
int64_t search_flops(const Function& function, const Node& node, bool first) {
  const TensorType& sequence = type_arg(function, node, first ? 0 : 1);
  const TensorType& values = type_arg(function, node, first ? 1 : 0);
  int64_t steps = 1;
  for (int64_t n = sequence.sizes.back(); n > 1; n /= 2) {
    ++steps;
  }
  return steps * element_count(values);
}

// (sorted_sequence, values): one sequence for all, or one for every row.
Rule searchsorted_rule(const Function& function, const Node& node) {
  const TensorType& sequence = type_arg(function, node, 0);
  const bool one = sequence.sizes.size() == 1;
  return rule_from_text(
      one ? "b!, ..., b -> ..." : "... b!, ... k, ... b -> ... k",
      function,
      node);
}

std::vector<TensorType> searchsorted_types(
    const Function& function, const Node& node) {
  return {make_type(position_type(node), type_arg(function, node, 1).sizes)};
}

std::vector<TensorType> bucketize_types(
    const Function& function, const Node& node) {
  return {make_type(position_type(node), type_arg(function, node, 0).sizes)};
}

int64_t search_scratch(const Function& function, const Node& node) {
  return copy_bytes(type_arg(function, node, 0)) +
         copy_bytes(type_arg(function, node, 1));
}

// --- The tensor as if it had one dim: (self, index)

Rule take_rule(const Function& function, const Node& node) {
  const size_t ndim = type_arg(function, node, 0).sizes.size();
  const std::string self = ndim == 0 ? "()" : numbered(ndim, "v", "!");
  return rule_from_terms({self, "..."}, {"..."}, function, node);
}

std::vector<TensorType> take_types(const Function& function, const Node& node) {
  return {make_type(
      type_arg(function, node, 0).dtype, type_arg(function, node, 1).sizes)};
}

}  // namespace

void add_scatter_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.gather",
      .rule_of = gather_rule,
      .linear = Linear::First,
      .flops = count_result,
      .lookup_operand = 1,
      .backward = "aten.scatter_add",
      .examples =
          {"(f32[8, 4], 0, i64[12, 4])",
           "(f32[8, 4, 4], 1, i64[8, 8, 4])",
           "(f32[8, 4], 1, i64[4, 4])"},
  });
  ops.push_back({
      .name = "aten.scatter_add",
      .rule_of = scatter_rule(true),
      .linear = Linear::All,
      .lookup_operand = 1,
      .backward = "aten.gather",
      .examples =
          {"(f32[8, 4], 0, i64[12, 4], f32[12, 4])",
           "(f32[8, 4], 1, i64[8, 8], f32[8, 8])"},
  });
  ops.push_back({
      .name = "aten.scatter.src",
      .rule_of = scatter_rule(true),
      .linear = Linear::All,
      .lookup_operand = 1,
      .backward = "aten.gather",
      .examples = {"(f32[8, 4], 1, i64[8, 1], f32[8, 1])"},
  });
  ops.push_back({
      .name = "aten.scatter.value",
      .rule_of = scatter_rule(false),
      .lookup_operand = 1,
      .examples = {"(f32[8, 4], 1, i64[8, 4], 0.5)"},
  });
  ops.push_back({
      .name = "aten.scatter_reduce.two",
      .rule_of = scatter_rule(true),
      .scratch_bytes = scatter_reduce_scratch,
      .lookup_operand = 1,
      .examples =
          {"(f32[8, 4], 1, i64[8, 8], f32[8, 8], \"amax\")",
           "(f32[8, 4], 0, i64[4, 4], f32[4, 4], \"prod\")",
           "(f32[8, 4], 1, i64[8, 8], f32[8, 8], \"mean\")"},
  });
  // The mask says how many elements of the source come before one.
  ops.push_back({
      .name = "aten.masked_scatter",
      .examples = {"(f32[8, 4], bool[8, 4], f32[32])"},
  });
  ops.push_back({
      .name = "aten.take",
      .rule_of = take_rule,
      .linear = Linear::First,
      .flops = count_result,
      .types = take_types,
      .examples = {"(f32[8, 4], i64[8, 4])"},
  });
  ops.push_back({
      .name = "aten.put",
      .examples = {"(f32[8, 4], i64[8]<32, f32[8], true)"},
  });
  ops.push_back({
      .name = "aten.bucketize.Tensor",
      .rule = "..., b! -> ...",
      .flops =
          [](const Function& function, const Node& node) {
            return search_flops(function, node, false);
          },
      .scratch_bytes = search_scratch,
      .types = bucketize_types,
      .examples = {"(f32[8, 4], i64[1])", "(f32[8, 4], f32[1])"},
  });
  ops.push_back({
      .name = "aten.searchsorted.Tensor",
      .rule_of = searchsorted_rule,
      .flops =
          [](const Function& function, const Node& node) {
            return search_flops(function, node, true);
          },
      .scratch_bytes = search_scratch,
      .types = searchsorted_types,
      .examples =
          {"(f32[1], f32[8, 4])", "(f32[8, 1], f32[8, 4], out_int32=true)"},
  });
}

}  // namespace weft
