// SPDX-License-Identifier: Apache-2.0
#include "lower/move.h"

#include "base/error.h"
#include "lower/cut_levels.h"

#include <algorithm>

namespace weft {
namespace {

bool is_prefix(const Axes& start, const Axes& axes) {
  return start.size() <= axes.size() &&
         std::equal(start.begin(), start.end(), axes.begin());
}

// The same cells, as they are split before and after.
struct Refined {
  std::vector<Cell> from;
  std::vector<Cell> to;
};

class Finder {
 public:
  Finder(Refined cells, Axes partial, const Axes& wanted)
      : now_(std::move(cells.from)),
        to_(std::move(cells.to)),
        partial_(std::move(partial)) {
    for (const std::string& axis : partial_) {
      if (!contains(wanted, axis)) {
        summed_.push_back(axis);
      }
    }
  }

  std::vector<MoveStep> run() {
    while (cut() || sum() || gather()) {
    }
    return std::move(steps_);
  }

 private:
  bool is_used(const std::string& axis) const {
    return contains(partial_, axis) ||
           std::any_of(now_.begin(), now_.end(), [&](const Cell& cell) {
             return contains(cell.axes, axis);
           });
  }

  void add(MoveKind kind, Axes axes, size_t cell, int from = -1) {
    steps_.push_back(
        {.kind = kind,
         .axes = std::move(axes),
         .cell = kind == MoveKind::AllReduce ? -1 : static_cast<int>(cell),
         .from = from,
         .cells = now_,
         .partial = partial_});
  }

  // A cell that is split over one axis more, by what costs least; slices of
  // all cells before anything travels.
  bool cut() {
    for (const auto way : {&Finder::slice, &Finder::scatter, &Finder::turn}) {
      for (size_t i = 0; i < now_.size(); ++i) {
        if (now_[i].axes.size() < to_[i].axes.size() &&
            is_prefix(now_[i].axes, to_[i].axes) &&
            (this->*way)(i, to_[i].axes[now_[i].axes.size()])) {
          return true;
        }
      }
    }
    return false;
  }

  bool slice(size_t cell, const std::string& axis) {
    if (is_used(axis)) {
      return false;
    }
    add(MoveKind::Slice, {axis}, cell);
    now_[cell].axes.push_back(axis);
    return true;
  }

  bool scatter(size_t cell, const std::string& axis) {
    if (!contains(summed_, axis)) {
      return false;
    }
    add(MoveKind::ReduceScatter, {axis}, cell);
    now_[cell].axes.push_back(axis);
    std::erase(partial_, axis);
    std::erase(summed_, axis);
    return true;
  }

  bool turn(size_t cell, const std::string& axis) {
    for (size_t from = 0; from < now_.size(); ++from) {
      if (from != cell && !now_[from].axes.empty() &&
          now_[from].axes.back() == axis &&
          !is_prefix(now_[from].axes, to_[from].axes)) {
        add(MoveKind::AllToAll, {axis}, cell, static_cast<int>(from));
        now_[from].axes.pop_back();
        now_[cell].axes.push_back(axis);
        return true;
      }
    }
    return false;
  }

  bool sum() {
    if (summed_.empty()) {
      return false;
    }
    add(MoveKind::AllReduce, summed_, 0);
    for (const std::string& axis : summed_) {
      std::erase(partial_, axis);
    }
    summed_.clear();
    return true;
  }

  bool gather() {
    for (size_t i = 0; i < now_.size(); ++i) {
      if (is_prefix(now_[i].axes, to_[i].axes)) {
        continue;
      }
      add(MoveKind::AllGather, {now_[i].axes.back()}, i);
      now_[i].axes.pop_back();
      return true;
    }
    return false;
  }

  std::vector<Cell> now_;
  const std::vector<Cell> to_;
  Axes partial_;
  // Those that are to be summed.
  Axes summed_;
  std::vector<MoveStep> steps_;
};

}  // namespace

bool contains(const Axes& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::vector<MoveStep> find_move(
    const Mesh& mesh,
    const TensorType& whole,
    const Layout& from,
    const Layout& to) {
  Refined cells;
  // With the dims whole that do not line up, on the way.
  Layout between = from;
  between.partial = to.partial;
  for (size_t dim = 0; dim < whole.sizes.size(); ++dim) {
    const auto levels =
        line_up(from.dims[dim], to.dims[dim], whole.sizes[dim], mesh);
    if (!levels) {
      between.dims[dim].clear();
      continue;
    }
    for (const auto& [now, then] : *levels) {
      cells.from.push_back({static_cast<int>(dim), now.size, now.axes});
      cells.to.push_back({static_cast<int>(dim), then.size, then.axes});
    }
  }
  if (between.dims != from.dims) {
    std::vector<MoveStep> steps = find_move(mesh, whole, from, between);
    const std::vector<MoveStep> more = find_move(mesh, whole, between, to);
    steps.insert(steps.end(), more.begin(), more.end());
    return steps;
  }
  return Finder(std::move(cells), from.partial, to.partial).run();
}

double step_bytes(
    const Mesh& mesh, const TensorType& whole, const MoveStep& step) {
  auto bytes = static_cast<double>(element_count(whole)) *
               static_cast<double>(element_bytes(whole.dtype));
  for (const Cell& cell : step.cells) {
    bytes /= static_cast<double>(ways(mesh, cell.axes));
  }
  const auto count = static_cast<double>(ways(mesh, step.axes));
  switch (step.kind) {
    case MoveKind::Slice:
      return 0;
    case MoveKind::ReduceScatter:
    case MoveKind::AllToAll:
      return bytes * (count - 1) / count;
    case MoveKind::AllReduce:
      return 2 * bytes * (count - 1) / count;
    case MoveKind::AllGather:
      return bytes * (count - 1);
  }
  WEFT_CHECK(false, "unknown step of a move");
}

double move_bytes(
    const Mesh& mesh,
    const TensorType& whole,
    const Layout& from,
    const Layout& to) {
  double total = 0;
  for (const MoveStep& step : find_move(mesh, whole, from, to)) {
    total += step_bytes(mesh, whole, step);
  }
  return total;
}

}  // namespace weft
