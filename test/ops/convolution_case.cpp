// SPDX-License-Identifier: Apache-2.0
#include "convolution_case.h"

#include "base/text.h"
#include "ops/kernel.h"

#include <array>
#include <set>
#include <utility>

namespace weft {
namespace {

constexpr double kMostWork = 3e8;

std::string case_type(
    const ConvolutionCase& c, int64_t outer, int64_t channels, int64_t inner) {
  Dims sizes = {outer, channels};
  sizes.insert(sizes.end(), c.dims, inner);
  return print(
      c.channels_last ? channels_last(c.dtype, sizes)
                      : make_type(c.dtype, sizes));
}

std::string list(const ConvolutionCase& c, int64_t value) {
  return cat(
      "[", join(std::vector<std::string>(c.dims, cat(value)), ", "), "]");
}

std::string operands_of(const ConvolutionCase& c) {
  return cat(
      case_type(c, c.batch, c.in_channels, c.space),
      ", ",
      c.transposed
          ? case_type(c, c.in_channels, c.out_channels / c.groups, c.kernel)
          : case_type(c, c.out_channels, c.in_channels / c.groups, c.kernel));
}

std::string windows_of(const ConvolutionCase& c) {
  return cat(
      list(c, c.stride),
      ", ",
      list(c, c.padding),
      ", ",
      list(c, c.dilation),
      c.transposed ? ", true, " : ", false, ",
      list(c, c.output_padding),
      ", ",
      c.groups);
}

struct Channels {
  int64_t in = 1;
  int64_t out = 1;
  int64_t groups = 1;
};

// Calls visit for all combinations, with everything set but the formats.
template <typename Visit>
void for_each_shape(
    const std::vector<std::vector<int64_t>>& spaces, Visit&& visit) {
  const std::vector<Channels> channels = {
      {3, 16, 1},
      {16, 10, 1},
      {64, 64, 1},
      {128, 32, 1},
      {32, 64, 4},
      {24, 24, 24}};
  ConvolutionCase it;
  for (it.dims = 1; it.dims <= 3; ++it.dims) {
    for (const int64_t space : spaces[it.dims - 1]) {
      it.space = space;
      for (const int64_t batch : {1, 2, 8}) {
        it.batch = batch;
        for (const Channels& each : channels) {
          it.in_channels = each.in;
          it.out_channels = each.out;
          it.groups = each.groups;
          for (const int64_t kernel : {1, 2, 3, 5, 7}) {
            it.kernel = kernel;
            for (const int64_t stride : {1, 2}) {
              it.stride = stride;
              for (const int64_t dilation : {1, 2}) {
                it.dilation = dilation;
                for (const int64_t padding : std::set<int64_t>{
                         0, dilation * (kernel - 1) / 2, kernel / 2}) {
                  it.padding = padding;
                  if (kernel > 1 || dilation == 1) {
                    visit(it);
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

void add(std::vector<ConvolutionCase>& cases, ConvolutionCase it) {
  for (const bool last : {false, true}) {
    it.channels_last = last;
    it.has_bias = cases.size() % 3 == 0;
    if (it.is_valid() && it.work() < kMostWork && (it.dims > 1 || !last)) {
      cases.push_back(it);
    }
  }
}

}  // namespace

int64_t ConvolutionCase::out_space() const {
  const int64_t window = dilation * (kernel - 1) + 1;
  return transposed
             ? (space - 1) * stride - 2 * padding + window + output_padding
             : (space + 2 * padding - window) / stride + 1;
}

bool ConvolutionCase::is_valid() const {
  return transposed ? out_space() > 0
                    : space + 2 * padding > dilation * (kernel - 1);
}

double ConvolutionCase::work() const {
  double products = static_cast<double>(batch * in_channels * out_channels);
  for (size_t d = 0; d < dims; ++d) {
    products *= static_cast<double>(kernel * space);
  }
  return products;
}

std::string ConvolutionCase::forward() const {
  const std::string bias = print(make_type(dtype, {out_channels}));
  return cat(
      "(",
      operands_of(*this),
      ", ",
      has_bias ? bias : "none",
      ", ",
      windows_of(*this),
      ")");
}

std::string ConvolutionCase::backward() const {
  return cat(
      "(",
      case_type(*this, batch, out_channels, out_space()),
      ", ",
      operands_of(*this),
      ", ",
      has_bias ? cat("[", out_channels, "]") : "none",
      ", ",
      windows_of(*this),
      has_bias ? ", [true, true, true])" : ", [true, true, false])");
}

std::vector<ConvolutionCase> convolution_grid() {
  std::vector<ConvolutionCase> cases;
  for_each_shape(
      {{9, 200}, {2, 7, 8, 14, 28}, {4, 8, 10}},
      [&](const ConvolutionCase& it) { add(cases, it); });
  return cases;
}

std::vector<ConvolutionCase> transposed_grid() {
  std::vector<ConvolutionCase> cases;
  for_each_shape({{9, 100}, {2, 7, 14}, {4, 8}}, [&](ConvolutionCase it) {
    it.transposed = true;
    for (int64_t over = 0; over < it.stride; ++over) {
      it.output_padding = over;
      add(cases, it);
    }
  });
  return cases;
}

std::vector<ConvolutionCase> half_precision_grid() {
  std::vector<ConvolutionCase> cases;
  for_each_shape({{9, 100}, {2, 7, 14}, {4, 8}}, [&](ConvolutionCase it) {
    it.dtype = DType::BF16;
    for (const bool transposed : {false, true}) {
      it.transposed = transposed;
      add(cases, it);
    }
  });
  return cases;
}

}  // namespace weft
