// SPDX-License-Identifier: Apache-2.0
#include "execute/trunc_normal.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

double below(double x) { return (1.0 + std::erf(x / std::sqrt(2.0))) / 2.0; }

// The bound as the element type can hold it.
double rounded(double bound, const at::Tensor& like) {
  return at::scalar_tensor(bound, like.options()).item().toDouble();
}

// Where normal numbers fall inside often: draw again what fell outside.
at::Tensor redraw_outside(
    at::Tensor result, double mean, double deviation, double low, double high) {
  low = rounded(low, result);
  high = rounded(high, result);
  result.normal_(mean, deviation);
  while (true) {
    const at::Tensor outside = result.lt(low).bitwise_or(result.gt(high));
    if (!outside.any().item().toBool()) {
      return result;
    }
    result = at::where(
        outside, at::empty_like(result).normal_(mean, deviation), result);
  }
}

// Where they rarely do: uniform numbers, kept in proportion to the density.
at::Tensor reject_by_density(
    at::Tensor result, double mean, double deviation, double low, double high) {
  const double mode = std::max(low, std::min(mean, high));
  const double log_peak = -0.5 * std::pow((mode - mean) / deviation, 2);
  at::Tensor candidates = at::empty_like(result);
  at::Tensor chance = at::empty_like(result);
  const auto too_unlikely = [&] {
    candidates.sub_(mean).div_(deviation).pow_(2).mul_(-0.5).sub_(log_peak);
    return chance.uniform_().log_().gt(candidates);
  };
  result.uniform_(low, high);
  candidates.copy_(result);
  at::Tensor pending = too_unlikely();
  while (pending.any().item().toBool()) {
    candidates.uniform_(low, high);
    result = at::where(pending, candidates, result);
    pending = at::where(pending, too_unlikely(), pending);
  }
  return result;
}

}  // namespace

at::Tensor trunc_normal(
    const at::Tensor& self,
    double mean,
    double deviation,
    double low,
    double high) {
  const double inside =
      below((high - mean) / deviation) - below((low - mean) / deviation);
  const auto draw = inside > 0.3 ? redraw_outside : reject_by_density;
  return draw(at::empty_like(self), mean, deviation, low, high);
}

}  // namespace weft
