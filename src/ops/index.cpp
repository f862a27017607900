// SPDX-License-Identifier: Apache-2.0
// Reading and writing by index. Where the dim that is looked up is split, what
// is read are masked partial sums, and what is written elsewhere goes nowhere
// (lookup.h). scatter.cpp has the ops whose index is as large as the result.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/words.h"

#include <utility>

namespace weft {

namespace {

// The words of a tensor with `word` in the place of dim `dim`.
Words with_word(size_t ndim, int64_t dim, const std::string& word) {
  Words words = dim_words(ndim);
  words.at(static_cast<size_t>(dim)) = word;
  return words;
}

// --- One index along one dim: (self, dim, index, ...)

// (self, dim, index) -> rows
Rule index_select_rule(const Function& function, const Node& node) {
  const size_t ndim = type_arg(function, node, 0).sizes.size();
  if (ndim == 0) {
    return whole_rule(function, node);
  }
  const int64_t dim = wrap_dim(int_arg(node, 1, 0), ndim);
  const std::string index =
      type_arg(function, node, 2).sizes.empty() ? "()" : "j";
  return rule_from_terms(
      {term(with_word(ndim, dim, "v?")), index},
      {term(with_word(ndim, dim, index == "j" ? "j" : "1"))},
      function,
      node);
}

std::vector<TensorType> index_select_types(
    const Function& function, const Node& node) {
  const TensorType& self = type_arg(function, node, 0);
  Dims sizes = self.sizes;
  if (!sizes.empty()) {
    const int64_t dim = wrap_dim(int_arg(node, 1, 0), sizes.size());
    sizes[static_cast<size_t>(dim)] =
        element_count(type_arg(function, node, 2));
  }
  return {make_type(self.dtype, std::move(sizes))};
}

// Rows that lie apart are read through a copy.
int64_t index_select_scratch(const Function& function, const Node& node) {
  const TensorType& self = type_arg(function, node, 0);
  const size_t ndim = self.sizes.size();
  const bool rows = ndim == 0 || wrap_dim(int_arg(node, 1, 0), ndim) == 0;
  return rows ? 0 : copy_bytes(self);
}

// (self, dim, index, source)
RuleFunction index_write_rule(bool has_source) {
  return [=](const Function& function, const Node& node) {
    const size_t ndim = type_arg(function, node, 0).sizes.size();
    if (ndim == 0) {
      return whole_rule(function, node);
    }
    const int64_t dim = wrap_dim(int_arg(node, 1, 0), ndim);
    const std::string self = term(with_word(ndim, dim, "v?"));
    const bool scalar = type_arg(function, node, 2).sizes.empty();
    const std::string source =
        has_source ? term(with_word(ndim, dim, scalar ? "1" : "j!")) : "_";
    return rule_from_terms(
        {self, scalar ? "()" : "j!", source}, {self}, function, node);
  };
}

// --- A list of indices, some of them absent: (self, indices, ...)

struct IndexList {
  // Dims that have an index, in order.
  std::vector<size_t> dims;
  std::vector<const TensorType*> types;
  // Of the indices broadcast against each other.
  size_t broadcast_dims = 0;
  bool has_mask = false;
};

IndexList read_indices(const Function& function, const Node& node) {
  IndexList list;
  const auto& args = std::get<Arg::List>(node.args.at(1).data);
  for (size_t d = 0; d < args.size(); ++d) {
    const auto* id = std::get_if<ValueId>(&args[d].data);
    if (id == nullptr) {
      continue;
    }
    const TensorType& type = function[*id].type;
    list.dims.push_back(d);
    list.types.push_back(&type);
    list.broadcast_dims = std::max(list.broadcast_dims, type.sizes.size());
    list.has_mask =
        list.has_mask || type.dtype == DType::Bool || type.dtype == DType::U8;
  }
  return list;
}

// Whether the dims of the indices come first in what is read, instead of in the
// place of the dims that they index.
bool indices_lead(const IndexList& list) {
  for (size_t i = 1; i < list.dims.size(); ++i) {
    if (list.dims[i] != list.dims[i - 1] + 1) {
      return true;
    }
  }
  return false;
}

struct IndexTerms {
  Words self;
  // One an index.
  std::vector<std::string> indices;
  // Of what is read: self with the dims of the indices.
  Words read;
};

// `looked_up` is the mark of a dim that is indexed; `mark` that of the indices'
// own dims.
IndexTerms index_terms(
    const TensorType& self,
    const IndexList& list,
    const std::string& looked_up,
    const std::string& mark) {
  IndexTerms t = {dim_words(self.sizes.size()), {}, {}};
  for (const size_t dim : list.dims) {
    t.self.at(dim) = cat("v", dim, looked_up);
  }
  Words own;
  for (size_t i = 0; i < list.broadcast_dims; ++i) {
    own.push_back(cat("i", i, mark));
  }
  for (const TensorType* type : list.types) {
    const auto from =
        own.end() - static_cast<std::ptrdiff_t>(type->sizes.size());
    t.indices.push_back(term({from, own.end()}));
  }
  const bool lead = indices_lead(list);
  if (lead) {
    t.read = own;
  }
  for (size_t d = 0; d < t.self.size(); ++d) {
    const bool indexed = t.self[d].front() == 'v';
    if (!indexed) {
      t.read.push_back(t.self[d]);
    } else if (!lead && d == list.dims.front()) {
      t.read.insert(t.read.end(), own.begin(), own.end());
    }
  }
  return t;
}

// The rows of a single index can be split; several would have to agree.
Rule index_rule(const Function& function, const Node& node) {
  const IndexList list = read_indices(function, node);
  if (list.has_mask) {
    return whole_rule(function, node);
  }
  const IndexTerms t = index_terms(
      type_arg(function, node, 0), list, list.dims.size() == 1 ? "?" : "!", "");
  std::vector<std::string> operands = {term(t.self)};
  operands.insert(operands.end(), t.indices.begin(), t.indices.end());
  return rule_from_terms(operands, {term(t.read)}, function, node);
}

// (self, indices, values, accumulate) -> self with values
Rule index_put_rule(const Function& function, const Node& node) {
  const IndexList list = read_indices(function, node);
  if (list.has_mask) {
    return whole_rule(function, node);
  }
  const TensorType& self = type_arg(function, node, 0);
  const TensorType& values = type_arg(function, node, 2);
  const IndexTerms t =
      index_terms(self, list, list.dims.size() == 1 ? "?" : "!", "!");
  std::vector<std::string> operands = {term(t.self)};
  operands.insert(operands.end(), t.indices.begin(), t.indices.end());
  const auto from =
      t.read.end() - static_cast<std::ptrdiff_t>(values.sizes.size());
  operands.push_back(term({from, t.read.end()}));
  return rule_from_terms(operands, {term(t.self)}, function, node);
}

std::vector<TensorType> index_put_types(
    const Function& function, const Node& node) {
  return {like(type_arg(function, node, 0))};
}

}  // namespace

void add_index_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.index_select",
      .rule_of = index_select_rule,
      .linear = Linear::First,
      .flops = count_result,
      .scratch_bytes = index_select_scratch,
      .types = index_select_types,
      .lookup_operand = 1,
      .backward = "aten.index_add",
      .examples = {"(f32[8, 4, 4], 0, i64[12])", "(f32[8, 4, 4], 1, i64[8])"},
  });
  ops.push_back({
      .name = "aten.index_add",
      .rule_of = index_write_rule(true),
      .linear = Linear::All,
      .lookup_operand = 1,
      .backward = "aten.index_select",
      .examples =
          {"(f32[8, 4], 0, i64[12], f32[12, 4])",
           "(f32[8, 4], 1, i64[8], f32[8, 8], alpha=2)"},
  });
  ops.push_back({
      .name = "aten.index_copy",
      .rule_of = index_write_rule(true),
      .linear = Linear::All,
      .lookup_operand = 1,
      .backward = "aten.index_select",
      .examples = {"(f32[8, 4], 0, i64[1], f32[1, 4])"},
  });
  for (const auto& [name, example] :
       {std::pair{"aten.index_fill.int_Scalar", "(f32[8, 4], 0, i64[4], 0.5)"},
        std::pair{
            "aten.index_fill.int_Tensor", "(f32[8, 4], 1, i64[4], f32[])"}}) {
    ops.push_back({
        .name = name,
        .rule_of = index_write_rule(false),
        .lookup_operand = 1,
        .examples = {example},
    });
  }
  for (const char* name : {"aten.index.Tensor", "aten._unsafe_index.Tensor"}) {
    ops.push_back({
        .name = name,
        .rule_of = index_rule,
        .linear = Linear::First,
        .flops = count_result,
        .lookup_operand = 1,
        .backward = "aten.index_put",
        .examples =
            {"(f32[8, 4], [i64[12]])",
             "(f32[4, 8, 4], [none, i64[4, 4]])",
             "(f32[4, 8, 4], [i64[4, 1], i64[1, 8]])",
             "(f32[4, 8, 4], [i64[4], none, i64[4]])"},
    });
  }
  for (const char* name : {"aten.index_put", "aten._unsafe_index_put"}) {
    ops.push_back({
        .name = name,
        .rule_of = index_put_rule,
        .linear = Linear::All,
        .types = index_put_types,
        .lookup_operand = 1,
        .backward = "aten.index.Tensor",
        .examples =
            {"(f32[8, 4], [i64[12]], f32[12, 4], true)",
             "(f32[4, 8, 4], [none, i64[4, 4]], f32[4, 4, 4, 4], true)",
             "(f32[8, 4], [i64[12]], f32[], true)",
             "(f32[8, 4], [i64[1]], f32[1, 4])",
             "(f32[4, 8, 4], [none, i64[1, 4]], f32[4, 1, 4, 4])",
             "(f32[4, 8, 4], [i64[4], none, i64[4]], f32[4, 8], true)"},
    });
  }
}

}  // namespace weft
