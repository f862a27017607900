// SPDX-License-Identifier: Apache-2.0
#include "ops/reshape.h"

#include "base/error.h"

#include <numeric>

namespace weft {
namespace {

int64_t count_of(const Dims& sizes) {
  return std::accumulate(
      sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// One side of a change of shape, read from the slowest dim on.
class Side {
 public:
  explicit Side(const Dims& sizes) : sizes_(sizes), dims(sizes.size()) {
    next();
  }

  bool at_end() const { return dim_ == sizes_.size(); }
  // Elements of the current dim that have no factor yet.
  int64_t left() const { return left_; }

  // Gives the current dim a factor of that size.
  void take(int factor, int64_t size) {
    dims[dim_].push_back(factor);
    left_ /= size;
    if (left_ == 1) {
      ++dim_;
      next();
    }
  }

 private:
  // Dims of size 1 have nothing to split.
  void next() {
    while (dim_ < sizes_.size() && sizes_[dim_] == 1) {
      ++dim_;
    }
    left_ = at_end() ? 1 : sizes_[dim_];
  }

  const Dims& sizes_;
  size_t dim_ = 0;
  int64_t left_ = 1;

 public:
  std::vector<DimFactors> dims;
};

int add_factor(Rule& rule, int64_t size, FactorKind kind) {
  auto index = static_cast<int>(rule.factors.size());
  rule.factors.push_back({.name = cat("d", index), .size = size, .kind = kind});
  return index;
}

// The sizes do not divide: what is left of both sides is whole up to the next
// point where they meet.
void take_whole(Rule& rule, Side& from, Side& to) {
  int64_t from_count = 1;
  int64_t to_count = 1;
  do {
    Side& side = from_count <= to_count ? from : to;
    int64_t& count = from_count <= to_count ? from_count : to_count;
    int64_t size = side.left();
    count *= size;
    side.take(add_factor(rule, size, FactorKind::Whole), size);
  } while (from_count != to_count);
}

}  // namespace

Rule reshape_rule(const Dims& from, const Dims& to) {
  WEFT_CHECK(
      count_of(from) == count_of(to), "a change of shape loses elements");
  Rule rule;
  if (count_of(from) == 0) {
    rule.operands = {std::vector<DimFactors>(from.size())};
    rule.results = {std::vector<DimFactors>(to.size())};
    rule.apart = {0};
    return rule;
  }
  Side left(from);
  Side right(to);
  while (!left.at_end()) {
    int64_t common = std::gcd(left.left(), right.left());
    if (common > 1) {
      bool divides = common == left.left() || common == right.left();
      int factor = add_factor(rule, common, FactorKind::Free);
      left.take(factor, common);
      right.take(factor, common);
      if (divides) {
        continue;
      }
    }
    take_whole(rule, left, right);
  }
  rule.operands = {std::move(left.dims)};
  rule.results = {std::move(right.dims)};
  return rule;
}

Dims resolve_sizes(const Dims& from, Dims sizes) {
  int64_t known = 1;
  int64_t* unknown = nullptr;
  for (int64_t& size : sizes) {
    if (size == -1) {
      unknown = &size;
    } else {
      WEFT_CHECK(
          !__builtin_mul_overflow(known, size, &known),
          "more elements than 64 bits can count");
    }
  }
  if (unknown != nullptr) {
    *unknown = known == 0 ? 0 : count_of(from) / known;
  }
  return sizes;
}

}  // namespace weft
