// SPDX-License-Identifier: Apache-2.0
#include "capture/storage_table.h"

#include "aten/types.h"
#include "base/error.h"
#include "ops/iterator.h"
#include "ops/kernel.h"
#include "ops/split.h"

#include <c10/core/StorageImpl.h>

namespace weft {
namespace {

// A version that no root has.
constexpr int64_t kOutOfDate = -1;

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// "slice" of "aten.slice.Tensor".
std::string stem_of(const std::string& op) {
  const std::string rest = op.substr(op.find('.') + 1);
  return rest.substr(0, rest.find('.'));
}

// From the first byte to behind the last, in the storage.
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;
};

Extent extent_of(int64_t offset, const TensorType& type) {
  const int64_t begin = offset * element_bytes(type.dtype);
  return {begin, begin + storage_bytes(type)};
}

bool contains(const Extent& outer, const Extent& inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

bool meet(const Extent& a, const Extent& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace

at::Tensor memory_of(const at::Tensor& tensor) {
  at::Tensor alias(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      /*version_counter=*/0, /*allow_tensor_metadata_change=*/true));
  alias._set_conj(false);
  alias._set_neg(false);
  return alias;
}

std::optional<ValueId> StorageTable::find(const at::Tensor& tensor) {
  const auto found = records_.find(storage_of(tensor));
  if (found == records_.end()) {
    return std::nullopt;
  }
  Record& record = found->second;
  const int view = find_or_add_view(record, tensor);
  if (view < 0) {
    return std::nullopt;
  }
  return current(record, with_marks(record, view, tensor));
}

bool StorageTable::is_current(const at::Tensor& tensor) const {
  const auto found = records_.find(storage_of(tensor));
  if (found == records_.end()) {
    return false;
  }
  const int view = find_view(found->second, tensor);
  return view >= 0 && has_strides(found->second.at(view), tensor) &&
         found->second.is_current(view);
}

void StorageTable::add(const at::Tensor& tensor, ValueId value) {
  Record& record = records_[storage_of(tensor)];
  const int root = static_cast<int>(record.views.size());
  View made;
  made.offset = tensor.storage_offset();
  made.type = type_of(tensor);
  made.strides = tensor.strides().vec();
  made.root = root;
  record.views.push_back(std::move(made));
  // The value has the marks in it: the memory below is worked out from it.
  for (int view = with_marks(record, root, tensor); view != root;
       view = record.at(view).parent) {
    View& marked = record.at(view);
    marked.value = value;
    marked.version = record.at(root).version;
    Node node = marked.made_by;
    node.args.front() = {value};
    const TensorType& type = record.at(marked.parent).type;
    value = emit_(node, stem_of(node.op), {type}).front();
  }
  record.at(root).value = value;
}

void StorageTable::add_views(
    const at::Tensor& base,
    const std::vector<at::Tensor>& views,
    const Node& node,
    const std::vector<ValueId>& values) {
  const auto found = records_.find(storage_of(base));
  WEFT_CHECK(found != records_.end(), node.op, " of an unknown storage");
  Record& record = found->second;
  const int parent = find_or_add_view(record, base);
  WEFT_CHECK(parent >= 0, node.op, " of an unknown tensor");
  for (size_t i = 0; i < views.size(); ++i) {
    const int known = find_view(record, views[i]);
    if (known >= 0 && has_strides(record.at(known), views[i])) {
      // The same region again: newer name, same place in the tree.
      record.at(known).value = values[i];
      record.at(known).version = record.at(record.at(known).root).version;
      continue;
    }
    View view;
    view.root = record.at(parent).root;
    view.offset = views[i].storage_offset();
    view.type = type_of(views[i]);
    view.strides = views[i].strides().vec();
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
  int view = find_or_add_view(record, tensor);
  WEFT_CHECK(view >= 0, "write into an unknown tensor");
  check_alone(record, record.at(view).root);
  view = with_marks(record, view, tensor);
  if (record.at(view).parent < 0) {
    value = laid_out(record, view, value);
  }
  std::vector<std::pair<int, ValueId>> chain = {{view, value}};
  while (record.at(chain.back().first).parent >= 0) {
    chain.push_back(write_up(record, chain.back().first, chain.back().second));
  }
  const int64_t version = record.at(chain.back().first).version + 1;
  for (const auto& [index, written] : chain) {
    View& one = record.at(index);
    // What was written has no gaps: a view that has is read from its parent.
    const bool is_written = one.parent < 0 || is_dense(one.type);
    one.value = is_written ? written : one.value;
    one.version = is_written ? version : kOutOfDate;
  }
}

void StorageTable::check_alone(const Record& record, int root) const {
  const View& written = record.at(root);
  for (const View& other : record.views) {
    WEFT_CHECK_USER(
        other.parent >= 0 || other.root == root ||
            !meet(
                extent_of(written.offset, written.type),
                extent_of(other.offset, other.type)),
        "[capture] a tensor of ",
        print(written.type),
        " is changed in place, and shares memory with another one that came "
        "from outside the step: give one of them a clone()");
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
  int found = -1;
  for (size_t i = 0; i < record.views.size(); ++i) {
    const View& view = record.views[i];
    if (view.is_marked || view.offset != tensor.storage_offset() ||
        view.type.dtype != dtype ||
        tensor.sizes() != c10::IntArrayRef(view.type.sizes)) {
      continue;
    }
    if (has_strides(view, tensor)) {
      return static_cast<int>(i);
    }
    if (found < 0 && view.type == type_of(tensor)) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

bool StorageTable::has_strides(const View& view, const at::Tensor& tensor) {
  return tensor.strides() == c10::IntArrayRef(view.strides);
}

int StorageTable::find_around(Record& record, const View& view) {
  const Extent extent = extent_of(view.offset, view.type);
  const View* other_type = nullptr;
  int complex = -1;
  bool is_cut = false;
  for (size_t i = 0; i < record.views.size(); ++i) {
    const View& other = record.views[i];
    const View& root = record.at(other.root);
    const Extent around = extent_of(other.offset, other.type);
    const Extent whole = extent_of(root.offset, root.type);
    is_cut = is_cut || meet(whole, extent);
    // A root, or all of it read as another element type.
    if (other.is_marked || !contains(around, extent) ||
        around.begin != whole.begin || around.end != whole.end) {
      continue;
    }
    if (other.type.dtype == view.type.dtype &&
        (other.parent < 0 || is_dense(other.type))) {
      return static_cast<int>(i);
    }
    other_type = &other;
    if (other.parent < 0 && is_dense(other.type) &&
        view.type.dtype == real_type(other.type.dtype)) {
      complex = static_cast<int>(i);
    }
  }
  if (complex >= 0) {
    return add_parts(record, complex);
  }
  WEFT_CHECK_USER(
      other_type == nullptr,
      "[capture] a storage of ",
      name(other_type->type.dtype),
      " is read as ",
      name(view.type.dtype),
      " without a recorded view: use Tensor.view(dtype)");
  WEFT_CHECK_USER(
      !is_cut,
      "[capture] a tensor of ",
      print(view.type),
      " overlaps one of the model's tensors, of which it is no part: take a "
      "clone() of what is needed of it");
  return -1;
}

int StorageTable::add_parts(Record& record, int root) {
  const View& whole = record.at(root);
  View parts;
  parts.offset = 2 * whole.offset;
  Dims sizes = whole.type.sizes;
  Dims strides = strides_of(whole.type);
  for (int64_t& stride : strides) {
    stride *= 2;
  }
  sizes.push_back(2);
  strides.push_back(1);
  parts.strides = strides;
  parts.type = make_type(
      real_type(whole.type.dtype), std::move(sizes), std::move(strides));
  parts.version = kOutOfDate;
  parts.root = root;
  parts.parent = root;
  parts.made_by.op = "aten.view_as_real";
  parts.made_by.args = {{whole.value}};
  record.views.push_back(std::move(parts));
  return static_cast<int>(record.views.size()) - 1;
}

int StorageTable::find_or_add_view(Record& record, const at::Tensor& tensor) {
  const int known = find_view(record, tensor);
  if (known >= 0) {
    return known;
  }
  // Made by as_strided, or without a call of the dispatcher (.data, set_data):
  // say where it lies.
  View view;
  view.offset = tensor.storage_offset();
  view.type = type_of(tensor);
  view.strides = tensor.strides().vec();
  view.version = kOutOfDate;
  view.parent = find_around(record, view);
  if (view.parent < 0) {
    return -1;
  }
  const View& around = record.at(view.parent);
  view.root = around.root;
  view.made_by.op = "aten.as_strided";
  view.made_by.args = {
      {around.value},
      dims_argument(view.type.sizes),
      dims_argument(strides_of(view.type)),
      {view.offset - around.offset}};
  record.views.push_back(std::move(view));
  return static_cast<int>(record.views.size()) - 1;
}

int StorageTable::with_marks(
    Record& record, int view, const at::Tensor& tensor) {
  if (tensor.is_conj()) {
    view = with_mark(record, view, "aten.conj_physical");
  }
  return tensor.is_neg() ? with_mark(record, view, "aten.neg") : view;
}

int StorageTable::with_mark(Record& record, int view, const char* op) {
  for (size_t i = 0; i < record.views.size(); ++i) {
    const View& other = record.views[i];
    if (other.is_marked && other.parent == view && other.made_by.op == op) {
      return static_cast<int>(i);
    }
  }
  const View& memory = record.at(view);
  View marked;
  marked.offset = memory.offset;
  marked.type = like(memory.type);
  marked.strides = strides_of(marked.type);
  marked.is_marked = true;
  marked.version = kOutOfDate;
  marked.root = memory.root;
  marked.parent = view;
  marked.made_by.op = op;
  marked.made_by.args = {{memory.value}};
  record.views.push_back(std::move(marked));
  return static_cast<int>(record.views.size()) - 1;
}

ValueId StorageTable::current(Record& record, int index) {
  if (!record.is_current(index)) {
    make_again(record, index);
  }
  return record.at(index).value;
}

void StorageTable::make_again(Record& record, int index) {
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
  const std::vector<ValueId> values = emit_(node, stem_of(node.op), types);
  for (const int i : siblings) {
    View& other = record.at(i);
    other.value = values[static_cast<size_t>(other.result)];
    other.version = version;
  }
}

ValueId StorageTable::laid_out(Record& record, int root, ValueId value) {
  const View& view = record.at(root);
  if (is_dense(view.type)) {
    return value;
  }
  // What lies below is read by its place: the gaps have to stay.
  Node node;
  node.op = "aten.copy";
  node.args = {{view.value}, {value}};
  node.overwrites = view.value;
  return emit_(std::move(node), "copy", {view.type}).front();
}

std::pair<int, ValueId> StorageTable::write_up(
    Record& record, int index, ValueId value) {
  int parent = record.at(index).parent;
  const auto place = [&] {
    const View& view = record.at(index);
    const View& above = record.at(parent);
    return ViewPlace{
        view.made_by,
        view.result,
        view.type,
        view.offset,
        above.type,
        above.offset};
  };
  if (!record.at(index).is_marked && is_whole(place())) {
    return {parent, value};
  }
  ValueId old = current(record, parent);
  std::optional<WriteBack> back = write_back(place(), old, value);
  if (!back) {
    parent = find_around(record, record.at(index));
    old = current(record, parent);
    back = write_region(place(), old, value);
  }
  const View& above = record.at(parent);
  const bool keeps_gaps = above.parent < 0 && back->stem.ends_with("_scatter");
  back->node.overwrites = old;
  value = emit_(
              std::move(back->node),
              back->stem,
              {is_dense(above.type) || keeps_gaps
                   ? above.type
                   : with_sizes(above.type, above.type.sizes)})
              .front();
  if (above.parent < 0 && !keeps_gaps) {
    value = laid_out(record, parent, value);
  }
  return {parent, value};
}

}  // namespace weft
