// SPDX-License-Identifier: Apache-2.0
#include "lower/emit_move.h"

#include "base/error.h"
#include "lower/move.h"
#include "ops/call.h"
#include "program/piece.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

Arg list_of(const std::vector<ValueId>& values) {
  Arg::List list;
  for (const ValueId value : values) {
    list.push_back({value});
  }
  return {list};
}

class Mover {
 public:
  Mover(Emitter& emitter, ValueId value, bool is_owned)
      : emitter_(emitter),
        base_(emitter.block.function[value].name),
        now_(value),
        is_owned_(is_owned) {}

  ValueId run(
      const TensorType& whole,
      const Layout& to,
      const std::vector<MoveStep>& steps) {
    // That of the whole value: the order of a piece with dims of size 1 would
    // be ambiguous, and all ranks must agree.
    order_ = memory_order(strides_of(whole));
    permute(order_);
    for (const MoveStep& step : steps) {
      unfold(step);
      emit(step);
    }
    fold(whole, to);
    return now_;
  }

 private:
  const TensorType& type() const { return emitter_.block.function[now_].type; }
  Layout layout() const { return emitter_.block.layouts[index(now_)]; }
  DType dtype() const { return type().dtype; }

  void call(
      std::string_view op,
      std::vector<Arg> args,
      TensorType type,
      Layout layout) {
    args.insert(args.begin(), {now_});
    now_ = emitter_.call(
        op, std::move(args), std::move(type), std::move(layout), base_);
  }

  void make_row_major() {
    const ValueId before = std::exchange(now_, emitter_.row_major(now_, base_));
    is_owned_ = is_owned_ || now_ != before;
  }

  // Dim i becomes the old dim order[i].
  void permute(const std::vector<size_t>& order) {
    if (std::is_sorted(order.begin(), order.end())) {
      return;
    }
    Dims dims;
    Dims sizes;
    Dims strides;
    Layout after;
    after.partial = layout().partial;
    const Dims before = strides_of(type());
    for (const size_t dim : order) {
      dims.push_back(static_cast<int64_t>(dim));
      sizes.push_back(type().sizes[dim]);
      strides.push_back(before[dim]);
      after.dims.push_back(layout().dims[dim]);
    }
    call(
        "aten.permute",
        {to_arg(dims)},
        make_type(dtype(), sizes, strides),
        after);
  }

  // Row-major and of these sizes.
  void view(const Dims& sizes, const Layout& after) {
    make_row_major();
    if (type().sizes == sizes && layout() == after) {
      return;
    }
    call("aten.view", {to_arg(sizes)}, make_type(dtype(), sizes), after);
  }

  // One dim a cell, in the order of memory.
  void unfold(const MoveStep& step) {
    cells_.clear();
    place_.assign(step.cells.size(), 0);
    Dims sizes;
    for (const size_t dim : order_) {
      for (size_t i = 0; i < step.cells.size(); ++i) {
        if (step.cells[i].dim == static_cast<int>(dim)) {
          place_[i] = cells_.size();
          cells_.push_back(step.cells[i]);
          sizes.push_back(mine(cells_.back()).size);
        }
      }
    }
    partial_ = step.partial;
    if (type().sizes != sizes || layout() != cell_layout()) {
      view(sizes, cell_layout());
    }
  }

  Piece mine(const Cell& cell) const {
    return piece_of(emitter_.mesh, cell.axes, cell.size, emitter_.rank);
  }

  Layout cell_layout() const {
    Layout out;
    out.partial = partial_;
    for (const Cell& cell : cells_) {
      out.dims.push_back(
          canonical({{cell.size, cell.axes}}, cell.size, emitter_.mesh));
    }
    return out;
  }

  // Of the members of this rank's group over `axis`, in order.
  std::vector<Piece> pieces(const Cell& cell, const std::string& axis) const {
    std::vector<Piece> out;
    for (const int64_t rank : group_of(emitter_.mesh, {axis}, emitter_.rank)) {
      out.push_back(piece_of(emitter_.mesh, cell.axes, cell.size, rank));
    }
    return out;
  }

  // On any rank.
  int64_t largest(const Cell& cell) const {
    return largest_piece(emitter_.mesh, cell.axes, cell.size);
  }

  static bool are_equal(const std::vector<Piece>& pieces, int64_t size) {
    return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
      return piece.size == size;
    });
  }

  void slice(size_t dim, int64_t start, int64_t size, Layout after) {
    Dims sizes = type().sizes;
    if (start == 0 && sizes[dim] == size) {
      return;
    }
    const Dims strides = strides_of(type());
    sizes[dim] = size;
    call(
        "aten.slice.Tensor",
        {{static_cast<int64_t>(dim)}, {start}, {start + size}},
        make_type(dtype(), sizes, strides),
        std::move(after));
  }

  void pad(size_t dim, int64_t size, Layout after) {
    Dims sizes = type().sizes;
    const int64_t missing = size - sizes[dim];
    if (missing == 0) {
      return;
    }
    Dims amounts(2 * (sizes.size() - dim), 0);
    amounts.back() = missing;
    sizes[dim] = size;
    make_row_major();
    call(
        "aten.constant_pad_nd",
        {to_arg(amounts)},
        make_type(dtype(), sizes),
        std::move(after));
    is_owned_ = true;
  }

  // The layout of what travels: `first` dims, then the cells, of which those in
  // `apart` have lost their last axis to the first dims and are padded.
  Layout packed_layout(
      const std::vector<Levels>& first,
      const std::vector<size_t>& apart) const {
    Layout out = cell_layout();
    for (const size_t dim : apart) {
      out.dims[dim] = split_over(cells_[dim].axes);
    }
    out.dims.insert(out.dims.begin(), first.begin(), first.end());
    return out;
  }

  void transfer(TransferKind kind, const Axes& axes, Dims sizes, Layout after) {
    make_row_major();
    now_ = emitter_.transfer(
        kind,
        now_,
        axes,
        make_type(dtype(), std::move(sizes)),
        std::move(after),
        base_);
    is_owned_ = true;
  }

  // Splits dim `dim` into pieces for the members and puts those in front:
  // [ways, ...]. `after` has one dim more.
  void pack(
      size_t dim,
      const std::vector<Piece>& parts,
      int64_t size,
      const Layout& after) {
    Dims sizes = type().sizes;
    const auto count = static_cast<int64_t>(parts.size());
    if (!are_equal(parts, size)) {
      Layout part = after;
      part.dims.erase(part.dims.begin());
      const ValueId all = now_;
      std::vector<ValueId> stacked;
      for (const Piece& piece : parts) {
        now_ = all;
        slice(dim, piece.start - parts.front().start, piece.size, part);
        pad(dim, size, part);
        stacked.push_back(now_);
      }
      sizes[dim] = size;
      sizes.insert(sizes.begin(), count);
      now_ = emitter_.call(
          "aten.stack",
          {list_of(stacked)},
          make_type(dtype(), sizes),
          after,
          base_);
      is_owned_ = true;
      return;
    }
    const bool is_first = std::all_of(
        sizes.begin(),
        sizes.begin() + static_cast<std::ptrdiff_t>(dim),
        [](int64_t other) { return other == 1; });
    sizes[dim] = size;
    if (is_first) {
      sizes.insert(sizes.begin(), count);
      view(sizes, after);
      return;
    }
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim), count);
    Layout apart = after;
    std::rotate(
        apart.dims.begin(),
        apart.dims.begin() + 1,
        apart.dims.begin() + static_cast<std::ptrdiff_t>(dim) + 1);
    view(sizes, apart);
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::rotate(
        order.begin(),
        order.begin() + static_cast<std::ptrdiff_t>(dim),
        order.begin() + static_cast<std::ptrdiff_t>(dim) + 1);
    permute(order);
    make_row_major();
  }

  // From [ways, ...]: lays the members' parts one after the other along `dim`.
  void unpack(
      size_t dim, const std::vector<Piece>& parts, const Layout& after) {
    Dims sizes = type().sizes;
    const auto count = static_cast<int64_t>(parts.size());
    sizes.erase(sizes.begin());
    if (!are_equal(parts, sizes[dim])) {
      const ValueId all = now_;
      std::vector<ValueId> joined;
      int64_t total = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t size = parts[static_cast<size_t>(i)].size;
        now_ = all;
        call(
            "aten.select.int",
            {{int64_t{0}}, {i}},
            make_type(dtype(), sizes),
            after);
        slice(dim, 0, size, after);
        joined.push_back(now_);
        total += size;
      }
      sizes[dim] = total;
      now_ = emitter_.call(
          "aten.cat",
          {list_of(joined), {static_cast<int64_t>(dim)}},
          make_type(dtype(), sizes),
          after,
          base_);
      is_owned_ = true;
      return;
    }
    Dims merged = sizes;
    merged[dim] *= count;
    const bool is_first = std::all_of(
        sizes.begin(),
        sizes.begin() + static_cast<std::ptrdiff_t>(dim),
        [](int64_t other) { return other == 1; });
    if (!is_first) {
      std::vector<size_t> order(sizes.size() + 1);
      std::iota(order.begin(), order.end(), size_t{0});
      std::rotate(
          order.begin(),
          order.begin() + 1,
          order.begin() + static_cast<std::ptrdiff_t>(dim) + 1);
      permute(order);
      make_row_major();
    }
    view(merged, after);
  }

  void emit(const MoveStep& step) {
    const size_t dim =
        step.cell < 0 ? 0 : place_[static_cast<size_t>(step.cell)];
    switch (step.kind) {
      case MoveKind::Slice:
        emit_slice(dim, step.axes.front());
        break;
      case MoveKind::AllReduce:
        emit_sum(step.axes);
        break;
      case MoveKind::AllGather:
        emit_gather(dim, step.axes.front());
        break;
      case MoveKind::ReduceScatter:
        emit_scatter(dim, step.axes.front());
        break;
      case MoveKind::AllToAll:
        emit_turn(
            place_[static_cast<size_t>(step.from)], dim, step.axes.front());
        break;
    }
  }

  void emit_slice(size_t dim, const std::string& axis) {
    const Piece before = mine(cells_[dim]);
    cells_[dim].axes.push_back(axis);
    const Piece after = mine(cells_[dim]);
    slice(dim, after.start - before.start, after.size, cell_layout());
    is_owned_ = false;
  }

  void emit_sum(const Axes& axes) {
    make_row_major();
    if (!is_owned_) {
      call("aten.clone", {}, type(), layout());
    }
    for (const std::string& axis : axes) {
      std::erase(partial_, axis);
    }
    transfer(TransferKind::AllReduce, axes, type().sizes, cell_layout());
  }

  void emit_gather(size_t dim, const std::string& axis) {
    const std::vector<Piece> parts = pieces(cells_[dim], axis);
    const int64_t size = largest(cells_[dim]);
    Layout loose = cell_layout();
    cells_[dim].axes.pop_back();
    loose.dims[dim] = split_over(cells_[dim].axes);
    pad(dim, size, loose);
    Dims sizes = type().sizes;
    sizes.insert(sizes.begin(), 1);
    view(sizes, packed_layout({split_over({axis})}, {dim}));
    sizes.front() = static_cast<int64_t>(parts.size());
    transfer(
        TransferKind::AllGather, {axis}, sizes, packed_layout({{}}, {dim}));
    unpack(dim, parts, cell_layout());
  }

  void emit_scatter(size_t dim, const std::string& axis) {
    const Axes outer = cells_[dim].axes;
    cells_[dim].axes.push_back(axis);
    const std::vector<Piece> parts = pieces(cells_[dim], axis);
    const int64_t size = largest(cells_[dim]);
    cells_[dim].axes = outer;
    pack(dim, parts, size, packed_layout({{}}, {dim}));
    Dims sizes = type().sizes;
    sizes.front() = 1;
    std::erase(partial_, axis);
    transfer(
        TransferKind::ReduceScatter,
        {axis},
        sizes,
        packed_layout({split_over({axis})}, {dim}));
    sizes.erase(sizes.begin());
    cells_[dim].axes.push_back(axis);
    Layout padded = cell_layout();
    padded.dims[dim] = split_over(cells_[dim].axes);
    view(sizes, are_equal(parts, size) ? cell_layout() : padded);
    slice(dim, 0, mine(cells_[dim]).size, cell_layout());
  }

  // The axis leaves cell `from` and splits cell `dim`.
  void emit_turn(size_t from, size_t dim, const std::string& axis) {
    const std::vector<Piece> joined = pieces(cells_[from], axis);
    const int64_t room = largest(cells_[from]);
    Layout loose = cell_layout();
    cells_[from].axes.pop_back();
    loose.dims[from] = split_over(cells_[from].axes);
    pad(from, room, loose);
    const Axes outer = cells_[dim].axes;
    cells_[dim].axes.push_back(axis);
    const std::vector<Piece> parts = pieces(cells_[dim], axis);
    const int64_t size = largest(cells_[dim]);
    cells_[dim].axes = outer;
    pack(dim, parts, size, packed_layout({{}}, {from, dim}));
    Dims sizes = type().sizes;
    const int64_t count = sizes.front();
    sizes.insert(sizes.begin(), 1);
    view(sizes, packed_layout({split_over({axis}), {}}, {from, dim}));
    sizes[0] = count;
    sizes[1] = 1;
    transfer(
        TransferKind::AllToAll,
        {axis},
        sizes,
        packed_layout({{}, split_over({axis})}, {from, dim}));
    sizes.erase(sizes.begin() + 1);
    view(sizes, packed_layout({{}}, {from, dim}));
    cells_[dim].axes.push_back(axis);
    Layout padded = cell_layout();
    padded.dims[dim] = split_over(cells_[dim].axes);
    unpack(from, joined, are_equal(parts, size) ? cell_layout() : padded);
    slice(dim, 0, mine(cells_[dim]).size, cell_layout());
  }

  // Whether the piece may have gaps where the recorded one has the same.
  bool can_stay(const TensorType& local) const {
    const Dims now = strides_of(type());
    const Dims recorded = strides_of(local);
    for (size_t i = 0; i < order_.size(); ++i) {
      if (local.sizes[order_[i]] > 1 && now[i] != recorded[order_[i]]) {
        return false;
      }
    }
    return true;
  }

  // The value's own dims in their order.
  void fold(const TensorType& whole, const Layout& to) {
    const TensorType local =
        local_type(whole, to, emitter_.mesh, emitter_.rank);
    Dims sizes;
    Layout ordered;
    ordered.partial = to.partial;
    for (const size_t dim : order_) {
      sizes.push_back(local.sizes[dim]);
      ordered.dims.push_back(to.dims[dim]);
    }
    if (type().sizes != sizes) {
      view(sizes, ordered);
    }
    if (!can_stay(local)) {
      make_row_major();
    }
    std::vector<size_t> back(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      back[order_[i]] = i;
    }
    permute(back);
    if (layout() != to) {
      call("aten.alias", {}, type(), to);
    }
  }

  Emitter& emitter_;
  const std::string base_;
  ValueId now_;
  // Whether the storage is a temporary of this move.
  bool is_owned_;
  std::vector<size_t> order_;
  // As the value is now: a dim a cell.
  std::vector<Cell> cells_;
  Axes partial_;
  // The dim of each cell of the step.
  std::vector<size_t> place_;
};

}  // namespace

ValueId emit_move(
    Emitter& emitter,
    ValueId value,
    const TensorType& whole,
    const std::vector<MoveStep>& steps,
    const Layout& to,
    bool is_owned) {
  if (steps.empty()) {
    return value;
  }
  return Mover(emitter, value, is_owned).run(whole, to, steps);
}

ValueId emit_join(
    Emitter& emitter, ValueId value, const Axes& axes, Combine how) {
  const TensorType type = emitter.block.function[value].type;
  const Layout layout = emitter.block.layouts[index(value)];
  const std::string base = emitter.block.function[value].name;
  const auto flat = make_type(type.dtype, type.sizes);
  for (const std::string& axis : axes) {
    const int64_t count = ways(emitter.mesh, {axis});
    value = emitter.row_major(value, base);
    Dims sizes = type.sizes;
    sizes.insert(sizes.begin(), 1);
    Layout one = layout;
    one.dims.insert(one.dims.begin(), split_over({axis}));
    value = emitter.call(
        "aten.view",
        {{value}, to_arg(sizes)},
        make_type(type.dtype, sizes),
        one,
        base);
    sizes.front() = count;
    one.dims.front().clear();
    value = emitter.transfer(
        TransferKind::AllGather,
        value,
        {axis},
        make_type(type.dtype, sizes),
        one,
        base);
    const bool is_bool = type.dtype == DType::Bool;
    std::string_view op;
    std::vector<Arg> args = {{value}};
    switch (how) {
      case Combine::Max:
        op = is_bool ? "aten.any.dim" : "aten.amax";
        args.push_back(is_bool ? Arg{int64_t{0}} : to_arg({0}));
        break;
      case Combine::Min:
        op = is_bool ? "aten.all.dim" : "aten.amin";
        args.push_back(is_bool ? Arg{int64_t{0}} : to_arg({0}));
        break;
      case Combine::Product:
        op = "aten.prod.dim_int";
        args.push_back({int64_t{0}});
        break;
      case Combine::Norm:
        op = "aten.linalg_vector_norm";
        args.push_back({int64_t{2}});
        args.push_back(to_arg({0}));
        break;
      default:
        WEFT_CHECK(false, "not joined this way");
    }
    value = emitter.call(op, std::move(args), flat, layout, base);
  }
  return value;
}

}  // namespace weft
