// SPDX-License-Identifier: Apache-2.0
// Which value of the Graph each tensor of the running step holds.
//
// PyTorch's tensors share storages and are changed in place; a Graph has
// neither. The table keeps, for every storage, the tensors seen in it as a tree
// of views below the first one. A write gives the root a new version; views of
// an older version are emitted again when they are next read.
//
// A tensor is known by its storage, offset, sizes, strides and dtype, and by
// whether it is to be read conjugated or negated; never by its TensorImpl:
// autograd hands saved tensors back as new ones. A value of a Graph is what the
// elements are: a conjugate is a node (conj_physical) below the view of the
// memory that it reads, and nothing hangs below it.
#pragma once

#include "capture/view_write.h"
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

// The same memory without the marks that it is to be read conjugated or
// negated, and its sizes as they are now.
at::Tensor memory_of(const at::Tensor& tensor);

class StorageTable {
 public:
  explicit StorageTable(Emit emit) : emit_(std::move(emit)) {}

  // The tensor's value now, or nothing when no tensor was seen there. Throws
  // UserError for a tensor that lies partly in one that was seen.
  std::optional<ValueId> find(const at::Tensor& tensor);

  // Whether `find` would give a value that is there already.
  bool is_current(const at::Tensor& tensor) const;

  // A tensor that is no view of one seen before.
  void add(const at::Tensor& tensor, ValueId value);

  // Results of a view node over `base` (the value of `base` is operand 0 of
  // `node`, which has been emitted already). All are memory_of themselves.
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
    // Those of dims of size 1 included, which the type leaves out: they say
    // nothing about memory, but ATen chooses kernels by them.
    Dims strides;
    // What a node below its parent makes of the elements: it has no place in
    // the memory of its own.
    bool is_marked = false;
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

  // The view of the tensor's memory, with the tensor's own strides of dims of
  // size 1 if there is one; -1 when there is none.
  int find_view(const Record& record, const at::Tensor& tensor) const;
  static bool has_strides(const View& view, const at::Tensor& tensor);
  // As find_view, adding an as_strided view of what lies around it when there
  // is none; -1 when nothing lies around it.
  int find_or_add_view(Record& record, const at::Tensor& tensor);
  // The root around it, or all of that root read as the view's element type.
  int find_around(Record& record, const View& view);
  // All of a complex root as real and imaginary parts.
  int add_parts(Record& record, int root);
  // The same with the tensor's marks.
  int with_marks(Record& record, int view, const at::Tensor& tensor);
  int with_mark(Record& record, int view, const char* op);
  // Throws UserError when another root lies in the same memory.
  void check_alone(const Record& record, int root) const;
  ValueId current(Record& record, int view);
  void make_again(Record& record, int view);
  // The value, which has no gaps, with those of the root's type.
  ValueId laid_out(Record& record, int root, ValueId value);
  // Writes into the parent, or into what lies around the view, and gives its
  // index and value.
  std::pair<int, ValueId> write_up(Record& record, int view, ValueId value);

  Emit emit_;
  std::unordered_map<const c10::StorageImpl*, Record> records_;
};

}  // namespace weft
