// SPDX-License-Identifier: Apache-2.0
#include "capture/storage_table.h"

#include "aten/types.h"
#include "base/error.h"
#include "ops/kernel.h"
#include "ops/split.h"

#include <c10/core/StorageImpl.h>

#include <string_view>

namespace weft {
namespace {

// A version that no root has.
constexpr int64_t kOutOfDate = -1;

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

Arg dims_arg(const Dims& dims) {
  Arg::List list;
  for (const int64_t dim : dims) {
    list.push_back({dim});
  }
  return {std::move(list)};
}

int64_t int_at(const Node& node, size_t i, int64_t fallback) {
  if (i >= node.args.size()) {
    return fallback;
  }
  const auto* value = std::get_if<int64_t>(&node.args[i].data);
  return value ? *value : fallback;
}

int64_t wrap(int64_t dim, size_t ndim) {
  return dim < 0 ? dim + static_cast<int64_t>(ndim) : dim;
}

Node scatter(
    std::string op, ValueId base, ValueId piece, std::vector<int64_t> numbers) {
  Node node;
  node.op = std::move(op);
  node.args = {{base}, {piece}};
  for (const int64_t number : numbers) {
    node.args.push_back({number});
  }
  return node;
}

}  // namespace

std::optional<ValueId> StorageTable::find(const at::Tensor& tensor) {
  const auto found = records_.find(storage_of(tensor));
  if (found == records_.end()) {
    return std::nullopt;
  }
  return current(found->second, require_view(found->second, tensor));
}

bool StorageTable::is_current(const at::Tensor& tensor) const {
  const auto found = records_.find(storage_of(tensor));
  if (found == records_.end()) {
    return false;
  }
  const int view = find_view(found->second, tensor);
  return view >= 0 && found->second.is_current(view);
}

void StorageTable::add(const at::Tensor& tensor, ValueId value) {
  View root;
  root.offset = tensor.storage_offset();
  root.type = type_of(tensor);
  root.value = value;
  Record& record = records_[storage_of(tensor)];
  root.root = static_cast<int>(record.views.size());
  record.views.push_back(std::move(root));
}

void StorageTable::add_views(
    const at::Tensor& base,
    const std::vector<at::Tensor>& views,
    const Node& node,
    const std::vector<ValueId>& values) {
  const auto found = records_.find(storage_of(base));
  WEFT_CHECK(found != records_.end(), node.op, " of an unknown storage");
  Record& record = found->second;
  const int parent = require_view(record, base);
  for (size_t i = 0; i < views.size(); ++i) {
    const int known = find_view(record, views[i]);
    if (known >= 0) {
      // The same region again: newer name, same place in the tree.
      record.at(known).value = values[i];
      record.at(known).version = record.at(record.at(known).root).version;
      continue;
    }
    View view;
    view.root = record.at(parent).root;
    view.offset = views[i].storage_offset();
    view.type = type_of(views[i]);
    view.value = values[i];
    view.version = record.at(view.root).version;
    view.parent = parent;
    view.made_by = node;
    view.made_by.releases.clear();
    view.result = static_cast<int>(i);
    record.views.push_back(std::move(view));
  }
}

void StorageTable::write(const at::Tensor& tensor, ValueId value) {
  const auto found = records_.find(storage_of(tensor));
  WEFT_CHECK(found != records_.end(), "write into an unknown storage");
  Record& record = found->second;
  int view = require_view(record, tensor);
  std::vector<std::pair<int, ValueId>> chain = {{view, value}};
  while (record.at(view).parent >= 0) {
    value = written_parent(record, view, value);
    view = record.at(view).parent;
    chain.emplace_back(view, value);
  }
  const int64_t version = record.at(view).version + 1;
  for (const auto& [index, written] : chain) {
    View& one = record.at(index);
    // What was written has no gaps: a view that has is read from its parent.
    const bool is_written = one.parent < 0 || is_dense(one.type);
    one.value = is_written ? written : one.value;
    one.version = is_written ? version : kOutOfDate;
  }
}

std::optional<ValueId> StorageTable::remove(const c10::StorageImpl* storage) {
  const auto found = records_.find(storage);
  if (found == records_.end()) {
    return std::nullopt;
  }
  const ValueId root = found->second.views.front().value;
  records_.erase(found);
  return root;
}

int StorageTable::find_view(
    const Record& record, const at::Tensor& tensor) const {
  const DType dtype = dtype_of(tensor.scalar_type());
  for (size_t i = 0; i < record.views.size(); ++i) {
    const View& view = record.views[i];
    if (view.offset != tensor.storage_offset() || view.type.dtype != dtype ||
        tensor.sizes() != c10::IntArrayRef(view.type.sizes)) {
      continue;
    }
    if (view.type.strides.empty() ? tensor.is_contiguous()
                                  : view.type == type_of(tensor)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int StorageTable::require_view(Record& record, const at::Tensor& tensor) {
  const int known = find_view(record, tensor);
  if (known >= 0) {
    return known;
  }
  // Made without a call of the dispatcher (.data, set_data): say where it lies.
  View view;
  view.offset = tensor.storage_offset();
  view.type = type_of(tensor);
  view.version = kOutOfDate;
  // The root that starts last before it.
  for (size_t i = 0; i < record.views.size(); ++i) {
    const View& other = record.views[i];
    if (other.parent < 0 && other.offset <= view.offset &&
        other.offset >= record.at(view.root).offset) {
      view.root = static_cast<int>(i);
    }
  }
  view.parent = view.root;
  const View& root = record.at(view.root);
  WEFT_CHECK_USER(
      root.type.dtype == view.type.dtype,
      "[capture] a storage of ",
      name(root.type.dtype),
      " is read as ",
      name(view.type.dtype),
      " without a recorded view: use Tensor.view(dtype)");
  view.made_by.op = "aten.as_strided";
  view.made_by.args = {
      {root.value},
      dims_arg(view.type.sizes),
      dims_arg(strides_of(view.type)),
      {view.offset - root.offset}};
  record.views.push_back(std::move(view));
  return static_cast<int>(record.views.size()) - 1;
}

ValueId StorageTable::current(Record& record, int index) {
  if (record.is_current(index)) {
    return record.at(index).value;
  }
  const int parent = record.at(index).parent;
  const ValueId base = current(record, parent);
  const int64_t version = record.at(parent).version;
  Node node = record.at(index).made_by;
  node.args.front() = {base};
  // Every result of the same call is made again with it.
  std::vector<int> siblings;
  std::vector<TensorType> types;
  for (size_t i = 0; i < record.views.size(); ++i) {
    const View& other = record.views[i];
    if (other.parent == parent && other.made_by.op == node.op &&
        std::equal(
            other.made_by.args.begin() + 1,
            other.made_by.args.end(),
            node.args.begin() + 1,
            node.args.end()) &&
        other.made_by.options == node.options) {
      siblings.push_back(static_cast<int>(i));
    }
  }
  int results = 0;
  for (const int i : siblings) {
    results = std::max(results, record.at(i).result + 1);
  }
  types.resize(static_cast<size_t>(results));
  for (const int i : siblings) {
    const View& other = record.at(i);
    types[static_cast<size_t>(other.result)] = other.type;
  }
  const size_t dot = node.op.find('.');
  std::string stem = node.op.substr(dot + 1);
  stem = stem.substr(0, stem.find('.'));
  const std::vector<ValueId> values = emit_(node, stem, types);
  for (const int i : siblings) {
    View& other = record.at(i);
    other.value = values[static_cast<size_t>(other.result)];
    other.version = version;
  }
  return record.at(index).value;
}

ValueId StorageTable::written_parent(Record& record, int index, ValueId value) {
  const int parent = record.at(index).parent;
  const ValueId old = current(record, parent);
  const View& view = record.at(index);
  const TensorType& type = record.at(parent).type;
  const Node& made = view.made_by;
  const size_t ndim = type.sizes.size();
  std::string_view op = made.op;
  op = op.substr(op.find('.') + 1);
  const auto is = [&](std::string_view stem) {
    return op == stem ||
           (op.size() > stem.size() && op.substr(0, stem.size()) == stem &&
            op[stem.size()] == '.');
  };
  Node node;
  std::string stem;
  if (is("detach") || is("alias") || is("lift_fresh") || view.type == type) {
    return value;
  }
  if (is("transpose") || is("t")) {
    node = made;
    node.args.front() = {value};
    stem = "transpose";
  } else if (is("permute")) {
    const auto& order = std::get<Arg::List>(made.args[1].data);
    Dims inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t from = wrap(std::get<int64_t>(order[i].data), ndim);
      inverse[static_cast<size_t>(from)] = static_cast<int64_t>(i);
    }
    node.op = "aten.permute";
    node.args = {{value}, dims_arg(inverse)};
    stem = "permute";
  } else if (is("select")) {
    node = scatter(
        "aten.select_scatter",
        old,
        value,
        {int_at(made, 1, 0), int_at(made, 2, 0)});
    stem = "select_scatter";
  } else if (is("unbind")) {
    node = scatter(
        "aten.select_scatter", old, value, {int_at(made, 1, 0), view.result});
    stem = "select_scatter";
  } else if (is("slice")) {
    node.op = "aten.slice_scatter";
    node.args = {{old}, {value}};
    node.args.insert(node.args.end(), made.args.begin() + 1, made.args.end());
    stem = "slice_scatter";
  } else if (
      is("view") || is("_unsafe_view") || is("_reshape_alias") ||
      is("unsqueeze") || is("squeeze")) {
    if (view.type.dtype != type.dtype) {
      node.op = "aten.view.dtype";
      node.args = {{value}, {type.dtype}};
    } else {
      node.op = "aten.reshape";
      node.args = {{value}, dims_arg(type.sizes)};
    }
    stem = "reshape";
  } else {
    // Any other region of the root, by its place in memory.
    node.op = "aten.as_strided_scatter";
    node.args = {
        {old},
        {value},
        dims_arg(view.type.sizes),
        dims_arg(strides_of(view.type)),
        {view.offset - record.at(parent).offset}};
    stem = "as_strided_scatter";
  }
  node.overwrites = old;
  const bool has_gaps = record.at(parent).parent >= 0 && !is_dense(type);
  const TensorType written = has_gaps ? with_sizes(type, type.sizes) : type;
  return emit_(std::move(node), stem, {written}).front();
}

}  // namespace weft
