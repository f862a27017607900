// SPDX-License-Identifier: Apache-2.0
// Which value of the Graph each tensor of the running step holds.
//
// PyTorch's tensors share storages and are changed in place; a Graph has
// neither. The table keeps, for every storage, the tensors seen in it as a tree
// of views below the first one. A write gives the root a new version; views of
// an older version are emitted again when they are next read.
//
// A tensor is known by its storage, offset, sizes, strides and dtype, never by
// its TensorImpl: autograd hands saved tensors back as new ones.
#pragma once

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weft {

// Appends a node with results of these types to the function being recorded
// and returns them. `stem` names them.
using Emit = std::function<std::vector<ValueId>(
    Node node, const std::string& stem, const std::vector<TensorType>& types)>;

class StorageTable {
 public:
  explicit StorageTable(Emit emit) : emit_(std::move(emit)) {}

  // The tensor's value now, or nothing when its storage is not known.
  std::optional<ValueId> find(const at::Tensor& tensor);

  // Whether `find` would give a value that is there already.
  bool is_current(const at::Tensor& tensor) const;

  // A tensor that is no view of one seen before.
  void add(const at::Tensor& tensor, ValueId value);

  // Results of a view node over `base` (the value of `base` is operand 0 of
  // `node`, which has been emitted already).
  void add_views(
      const at::Tensor& base,
      const std::vector<at::Tensor>& views,
      const Node& node,
      const std::vector<ValueId>& values);

  // The content of `tensor` is now `value`; writes through to everything that
  // shares its storage.
  void write(const at::Tensor& tensor, ValueId value);

  // Any value that lies in the storage, and forgets the storage.
  std::optional<ValueId> remove(const c10::StorageImpl* storage);

  // Empties `other` into this one.
  void take_records(StorageTable& other) {
    records_ = std::move(other.records_);
    other.records_.clear();
  }

 private:
  struct View {
    int64_t offset = 0;
    TensorType type;
    ValueId value = ValueId::None;
    // Counts the writes below a root; a view is out of date when its number is
    // not that of its root.
    int64_t version = 0;
    // Indices in Record::views; a root is its own and has no parent.
    int root = 0;
    int parent = -1;
    // How the view is made from its parent, and which result it is.
    Node made_by;
    int result = 0;
  };
  struct Record {
    // More than one root where tensors that were bound apart lie in one
    // storage, as parameters cut from a flat buffer do; they do not overlap.
    std::vector<View> views;

    View& at(int i) { return views[static_cast<size_t>(i)]; }
    const View& at(int i) const { return views[static_cast<size_t>(i)]; }
    bool is_current(int i) const {
      return at(i).version == at(at(i).root).version;
    }
  };

  int find_view(const Record& record, const at::Tensor& tensor) const;
  // As find_view, adding an as_strided view of the root when there is none.
  int require_view(Record& record, const at::Tensor& tensor);
  ValueId current(Record& record, int view);
  // The value of the parent with the content of view `view` replaced.
  ValueId written_parent(Record& record, int view, ValueId value);

  Emit emit_;
  std::unordered_map<const c10::StorageImpl*, Record> records_;
};

}  // namespace weft
