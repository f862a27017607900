// SPDX-License-Identifier: Apache-2.0
// What undoes a view: a gradient put back into zeros (slice_backward) and a
// part written into a copy of the whole (slice_scatter).
#include "base/error.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/sections.h"
#include "ops/words.h"

#include <utility>

namespace weft {
namespace {

size_t wrapped(
    const Node& node, size_t position, int64_t fallback, size_t ndim) {
  return static_cast<size_t>(wrap_dim(int_arg(node, position, fallback), ndim));
}

// The term of the part and that of the whole.
struct Terms {
  Words part;
  Words whole;
};

Terms slice_terms(const Node& node, const Dims& sizes, size_t dim_at) {
  Terms terms = {dim_words(sizes.size()), dim_words(sizes.size())};
  size_t dim = wrapped(node, dim_at, 0, sizes.size());
  SliceWords words = slice_words(
      read_slice(node, dim_at + 1, sizes[dim]), sizes[dim], terms.whole[dim]);
  terms.part[dim] = words.part;
  terms.whole[dim] = words.whole;
  return terms;
}

Terms select_terms(const Node& node, const Dims& sizes, size_t dim_at) {
  Terms terms = {dim_words(sizes.size()), dim_words(sizes.size())};
  size_t dim = wrapped(node, dim_at, 0, sizes.size());
  terms.part.erase(terms.part.begin() + static_cast<std::ptrdiff_t>(dim));
  terms.whole[dim] += "!";
  return terms;
}

Terms diagonal_terms(const Node& node, const Dims& sizes, size_t offset_at) {
  Terms terms = {{}, dim_words(sizes.size())};
  size_t dim1 = wrapped(node, offset_at + 1, 0, sizes.size());
  size_t dim2 = wrapped(node, offset_at + 2, 1, sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i == dim1 || i == dim2) {
      terms.whole[i] += "!";
    } else {
      terms.part.push_back(terms.whole[i]);
    }
  }
  terms.part.emplace_back("diagonal!");
  return terms;
}

Terms unfold_terms(const Node& node, const Dims& sizes, size_t dim_at) {
  Terms terms = {dim_words(sizes.size()), dim_words(sizes.size())};
  size_t dim = wrapped(node, dim_at, 0, sizes.size());
  int64_t size = int_arg(node, dim_at + 1, 1);
  int64_t step = int_arg(node, dim_at + 2, 1);
  WEFT_CHECK(step > 0, "a step is ", step);
  bool side_by_side = size == step && sizes[dim] % step == 0;
  terms.part[dim] = side_by_side ? "window" : "window!";
  terms.part.emplace_back("inside!");
  terms.whole[dim] =
      side_by_side ? cat("(window inside=", size, "!)") : "whole!";
  return terms;
}

// The sizes of the whole are `sizes`, which may be local by now: the factor
// inside the sections tells what they were.
LocalizeFunction localize_slice_of(size_t dim_at, bool stated) {
  return [=](const Function& function,
             Node& node,
             const std::vector<Piece>& pieces) {
    const Dims& sizes = stated ? result_type(function, node).sizes
                               : type_arg(function, node, 0).sizes;
    size_t dim = wrapped(node, dim_at, 0, sizes.size());
    Node whole = node;
    if (stated) {
      set_arg(whole, 1, to_arg(sizes));
    }
    int factor = find_factor(rule_of(function, whole), cat("d", dim));
    if (factor >= 0) {
      const Piece& inside = pieces[static_cast<size_t>(factor)];
      localize_slice(node, dim_at + 1, sizes[dim], inside);
    }
  };
}

using TermsFunction = Terms (*)(const Node&, const Dims&, size_t);

// (grad, sizes, ...): the sizes of the whole are argument 1.
OpDef backward(
    std::string_view name,
    TermsFunction terms_of,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of =
          [=](const Function& function, const Node& node) {
            Dims sizes = dims_arg(node, 1);
            Terms terms = terms_of(node, sizes, 2);
            // Whole dims that the part lacks have only the stated size.
            for (size_t i = 0; i < sizes.size(); ++i) {
              if (terms.whole[i].back() == '!' &&
                  terms.whole[i].find('=') == std::string::npos) {
                terms.whole[i] += cat("=", sizes[i]);
              }
            }
            return rule_from_text(
                cat(term(terms.part), " -> ", term(terms.whole)),
                function,
                node);
          },
      .linear = Linear::All,
      .sizes_arg = 1,
      .examples = std::move(examples),
  };
}

// (whole, part, ...).
OpDef scatter(
    std::string_view name,
    TermsFunction terms_of,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of =
          [=](const Function& function, const Node& node) {
            const Dims& sizes = type_arg(function, node, 0).sizes;
            Terms terms = terms_of(node, sizes, 2);
            std::string whole = term(terms.whole);
            return rule_from_text(
                cat(whole, ", ", term(terms.part), " -> ", whole),
                function,
                node);
          },
      .linear = Linear::All,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_view_backward_ops(OpTable& ops) {
  ops.push_back(backward(
      "aten.slice_backward",
      slice_terms,
      {"(f32[4, 4], [8, 4], 0, 2, 6, 1)",
       "(f32[8, 4], [8, 4], 0, 0, 9223372036854775807, 1)",
       "(f32[4, 8], [4, 12], 1, 4, 12, 1)",
       "(f32[4, 4], [4, 8], 1, 1, 8, 2)"}));
  ops.back().localize = localize_slice_of(2, true);
  ops.push_back(backward(
      "aten.select_backward",
      select_terms,
      {"(f32[8, 12], [8, 4, 12], 1, 2)", "(f32[4], [8, 4], 0, -1)"}));
  ops.push_back(backward(
      "aten.diagonal_backward",
      diagonal_terms,
      {"(f32[4, 8], [8, 4, 8], 0, 0, 2)"}));
  ops.push_back(backward(
      "aten.unfold_backward",
      unfold_terms,
      {"(f32[4, 5, 4], [4, 12], 1, 4, 2)",
       "(f32[4, 4, 3], [4, 12], 1, 3, 3)"}));
  ops.back().types = [](const Function& function, const Node& node) {
    return std::vector<TensorType>{
        make_type(operand_type(function, node, 0).dtype, dims_arg(node, 1))};
  };
  ops.push_back(scatter(
      "aten.slice_scatter",
      slice_terms,
      {"(f32[8, 4], f32[4, 4], 0, 2, 6)",
       "(f32[4, 12], f32[4, 8], 1, 4, 12)",
       "(f32[8, 4], f32[8, 4])"}));
  ops.back().localize = localize_slice_of(2, false);
  ops.push_back(scatter(
      "aten.select_scatter",
      select_terms,
      {"(f32[8, 4, 12], f32[8, 12], 1, 2)"}));
  ops.push_back(scatter(
      "aten.diagonal_scatter",
      diagonal_terms,
      {"(f32[8, 4, 8], f32[4, 8], 0, 0, 2)"}));
}

}  // namespace weft
