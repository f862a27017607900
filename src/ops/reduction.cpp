// SPDX-License-Identifier: Apache-2.0
// Ops that make one element out of all elements along some dims.
#include "base/text.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/families.h"
#include "ops/iterator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft {
namespace {

// Where a schema keeps what a reduction is told.
struct Reduction {
  // Argument with the dim(s); -1: all dims.
  int dims_at = -1;
  // Argument with keepdim; -1: it is an option, or there is none.
  int keepdim_at = -1;
  // What the reduced dims are marked with: "!" when they must stay whole, "" or
  // how the pieces are combined.
  std::string_view mark = "";
  size_t results = 1;
};

Rule reduce(
    const Reduction& reduction, const Function& function, const Node& node) {
  size_t ndim = operand_type(function, node, 0).sizes.size();
  Dims dims;
  if (reduction.dims_at >= 0) {
    dims = dims_arg(node, static_cast<size_t>(reduction.dims_at));
  }
  dims = wrap_dims(dims, ndim, /*empty_means_all=*/true);
  bool keep =
      reduction.keepdim_at >= 0
          ? bool_arg(node, static_cast<size_t>(reduction.keepdim_at), false)
          : bool_option(node, "keepdim", false);
  std::vector<std::string> from;
  std::vector<std::string> to;
  for (size_t i = 0; i < ndim; ++i) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) ==
        dims.end()) {
      from.push_back(cat("d", i));
      to.push_back(cat("d", i));
    } else {
      from.push_back(cat("d", i, reduction.mark));
      if (keep) {
        to.emplace_back("1");
      }
    }
  }
  std::string left = from.empty() ? "()" : join(from, " ");
  std::string right = to.empty() ? "()" : join(to, " ");
  return rule_from_text(
      cat(left,
          " -> ",
          join(std::vector<std::string>(reduction.results, right), ", ")),
      function,
      node);
}

RuleFunction reduces(Reduction reduction) {
  return [reduction](const Function& function, const Node& node) {
    return reduce(reduction, function, node);
  };
}

// The element type of a reduction's result, where PyTorch's meta kernel is in
// Python.
using DTypeFunction = DType (*)(DType);

DType same(DType dtype) { return dtype; }
// Sums and products of integers are i64.
DType summed(DType dtype) {
  return is_floating(dtype) || is_complex(dtype) ? dtype : DType::I64;
}
DType real(DType dtype) { return is_floating(dtype) ? dtype : DType::F32; }
DType counted(DType) { return DType::I64; }

// Row-major results; `dtypes` one a result. A dtype option wins.
TypesFunction reduced(
    const Reduction& reduction, const std::vector<DTypeFunction>& dtypes) {
  return [=](const Function& function, const Node& node) {
    Rule rule = reduce(reduction, function, node);
    DType self = operand_type(function, node, 0).dtype;
    std::vector<TensorType> types;
    for (DTypeFunction dtype : dtypes) {
      types.push_back(make_type(
          dtype_option(node, "dtype").value_or(dtype(self)),
          result_sizes(rule, static_cast<int>(types.size()))));
    }
    return types;
  };
}

// Norms of the pieces make the norm of the whole.
std::string_view norm_mark(double order) {
  if (order == 2) {
    return ":norm";
  }
  if (order == 1 || order == 0) {
    return "";
  }
  if (std::isinf(order)) {
    return order > 0 ? ":max" : ":min";
  }
  return "!";
}

RuleFunction norm_of(Reduction reduction) {
  return [reduction](const Function& function, const Node& node) {
    Reduction marked = reduction;
    marked.mark = norm_mark(number_arg(node, 1, 2));
    return reduce(marked, function, node);
  };
}

void add_sums(OpTable& ops) {
  const Reduction by_dims = {.dims_at = 1, .keepdim_at = 2};
  ops.push_back({
      .name = "aten.sum",
      .rule_of = reduces({}),
      .linear = Linear::All,
      .types = reduced({}, {summed}),
      .examples = {"(f32[8, 4])", "(f32[])", "(bool[8, 4])"},
  });
  ops.push_back({
      .name = "aten.sum.dim_IntList",
      .rule_of = reduces(by_dims),
      .linear = Linear::All,
      .types = reduced(by_dims, {summed}),
      .examples =
          {"(f32[8, 4, 12], [1])",
           "(f32[8, 4, 12], [0, -1], true)",
           "(f32[8, 4], none)",
           "(f32[8, 4], [], true)"},
  });
  ops.push_back({
      .name = "aten.nansum",
      .rule_of = reduces(by_dims),
      .types = reduced(by_dims, {summed}),
      .examples =
          {"(f32[8, 4, 12], [1])",
           "(f32[8, 4, 12]{1, 8, 32}, [2], true)",
           "(i32[8, 4])"},
  });
  ops.push_back({
      .name = "aten.mean",
      .rule_of = reduces({.mark = ":mean"}),
      .linear = Linear::All,
      .types = reduced({}, {same}),
      .examples = {"(f32[8, 4])"},
  });
  ops.push_back({
      .name = "aten.mean.dim",
      .rule_of = reduces({.dims_at = 1, .keepdim_at = 2, .mark = ":mean"}),
      .linear = Linear::All,
      .types = reduced(by_dims, {same}),
      .examples = {"(f32[8, 4, 12], [1])", "(f32[8, 4, 12], [-1, -2], true)"},
  });
  ops.push_back({
      .name = "aten.prod",
      .rule_of = reduces({.mark = ":product"}),
      .types = reduced({}, {summed}),
      .examples = {"(f32[8, 4])", "(i32[8, 4]>0)"},
  });
  ops.push_back({
      .name = "aten.prod.dim_int",
      .rule_of = reduces({.dims_at = 1, .keepdim_at = 2, .mark = ":product"}),
      .examples = {"(f32[8, 4, 12], 1)", "(f32[8, 4], 0, true)"},
  });
  ops.push_back({
      .name = "aten.count_nonzero",
      .rule_of = reduces({.dims_at = 1}),
      .types = reduced({.dims_at = 1}, {counted}),
      .examples = {"(i64[8, 4])", "(i64[8, 4], 1)"},
  });
  ops.push_back({
      .name = "aten.count_nonzero.dim_IntList",
      .rule_of = reduces({.dims_at = 1}),
      .types = reduced({.dims_at = 1}, {counted}),
      .examples = {"(i64[8, 4], [0, 1])"},
  });
  ops.push_back({
      .name = "aten.trace",
      .rule = "m! n! -> ()",
      .linear = Linear::All,
      .types = reduced({}, {summed}),
      .examples = {"(f32[8, 8])"},
  });
}

void add_extremes(OpTable& ops) {
  for (bool larger : {true, false}) {
    std::string_view mark = larger ? ":max" : ":min";
    ops.push_back({
        .name = larger ? "aten.amax" : "aten.amin",
        .rule_of = reduces({.dims_at = 1, .keepdim_at = 2, .mark = mark}),
        .types = reduced({.dims_at = 1, .keepdim_at = 2}, {same}),
        .examples =
            {"(f32[8, 4, 12], [1])",
             "(f32[8, 4], [-1], true)",
             "(f32[8, 4]{1, 8}, [-1], true)",
             "(f32[8, 4])"},
    });
    ops.push_back({
        .name = larger ? "aten.max" : "aten.min",
        .rule_of = reduces({.mark = mark}),
        .types = reduced({}, {same}),
        .examples = {"(f32[8, 4])", "(i32[8, 4])"},
    });
    // The position of the extreme is that in the whole dim.
    ops.push_back({
        .name = larger ? "aten.max.dim" : "aten.min.dim",
        .rule_of =
            reduces({.dims_at = 1, .keepdim_at = 2, .mark = "!", .results = 2}),
        .examples = {"(f32[8, 4, 12], 1)", "(f32[8, 4], 0, true)"},
    });
    ops.push_back({
        .name = larger ? "aten.argmax" : "aten.argmin",
        .rule_of = reduces({.dims_at = 1, .keepdim_at = 2, .mark = "!"}),
        .examples = {"(f32[8, 4], -1)", "(f32[8, 4], 0, true)", "(f32[8, 4])"},
    });
    // Of booleans: any is the larger, all the smaller.
    ops.push_back({
        .name = larger ? "aten.any" : "aten.all",
        .rule_of = reduces({.mark = mark}),
        .examples = {"(bool[8, 4])", "(f32[8, 4])"},
    });
    ops.push_back({
        .name = larger ? "aten._is_any_true" : "aten._is_all_true",
        .rule_of = reduces({.mark = mark}),
        .examples = {"(bool[8, 4])"},
    });
    ops.push_back({
        .name = larger ? "aten.any.dim" : "aten.all.dim",
        .rule_of = reduces({.dims_at = 1, .keepdim_at = 2, .mark = mark}),
        .examples = {"(bool[8, 4], 1)", "(bool[8, 4], 0, true)"},
    });
    ops.push_back({
        .name = larger ? "aten.any.dims" : "aten.all.dims",
        .rule_of = reduces({.dims_at = 1, .keepdim_at = 2, .mark = mark}),
        .examples = {"(bool[8, 4], [0, 1])", "(bool[8, 4], none, true)"},
    });
  }
  // The smallest and the largest: the dims are whole, for one mark cannot say
  // both; the expansion says each.
  ops.push_back({
      .name = "aten.aminmax",
      .rule_of =
          [](const Function& function, const Node& node) {
            Node positional = node;
            positional.args.resize(1);
            positional.args.push_back({None{}});
            if (const Arg* dim = find_option(node, "dim")) {
              positional.args[1] = *dim;
            }
            return reduce(
                {.dims_at = 1, .mark = "!", .results = 2},
                function,
                positional);
          },
      .expand = expand_aminmax,
      .examples = {"(f32[8, 4], dim=1)", "(f32[8, 4], dim=0, keepdim=true)"},
  });
}

void add_moments(OpTable& ops) {
  for (std::string_view name : {"aten.var.correction", "aten.std.correction"}) {
    ops.push_back({
        .name = name,
        .rule_of = reduces({.dims_at = 1, .mark = "!"}),
        .types = reduced({.dims_at = 1}, {real_type}),
        .expand = expand_variance,
        .examples =
            {"(f32[8, 4, 12], [1])",
             "(f32[8, 4], [-1], correction=0, keepdim=true)",
             "(f32[8, 4, 12]{1, 8, 32}, [2])",
             "(f32[8, 4])"},
    });
  }
  for (std::string_view name :
       {"aten.var_mean.correction", "aten.std_mean.correction"}) {
    ops.push_back({
        .name = name,
        .rule_of = reduces({.dims_at = 1, .mark = "!", .results = 2}),
        .types = reduced({.dims_at = 1, .results = 2}, {real_type, same}),
        .expand = expand_variance,
        .examples =
            {"(f32[8, 4, 12], [1])",
             "(f32[8, 4, 12]{1, 8, 32}, [2])",
             "(f32[8, 4], [-1], correction=0, keepdim=true)"},
    });
  }
  ops.push_back({
      .name = "aten.linalg_vector_norm",
      .rule_of = norm_of({.dims_at = 2, .keepdim_at = 3}),
      .expand = expand_vector_norm,
      .examples =
          {"(f32[8, 4])",
           "(f32[8, 4, 12], 2, [1], true)",
           "(f32[8, 4], 1, [-1])",
           "(f32[8, 4], inf, [0])",
           "(f32[8, 4], 3, [0])"},
  });
  ops.push_back({
      .name = "aten.norm.Scalar",
      .rule_of = norm_of({}),
      .examples = {"(f32[8, 4])", "(f32[8, 4], 1)"},
  });
  ops.push_back({
      .name = "aten.norm.ScalarOpt_dim",
      .rule_of = norm_of({.dims_at = 2, .keepdim_at = 3}),
      .examples = {"(f32[8, 4, 12], 2, [1], true)", "(f32[8, 4], none, [0])"},
  });
  ops.push_back({
      .name = "aten.logsumexp",
      .rule_of = reduces({.dims_at = 1, .keepdim_at = 2, .mark = "!"}),
      .types = reduced({.dims_at = 1, .keepdim_at = 2}, {real}),
      .expand = expand_logsumexp,
      .examples =
          {"(f32[8, 4, 12], [1])",
           "(f32[8, 4], [-1], true)",
           "(f32[8, 4, 12]{1, 8, 32}, [2])"},
  });
}

}  // namespace

void add_reduction_ops(OpTable& ops) {
  add_sums(ops);
  add_extremes(ops);
  add_moments(ops);
}

}  // namespace weft
