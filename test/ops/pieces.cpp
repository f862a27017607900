// SPDX-License-Identifier: Apache-2.0
#include "pieces.h"

#include "aten/types.h"
#include "base/error.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace weft {
namespace {

at::Tensor draw_floats(const Dims& sizes, bool positive) {
  at::Tensor size = at::rand(sizes, at::kDouble) * 0.9 + 0.1;
  if (positive) {
    return size;
  }
  return at::where(at::rand(sizes, at::kDouble) < 0.5, -size, size);
}

// Lays the elements out with the strides of the type. A dim of stride 0 repeats
// its first element.
at::Tensor lay_out(const at::Tensor& elements, const TensorType& type) {
  Dims sizes = type.sizes;
  Dims strides = strides_of(type);
  at::Tensor source = elements;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] == 0 && sizes[d] > 1) {
      source = source.narrow(static_cast<int64_t>(d), 0, 1);
      sizes[d] = 1;
    }
  }
  at::Tensor laid_out = at::empty_strided(sizes, strides, elements.options());
  laid_out.copy_(source);
  return laid_out.expand(type.sizes);
}

// Every factor a dim of its own: the sizes, and for every such dim its factor
// (-1 for a dim without factors).
struct Unfolded {
  Dims sizes;
  std::vector<int> factors;
};

Unfolded unfold(
    const Rule& rule,
    TensorPlace place,
    const Dims& sizes,
    const Pieces& pieces) {
  Unfolded unfolded;
  const std::vector<DimFactors>& dims = dims_of(rule, place);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].empty() || find_halo(rule, place, d) != nullptr) {
      unfolded.sizes.push_back(sizes[d]);
      unfolded.factors.push_back(-1);
      continue;
    }
    for (int factor : dims[d]) {
      unfolded.sizes.push_back(pieces[static_cast<size_t>(factor)].size);
      unfolded.factors.push_back(factor);
    }
  }
  return unfolded;
}

at::Tensor cut_halo(
    at::Tensor tensor, int64_t dim, const Window& window, const Piece& steps) {
  int64_t whole = tensor.size(dim);
  Piece range = touched(window, steps, whole);
  int64_t first = std::max<int64_t>(range.start, 0);
  int64_t end = std::min(range.start + range.size, whole);
  tensor = tensor.narrow(dim, first, end - first);
  Dims pad(static_cast<size_t>(2 * (tensor.dim() - dim)), 0);
  pad[pad.size() - 2] = first - range.start;
  pad[pad.size() - 1] = range.start + range.size - end;
  return at::constant_pad_nd(tensor, pad, window.fill);
}

at::Tensor combine(const std::vector<at::Tensor>& parts, Combine how) {
  at::Tensor all = at::stack(parts);
  bool is_bool = all.scalar_type() == at::kBool;
  switch (how) {
    case Combine::Sum:
      return all.sum(0, false, all.scalar_type());
    case Combine::Mean:
      return all.mean(0);
    case Combine::Max:
      return is_bool ? all.any(0) : all.amax(0);
    case Combine::Min:
      return is_bool ? all.all(0) : all.amin(0);
    case Combine::Product:
      return all.prod(0);
    case Combine::Norm:
      return (all * all).sum(0).sqrt();
    case Combine::Any:
      return parts.front();
  }
  return {};
}

// Adds every part to the range of the whole that its steps touch.
at::Tensor add_overlapping(
    const std::vector<at::Tensor>& parts,
    int64_t dim,
    const Window& window,
    size_t factor,
    const std::vector<Pieces>& pieces,
    const Dims& sizes) {
  at::Tensor whole = at::zeros(sizes, parts[0].options());
  int64_t size = whole.size(dim);
  for (size_t i = 0; i < parts.size(); ++i) {
    Piece range = touched(window, pieces[i][factor], size);
    int64_t first = std::max<int64_t>(range.start, 0);
    int64_t end = std::min(range.start + range.size, size);
    whole.narrow(dim, first, end - first)
        .add_(parts[i].narrow(dim, first - range.start, end - first));
  }
  return whole;
}

double tolerance(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
    case at::kComplexDouble:
      return 1e-9;
    case at::kFloat:
    case at::kComplexFloat:
      return 1e-4;
    case at::kHalf:
      return 1e-2;
    case at::kBFloat16:
      return 4e-2;
    default:
      return 0;
  }
}

}  // namespace

at::Tensor draw_tensor(const TensorType& type, const Draw& draw) {
  at::ScalarType scalar = scalar_type_of(type.dtype);
  at::Tensor elements;
  if (is_floating(type.dtype) || is_complex(type.dtype)) {
    elements =
        draw_floats(type.sizes, draw.positive || draw.below > 0).to(scalar);
    if (is_complex(type.dtype)) {
      elements = elements + draw_floats(type.sizes, false).to(scalar) *
                                c10::complex<double>(0, 1);
    }
  } else if (draw.ascending_to >= 0) {
    elements = at::randint(0, draw.ascending_to + 1, type.sizes, at::kLong);
    elements.view(-1)[-1].fill_(draw.ascending_to);
    elements = std::get<0>(elements.sort()).to(scalar);
  } else {
    int64_t low = draw.positive ? 1 : 0;
    int64_t high = type.dtype == DType::Bool ? 2
                   : draw.below >= 0         ? std::max(draw.below, low + 1)
                                             : 4;
    elements = at::randint(low, high, type.sizes, at::kLong).to(scalar);
  }
  return lay_out(elements, type);
}

std::vector<at::Tensor> draw_operands(const Example& example) {
  std::vector<at::Tensor> operands;
  for (size_t i = 0; i < example.draws.size(); ++i) {
    operands.push_back(
        draw_tensor(example.function.values[i].type, example.draws[i]));
  }
  return operands;
}

at::Tensor indices_in_windows(
    const at::Tensor& drawn, const Rule& rule, const Dims& plane) {
  at::Tensor indices = at::zeros_like(drawn);
  const int64_t lead = drawn.dim() - static_cast<int64_t>(plane.size());
  for (size_t d = 0; d < plane.size(); ++d) {
    const int factor = find_factor(rule, cat("s", d));
    const Window& window = rule.factors[static_cast<size_t>(factor)].window;
    const int64_t dim = lead + static_cast<int64_t>(d);
    Dims sizes(static_cast<size_t>(drawn.dim()), 1);
    sizes[static_cast<size_t>(dim)] = drawn.size(dim);
    const at::Tensor first =
        at::arange(drawn.size(dim), drawn.options()) * window.stride -
        window.before;
    // One of the window's elements that is no padding.
    const at::Tensor reach = drawn % (window.before + window.after + 1);
    const at::Tensor at = (first.view(sizes) + reach).clamp(0, plane[d] - 1);
    indices = indices * plane[d] + at;
  }
  return indices;
}

at::Tensor cut(
    const at::Tensor& whole,
    const Rule& rule,
    TensorPlace place,
    const Pieces& pieces) {
  Dims sizes = whole.sizes().vec();
  Unfolded unfolded = unfold(rule, place, sizes, whole_pieces(rule));
  if (!is_split(pieces)) {
    return whole;
  }
  at::Tensor piece = whole.reshape(unfolded.sizes);
  for (size_t i = 0; i < unfolded.factors.size(); ++i) {
    if (unfolded.factors[i] >= 0) {
      const Piece& p = pieces[static_cast<size_t>(unfolded.factors[i])];
      piece = piece.narrow(static_cast<int64_t>(i), p.start, p.size);
    }
  }
  Dims local = local_sizes(rule, place, sizes, pieces);
  Dims without_halos = local;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (find_halo(rule, place, d) != nullptr) {
      without_halos[d] = sizes[d];
    }
  }
  piece = piece.reshape(without_halos);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const HaloDim* halo = find_halo(rule, place, d);
    if (halo == nullptr) {
      continue;
    }
    auto factor = static_cast<size_t>(halo->factor);
    if (pieces[factor].size != pieces[factor].whole) {
      piece = cut_halo(
          piece,
          static_cast<int64_t>(d),
          rule.factors[factor].window,
          pieces[factor]);
    }
  }
  TensorType type = type_of(whole);
  return lay_out(piece, local == sizes ? type : with_sizes(type, local));
}

at::Tensor join_parts(
    const std::vector<at::Tensor>& parts,
    const Rule& rule,
    int result,
    int factor,
    const std::vector<Pieces>& pieces,
    const Dims& sizes) {
  TensorPlace place = {.in_result = true, .tensor = result};
  const Factor& f = rule.factors[static_cast<size_t>(factor)];
  if (is_summed(rule, factor, result)) {
    return combine(parts, f.combine);
  }
  const std::vector<DimFactors>& dims = dims_of(rule, place);
  for (size_t d = 0; d < dims.size(); ++d) {
    const HaloDim* halo = find_halo(rule, place, d);
    if (halo != nullptr && halo->factor == factor) {
      return add_overlapping(
          parts,
          static_cast<int64_t>(d),
          f.window,
          static_cast<size_t>(factor),
          pieces,
          sizes);
    }
  }
  // The pieces of the others are the same in all parts.
  Pieces whole = pieces[0];
  whole[static_cast<size_t>(factor)] = {0, f.size, f.size};
  Unfolded unfolded = unfold(rule, place, sizes, whole);
  auto at = std::find(unfolded.factors.begin(), unfolded.factors.end(), factor);
  if (at == unfolded.factors.end()) {
    // Takes no part: the same on every rank.
    for (const at::Tensor& part : parts) {
      std::string text = difference(part, parts[0]);
      WEFT_CHECK_USER(text.empty(), "a result that takes no part: ", text);
    }
    return parts[0];
  }
  auto dim = at - unfolded.factors.begin();
  at::Tensor joined = at::zeros(unfolded.sizes, parts[0].options());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Piece& p = pieces[i][static_cast<size_t>(factor)];
    at::Tensor place_of_part = joined.narrow(dim, p.start, p.size);
    place_of_part.copy_(parts[i].reshape(place_of_part.sizes()));
  }
  return joined.reshape(sizes);
}

std::string difference(const at::Tensor& got, const at::Tensor& expected) {
  if (!got.defined() || !expected.defined()) {
    return got.defined() == expected.defined() ? "" : "one is undefined";
  }
  if (got.sizes() != expected.sizes()) {
    return cat("sizes ", got.sizes(), " and not ", expected.sizes());
  }
  if (got.scalar_type() != expected.scalar_type()) {
    return cat(
        "dtype ", got.scalar_type(), " and not ", expected.scalar_type());
  }
  if (got.numel() == 0) {
    return "";
  }
  at::ScalarType wide = got.is_complex() ? at::kComplexDouble : at::kDouble;
  at::Tensor a = got.to(wide);
  at::Tensor b = expected.to(wide);
  double bound = tolerance(got.scalar_type());
  at::Tensor magnitude = b.abs();
  at::Tensor finite = magnitude.isfinite();
  double scale =
      std::max(1.0, magnitude.masked_fill(~finite, 0).max().item<double>());
  if (a.allclose(b, bound, bound * scale, /*equal_nan=*/true)) {
    return "";
  }
  at::Tensor gap = (a - b).abs();
  return cat(
      "differs by up to ",
      gap.masked_fill(~gap.isfinite(), 0).max().item<double>(),
      " where values are up to ",
      scale);
}

}  // namespace weft
