// SPDX-License-Identifier: Apache-2.0
#include "lower/factor_axes.h"

#include "base/error.h"
#include "program/piece.h"

#include <algorithm>

namespace weft {
namespace {

std::string describe(FactorKind kind) {
  switch (kind) {
    case FactorKind::Free:
      return "free";
    case FactorKind::Whole:
      return "must be whole for this operator";
    case FactorKind::Halo:
      return "needs its neighbours' borders when it is split";
    case FactorKind::Lookup:
      return "is looked up by an index, so that a split needs masks";
  }
  WEFT_CHECK(false, "unknown kind of factor");
}

}  // namespace

FactorAxes::FactorAxes(
    const Mesh& mesh,
    const Function& function,
    const Node& node,
    const Rule& rule)
    : mesh_(mesh),
      function_(function),
      node_(node),
      rule_(rule),
      axes_(rule.factors.size()) {}

void FactorAxes::fail(const std::string& message) const {
  throw UserError(
      cat("%",
          function_[node_.results.front()].name,
          " = ",
          node_.op,
          ": ",
          message));
}

void FactorAxes::split(
    ValueId value, const DimFactors& factors, const Axes& axes) {
  if (axes.empty()) {
    return;
  }
  // What the dim's factors are split by already must be the same split.
  if (is_split(factors)) {
    const Axes before = axes_of(factors);
    if (before != axes) {
      fail(
          cat("%",
              function_[value].name,
              " is split over {",
              join(axes, ", "),
              "} where another value is split over {",
              join(before, ", "),
              "}; moving values between layouts is not lowered yet"));
    }
    return;
  }
  size_t at = 0;
  for (const std::string& axis : axes) {
    // The slower factor first; the next one when it is used up.
    while (at + 1 < factors.size() &&
           rule_.factors[static_cast<size_t>(factors[at])].size ==
               ways(mesh_, axes_[static_cast<size_t>(factors[at])])) {
      ++at;
    }
    if (at >= factors.size()) {
      fail(
          cat("%",
              function_[value].name,
              " must be whole for this operator, and is split over {",
              join(axes, ", "),
              "}; moving values between layouts is not lowered yet"));
    }
    split_factor(value, factors[at], axis);
  }
}

void FactorAxes::split_factor(
    ValueId value, int factor, const std::string& axis) {
  const Factor& what = rule_.factors[static_cast<size_t>(factor)];
  Axes& mine = axes_[static_cast<size_t>(factor)];
  if (what.kind != FactorKind::Free) {
    fail(
        cat("dim '",
            what.name,
            "' of %",
            function_[value].name,
            " is split over ",
            axis,
            " and ",
            describe(what.kind),
            "; moving values between layouts is not lowered yet"));
  }
  for (const Axes& other : axes_) {
    if (std::find(other.begin(), other.end(), axis) != other.end()) {
      fail(
          cat("axis ",
              axis,
              " splits two different dims ('",
              what.name,
              "' is one); moving values between layouts is not lowered yet"));
    }
  }
  mine.push_back(axis);
  if (what.size % ways(mesh_, mine) != 0) {
    fail(
        cat("dim '",
            what.name,
            "' of size ",
            what.size,
            " does not divide into ",
            ways(mesh_, mine),
            " equal pieces"));
  }
}

bool FactorAxes::is_split(const DimFactors& factors) const {
  return std::any_of(factors.begin(), factors.end(), [this](int factor) {
    return !axes_[static_cast<size_t>(factor)].empty();
  });
}

Axes FactorAxes::axes_of(const DimFactors& factors) const {
  Axes axes;
  bool inside_whole = false;
  for (const int factor : factors) {
    const Axes& mine = axes_[static_cast<size_t>(factor)];
    const int64_t size = rule_.factors[static_cast<size_t>(factor)].size;
    if (!mine.empty() && inside_whole) {
      fail(
          cat("a split of '",
              rule_.factors[static_cast<size_t>(factor)].name,
              "' would not leave contiguous pieces; that is not lowered yet"));
    }
    inside_whole = inside_whole || ways(mesh_, mine) != size;
    axes.insert(axes.end(), mine.begin(), mine.end());
  }
  return axes;
}

Axes FactorAxes::partial_axes(int result) const {
  Axes axes;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].empty() || !is_summed(rule_, static_cast<int>(i), result)) {
      continue;
    }
    const Combine combine = rule_.factors[i].combine;
    if (combine == Combine::Any) {
      continue;  // each rank's own will do
    }
    if (combine != Combine::Sum && combine != Combine::Mean) {
      fail(
          cat("its result over the split dim '",
              rule_.factors[i].name,
              "' is joined by another operation than a sum; that is not "
              "lowered yet"));
    }
    axes.insert(axes.end(), axes_[i].begin(), axes_[i].end());
  }
  return axes;
}

}  // namespace weft
