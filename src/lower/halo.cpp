// SPDX-License-Identifier: Apache-2.0
#include "lower/halo.h"

#include "program/piece.h"
#include "program/program.h"

#include <algorithm>

namespace weft {
namespace {

Piece overlap(const Piece& a, const Piece& b) {
  const int64_t start = std::max(a.start, b.start);
  const int64_t end = std::min(a.start + a.size, b.start + b.size);
  return {start, std::max<int64_t>(end - start, 0), a.whole};
}

double count(const Box& box) {
  double out = 1;
  for (const Piece& range : box) {
    out *= static_cast<double>(range.size);
  }
  return out;
}

}  // namespace

bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](const Piece& range) {
    return range.size <= 0;
  });
}

Dims sizes_of(const Box& box) {
  Dims sizes;
  for (const Piece& range : box) {
    sizes.push_back(range.size);
  }
  return sizes;
}

Box intersection(const Box& a, const Box& b) {
  Box out;
  for (size_t i = 0; i < a.size(); ++i) {
    out.push_back(overlap(a[i], b[i]));
  }
  return out;
}

bool splits_windows(const Rule& rule, const Assignment& assignment) {
  return std::any_of(
      rule.halos.begin(), rule.halos.end(), [&](const HaloDim& halo) {
        return !assignment.factors[static_cast<size_t>(halo.factor)].empty();
      });
}

Halo::Halo(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    TensorPlace place,
    const TensorType& type)
    : mesh_(mesh),
      rule_(rule),
      assignment_(assignment),
      place_(place),
      type_(type),
      layout_(
          place.in_result
              ? result_layout(mesh, rule, assignment, place.tensor, type)
              : operand_layout(
                    mesh, rule, assignment, place.tensor, type, Layout())) {
  for (size_t dim = 0; dim < type.sizes.size(); ++dim) {
    if (split_factor(dim) >= 0) {
      const Axes axes = axes_of(layout_.dims[dim]);
      axes_.insert(axes_.end(), axes.begin(), axes.end());
    }
  }
}

int Halo::split_factor(size_t dim) const {
  const HaloDim* halo = find_halo(rule_, place_, dim);
  return halo != nullptr &&
                 !assignment_.factors[static_cast<size_t>(halo->factor)].empty()
             ? halo->factor
             : -1;
}

std::vector<int64_t> Halo::group(int64_t rank) const {
  return group_of(mesh_, axes_, rank);
}

Piece Halo::own(size_t dim, int64_t rank) const {
  const int64_t size = type_.sizes[dim];
  if (split_factor(dim) >= 0) {
    return piece_of(mesh_, axes_of(layout_.dims[dim]), size, rank);
  }
  Piece all = {0, 1, size};
  for (const Piece& level : pieces_of(mesh_, layout_.dims[dim], size, rank)) {
    all.size *= level.size;
  }
  all.whole = all.size;
  return all;
}

Box Halo::own(int64_t rank) const {
  Box box;
  for (size_t dim = 0; dim < type_.sizes.size(); ++dim) {
    box.push_back(own(dim, rank));
  }
  return box;
}

Box Halo::reach(const Pieces& pieces, int64_t rank) const {
  Box box = own(rank);
  for (size_t dim = 0; dim < box.size(); ++dim) {
    const int factor = split_factor(dim);
    if (factor >= 0) {
      const auto i = static_cast<size_t>(factor);
      box[dim] = touched(rule_.factors[i].window, pieces[i], type_.sizes[dim]);
    }
  }
  return box;
}

Box Halo::reach(int64_t rank) const {
  Pieces pieces = whole_pieces(rule_);
  for (size_t dim = 0; dim < type_.sizes.size(); ++dim) {
    const int factor = split_factor(dim);
    if (factor >= 0) {
      const auto i = static_cast<size_t>(factor);
      pieces[i] = piece_of(
          mesh_, axes_of(assignment_.factors[i]), rule_.factors[i].size, rank);
    }
  }
  return reach(pieces, rank);
}

Box Halo::whole(int64_t rank) const {
  Box box = own(rank);
  for (Piece& range : box) {
    range = {0, range.whole, range.whole};
  }
  return box;
}

double Halo::fill() const {
  for (const HaloDim& halo : rule_.halos) {
    if (halo.in_result == place_.in_result && halo.tensor == place_.tensor) {
      return rule_.factors[static_cast<size_t>(halo.factor)].window.fill;
    }
  }
  return 0;
}

double Halo::bytes(int64_t rank) const {
  const Box inside = intersection(reach(rank), whole(rank));
  if (is_empty(inside)) {
    return 0;
  }
  const Box mine = intersection(inside, own(rank));
  return (count(inside) - (is_empty(mine) ? 0 : count(mine))) *
         static_cast<double>(element_bytes(type_.dtype));
}

double halo_bytes(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    TensorPlace place,
    const TensorType& type) {
  const Halo halo(mesh, rule, assignment, place, type);
  double most = 0;
  if (!halo.is_whole()) {
    for (const int64_t rank : halo.group(0)) {
      most = std::max(most, halo.bytes(rank));
    }
  }
  return most;
}

}  // namespace weft
