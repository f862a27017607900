// SPDX-License-Identifier: Apache-2.0
#include "capture/view_write.h"

#include "ops/call.h"

#include <numeric>
#include <string_view>

namespace weft {
namespace {

// "slice" of "aten.slice.Tensor".
std::string_view stem_of(const Node& node) {
  std::string_view op = node.op;
  op = op.substr(op.find('.') + 1);
  return op.substr(0, op.find('.'));
}

Node call(std::string op, std::vector<Arg> args) {
  Node node;
  node.op = std::move(op);
  node.args = std::move(args);
  return node;
}

int64_t dim_argument(const ViewPlace& view, size_t position, int64_t fallback) {
  return wrap_dim(
      int_arg(view.made_by, position, fallback), view.parent_type.sizes.size());
}

Node permuted_back(const ViewPlace& view, ValueId value) {
  const Dims order = dims_arg(view.made_by, 1);
  Dims inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t from = wrap_dim(order[i], order.size());
    inverse[static_cast<size_t>(from)] = static_cast<int64_t>(i);
  }
  return call("aten.permute", {{value}, dims_argument(inverse)});
}

// The pieces before this one take the first places of the dim.
Node piece_back(const ViewPlace& view, ValueId old, ValueId value) {
  const int64_t dim = dim_argument(view, 2, 0);
  const auto at = static_cast<size_t>(dim);
  const Dims sizes = dims_arg(view.made_by, 1);
  int64_t start = 0;
  if (stem_of(view.made_by) == "split") {
    start = sizes.front() * view.result;
  } else {
    start =
        std::accumulate(sizes.begin(), sizes.begin() + view.result, int64_t{0});
  }
  return call(
      "aten.slice_scatter",
      {{old}, {value}, {dim}, {start}, {start + view.type.sizes[at]}});
}

Node reshaped_back(const ViewPlace& view, ValueId value) {
  return view.type.dtype != view.parent_type.dtype
             ? call("aten.view.dtype", {{value}, {view.parent_type.dtype}})
             : call(
                   "aten.reshape",
                   {{value}, dims_argument(view.parent_type.sizes)});
}

// The scatter form of a view that takes a part, with its own arguments.
Node scattered_back(
    const ViewPlace& view, std::string op, ValueId old, ValueId value) {
  Node node = call(std::move(op), {{old}, {value}});
  node.args.insert(
      node.args.end(), view.made_by.args.begin() + 1, view.made_by.args.end());
  return node;
}

}  // namespace

Arg dims_argument(const Dims& dims) {
  Arg::List list;
  for (const int64_t dim : dims) {
    list.push_back({dim});
  }
  return {std::move(list)};
}

bool is_whole(const ViewPlace& view) {
  return view.type == view.parent_type && view.offset == view.parent_offset;
}

std::optional<WriteBack> write_back(
    const ViewPlace& view, ValueId old, ValueId value) {
  const std::string_view stem = stem_of(view.made_by);
  if (stem == "transpose" || stem == "t") {
    Node node = view.made_by;
    node.args.front() = {value};
    return WriteBack{std::move(node), "transpose"};
  }
  if (stem == "permute") {
    return WriteBack{permuted_back(view, value), "permute"};
  }
  if (stem == "select" || stem == "unbind") {
    const int64_t at = stem == "select" ? int_arg(view.made_by, 2, 0)
                                        : static_cast<int64_t>(view.result);
    return WriteBack{
        call(
            "aten.select_scatter",
            {{old}, {value}, {dim_argument(view, 1, 0)}, {at}}),
        "select_scatter"};
  }
  if (stem == "slice") {
    return WriteBack{
        scattered_back(view, "aten.slice_scatter", old, value),
        "slice_scatter"};
  }
  if (stem == "split" || stem == "split_with_sizes") {
    return WriteBack{piece_back(view, old, value), "slice_scatter"};
  }
  if (stem == "diagonal") {
    return WriteBack{
        scattered_back(view, "aten.diagonal_scatter", old, value),
        "diagonal_scatter"};
  }
  if (stem == "view" || stem == "_unsafe_view" || stem == "unsqueeze" ||
      stem == "squeeze") {
    return WriteBack{reshaped_back(view, value), "reshape"};
  }
  if (stem == "view_as_real") {
    return WriteBack{
        call("aten.view_as_complex", {{value}}), "view_as_complex"};
  }
  if (stem == "view_as_complex") {
    return WriteBack{call("aten.view_as_real", {{value}}), "view_as_real"};
  }
  if (stem == "conj_physical" || stem == "neg") {
    Node node = view.made_by;
    node.args.front() = {value};
    return WriteBack{std::move(node), std::string(stem)};
  }
  return std::nullopt;
}

WriteBack write_region(const ViewPlace& view, ValueId old, ValueId value) {
  return {
      call(
          "aten.as_strided_scatter",
          {{old},
           {value},
           dims_argument(view.type.sizes),
           dims_argument(strides_of(view.type)),
           {view.offset - view.parent_offset}}),
      "as_strided_scatter"};
}

}  // namespace weft
