// SPDX-License-Identifier: Apache-2.0
#include "execute/random_values.h"

#include "base/error.h"
#include "execute/element_runs.h"
#include "ops/call.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string_view>
#include <type_traits>

namespace weft {
namespace {

constexpr int64_t kRandomGrain = 32768;

// Calls `visit` for the runs of the whole piece, on several threads.
void for_runs(
    const std::vector<Piece>& piece,
    const std::function<void(const ElementRun&)>& visit) {
  int64_t count = 1;
  for (const Piece& dim : piece) {
    count *= dim.size;
  }
  at::parallel_for(0, count, kRandomGrain, [&](int64_t begin, int64_t end) {
    for_each_run(piece, begin, end, visit);
  });
}

at::Tensor place_for(const std::vector<Piece>& piece, at::ScalarType type) {
  Dims sizes;
  for (const Piece& dim : piece) {
    sizes.push_back(dim.size);
  }
  return at::empty(sizes, type);
}

int digits_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::digits;
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::digits;
    default:
      return std::numeric_limits<float>::digits;
  }
}

// A piece has one size a level, and a dim may have several of them.
at::Tensor uniform(const RandomDraw& draw, at::ScalarType like) {
  return counted_uniform(draw.stream, draw.piece, like)
      .view(draw.results[0].sizes());
}

at::Tensor uniform(const RandomDraw& draw) {
  return uniform(draw, draw.results[0].scalar_type());
}

at::Tensor normal(const RandomDraw& draw) {
  return counted_normal(draw.stream, draw.piece, draw.results[0].scalar_type())
      .view(draw.results[0].sizes());
}

double number(const RandomDraw& draw, size_t position, double fallback) {
  return number_arg(draw.node, position, fallback);
}

// In (0, 1], for a logarithm.
at::Tensor above_zero(const RandomDraw& draw) {
  return uniform(draw).neg_().add_(1);
}

void draw_uniform(const RandomDraw& draw) {
  draw.results[0].copy_(uniform(draw));
}

void draw_uniform_between(const RandomDraw& draw) {
  const double low = number(draw, 1, 0);
  const double high = number(draw, 2, 1);
  draw.results[0].copy_(uniform(draw).mul_(high - low).add_(low));
}

void draw_normal(const RandomDraw& draw) {
  draw.results[0].copy_(normal(draw));
}

// (self, mean, deviation)
void draw_normal_like(const RandomDraw& draw) {
  draw.results[0].copy_(
      normal(draw).mul_(number(draw, 2, 1)).add_(number(draw, 1, 0)));
}

// (mean, deviation, ...), each a number or a tensor.
void draw_normal_of(const RandomDraw& draw) {
  const auto is_tensor = [&](size_t position) {
    return draw.node.args.size() > position &&
           std::holds_alternative<ValueId>(draw.node.args[position].data);
  };
  at::Tensor numbers = normal(draw);
  numbers = is_tensor(1) ? numbers.mul(draw.operands.back())
                         : numbers.mul_(number(draw, 1, 1));
  draw.results[0].copy_(
      is_tensor(0) ? numbers.add(draw.operands.front())
                   : numbers.add_(number(draw, 0, 0)));
}

void draw_log_normal(const RandomDraw& draw) {
  draw.results[0].copy_(
      normal(draw).mul_(number(draw, 2, 2)).add_(number(draw, 1, 1)).exp_());
}

void draw_exponential(const RandomDraw& draw) {
  draw.results[0].copy_(
      above_zero(draw).log_().neg_().div_(number(draw, 1, 1)));
}

void draw_cauchy(const RandomDraw& draw) {
  const at::Tensor angle = uniform(draw).sub_(0.5).mul_(std::acos(-1.0)).tan_();
  draw.results[0].copy_(
      angle.mul_(number(draw, 2, 1)).add_(number(draw, 1, 0)));
}

void draw_geometric(const RandomDraw& draw) {
  draw.results[0].copy_(above_zero(draw)
                            .log_()
                            .div_(std::log1p(-number(draw, 1, 0.5)))
                            .ceil_()
                            .clamp_min_(1));
}

// Where the chance is a tensor: the last operand.
void draw_bernoulli_by(const RandomDraw& draw) {
  const at::Tensor& chance = draw.operands.back();
  const at::Tensor numbers = uniform(
      draw, chance.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  draw.results[0].copy_(numbers.lt(chance));
}

// Integers from `low` and below `low` + `range`; range 0 stands for 2^64.
void draw_integers(const RandomDraw& draw, int64_t low, uint64_t range) {
  const at::Tensor integers = place_for(draw.piece, at::kLong);
  auto* data = integers.mutable_data_ptr<int64_t>();
  for_runs(draw.piece, [&](const ElementRun& run) {
    std::vector<uint32_t> words(static_cast<size_t>(run.count));
    std::vector<uint32_t> more(words.size());
    random_words(draw.stream, run.first, run.count, words.data());
    random_words(draw.stream, run.first + kSecondWord, run.count, more.data());
    for (size_t i = 0; i < words.size(); ++i) {
      const uint64_t bits = uint64_t{words[i]} << 32 | more[i];
      // The high half of the product: as even as 64 bits can be.
      const auto below =
          range == 0
              ? bits
              : static_cast<uint64_t>(
                    (static_cast<unsigned __int128>(bits) * range) >> 64);
      data[run.offset + static_cast<int64_t>(i)] =
          static_cast<int64_t>(static_cast<uint64_t>(low) + below);
    }
  });
  draw.results[0].copy_(integers.view(draw.results[0].sizes()));
}

void draw_integers_between(const RandomDraw& draw, int64_t low, int64_t high) {
  WEFT_CHECK_USER(
      low < high,
      draw.node.op,
      ": no integer is at least ",
      low,
      " and below ",
      high);
  draw_integers(
      draw, low, static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
}

void draw_randint(const RandomDraw& draw) {
  draw_integers_between(draw, 0, int_arg(draw.node, 0, 1));
}

void draw_randint_low(const RandomDraw& draw) {
  draw_integers_between(
      draw, int_arg(draw.node, 0, 0), int_arg(draw.node, 1, 1));
}

// (self, high)
void draw_integers_like(const RandomDraw& draw) {
  draw_integers_between(draw, 0, int_arg(draw.node, 1, 1));
}

// (self, low, high)
void draw_integers_like_low(const RandomDraw& draw) {
  draw_integers_between(
      draw,
      int_arg(draw.node, 1, 0),
      int_arg(draw.node, 2, std::numeric_limits<int64_t>::max()));
}

// All that the element type holds exactly, from 0.
void draw_any_integers(const RandomDraw& draw) {
  const at::ScalarType type = draw.results[0].scalar_type();
  if (type == at::kBool) {
    return draw_integers(draw, 0, 2);
  }
  if (type == at::kDouble) {
    return draw_integers(draw, 0, (uint64_t{1} << 53) + 1);
  }
  if (c10::isFloatingType(type)) {
    return draw_integers(draw, 0, (uint64_t{1} << digits_of(type)) + 1);
  }
  const size_t bits =
      8 * c10::elementSize(type) - (c10::isSignedType(type) ? 1 : 0);
  draw_integers(draw, 0, bits == 64 ? 0 : uint64_t{1} << bits);
}

// By the inverse of its distribution function: one number an element, however
// unlikely the interval.
void draw_trunc_normal(const RandomDraw& draw) {
  const double mean = number(draw, 1, 0);
  const double deviation = number(draw, 2, 1);
  const double low = number(draw, 3, -2);
  const double high = number(draw, 4, 2);
  const auto below = [&](double bound) {
    return std::erf((bound - mean) / (deviation * std::sqrt(2.0)));
  };
  const at::Tensor numbers = uniform(draw, at::kDouble);
  numbers.mul_(below(high) - below(low)).add_(below(low)).erfinv_();
  numbers.mul_(deviation * std::sqrt(2.0)).add_(mean);
  draw.results[0].copy_(numbers.clamp_(low, high));
}

void draw_poisson(const RandomDraw& draw) {
  const at::Tensor rates = draw.operands[0].to(at::kDouble).contiguous();
  const at::Tensor counts = at::empty_like(rates);
  const auto* rate = rates.const_data_ptr<double>();
  auto* count = counts.mutable_data_ptr<double>();
  for_runs(draw.piece, [&](const ElementRun& run) {
    for (int64_t i = 0; i < run.count; ++i) {
      // Waiting times that fit into the rate, each from counters of its own.
      double left = rate[run.offset + i];
      double events = -1;
      RandomStream own = draw.stream;
      for (; left >= 0; events += 1) {
        double chance = 0;
        own.seed = draw.stream.seed +
                   static_cast<uint64_t>(events + 2) * 0x9E3779B97F4A7C15;
        random_uniform(own, run.first + static_cast<uint64_t>(i), 1, &chance);
        left += std::log1p(-chance);
      }
      count[run.offset + i] = events;
    }
  });
  draw.results[0].copy_(counts);
}

// (weights, count, replacement): classes of each row. The last dim of the
// weights is whole.
void draw_multinomial(const RandomDraw& draw) {
  const at::Tensor& weights = draw.operands[0];
  if (bool_arg(draw.node, 2, false)) {
    const at::Tensor sums = weights.to(at::kDouble).cumsum(-1);
    const at::Tensor places =
        uniform(draw, at::kDouble).mul_(sums.narrow(-1, sums.size(-1) - 1, 1));
    draw.results[0].copy_(at::searchsorted(sums, places, false, /*right=*/true)
                              .clamp_max_(sums.size(-1) - 1));
    return;
  }
  // The first of waiting times whose rates are the weights.
  std::vector<Piece> piece = draw.piece;
  piece.back() = {0, weights.size(-1), weights.size(-1)};
  const at::Tensor waiting = counted_uniform(draw.stream, piece, at::kDouble)
                                 .view(weights.sizes())
                                 .neg_()
                                 .add_(1)
                                 .log_()
                                 .neg_();
  draw.results[0].copy_(std::get<1>(at::topk(
      weights.to(at::kDouble).div(waiting), draw.results[0].size(-1), -1)));
}

// (self, noise, lower, upper, training)
void draw_rrelu(const RandomDraw& draw) {
  const at::Tensor& self = draw.operands[0];
  const double lower = number(draw, 2, 0.125);
  const double upper = number(draw, 3, 1.0 / 3);
  if (!bool_arg(draw.node, 4, false)) {
    draw.results[0].copy_(at::leaky_relu(self, (lower + upper) / 2));
    draw.results[1].copy_(draw.operands[1]);
    return;
  }
  const at::Tensor slopes =
      uniform(draw).mul_(upper - lower).add_(lower).to(self.scalar_type());
  const at::Tensor noise = at::where(self.le(0), slopes, at::ones_like(slopes));
  draw.results[0].copy_(self.mul(noise));
  draw.results[1].copy_(noise);
}

void draw_chance(
    const RandomDraw& draw, double chance, const at::Tensor& truths) {
  auto* data = static_cast<uint8_t*>(truths.mutable_data_ptr());
  for_runs(draw.piece, [&](const ElementRun& run) {
    random_truth(draw.stream, run.first, run.count, chance, data + run.offset);
  });
}

// (self, chance)
void draw_bernoulli(const RandomDraw& draw) {
  const double chance = number(draw, 1, 0.5);
  const at::Tensor& result = draw.results[0];
  if (result.scalar_type() != at::kFloat) {
    const at::Tensor truths = place_for(draw.piece, at::kBool);
    draw_chance(draw, chance, truths);
    result.copy_(truths.view(result.sizes()));
    return;
  }
  auto* data = result.mutable_data_ptr<float>();
  for_runs(draw.piece, [&](const ElementRun& run) {
    random_truth(draw.stream, run.first, run.count, chance, data + run.offset);
  });
}

// (self, chance of 0, training): the numbers kept and scaled, as ATen rounds
// them, and which they are.
void draw_dropout(const RandomDraw& draw) {
  const at::Tensor self = draw.operands[0];
  const at::Tensor& result = draw.results[0];
  const at::Tensor& mask = draw.results[1];
  if (!bool_arg(draw.node, 2, true)) {
    result.copy_(self);
    mask.fill_(true);
    return;
  }
  const double kept = 1 - number(draw, 1, 0.5);
  const double scale = kept == 0 ? 0 : 1 / kept;
  if (self.scalar_type() != at::kFloat) {
    draw_chance(draw, kept, mask);
    result.copy_(self.mul(mask).mul_(scale));
    return;
  }
  const at::Tensor dense = self.contiguous();
  const auto* from = dense.const_data_ptr<float>();
  auto* to = result.mutable_data_ptr<float>();
  auto* truths = static_cast<uint8_t*>(mask.mutable_data_ptr());
  for_runs(draw.piece, [&](const ElementRun& run) {
    random_dropout(
        draw.stream,
        run.first,
        run.count,
        kept,
        static_cast<float>(scale),
        from + run.offset,
        to + run.offset,
        truths + run.offset);
  });
}

const std::map<std::string_view, DrawFunction>& draws() {
  static const std::map<std::string_view, DrawFunction> table = {
      {"aten.rand", draw_uniform},
      {"aten.rand_like", draw_uniform},
      {"aten.uniform", draw_uniform_between},
      {"aten.randn", draw_normal},
      {"aten.randn_like", draw_normal},
      {"aten.normal_functional", draw_normal_like},
      {"aten.normal.float_float", draw_normal_of},
      {"aten.normal.Tensor_float", draw_normal_of},
      {"aten.normal.float_Tensor", draw_normal_of},
      {"aten.normal.Tensor_Tensor", draw_normal_of},
      {"aten.log_normal", draw_log_normal},
      {"aten.exponential", draw_exponential},
      {"aten.cauchy", draw_cauchy},
      {"aten.geometric", draw_geometric},
      {"aten.bernoulli", draw_bernoulli_by},
      {"aten.bernoulli.Tensor", draw_bernoulli_by},
      {"aten.bernoulli.p", draw_bernoulli},
      {"aten.native_dropout", draw_dropout},
      {"aten.rrelu_with_noise_functional", draw_rrelu},
      {"aten.randint", draw_randint},
      {"aten.randint.low", draw_randint_low},
      {"aten.randint_like", draw_integers_like},
      {"aten.randint_like.low_dtype", draw_integers_like_low},
      {"aten.random", draw_any_integers},
      {"aten.random.to", draw_integers_like},
      {"aten.random.from", draw_integers_like_low},
      {"aten.poisson", draw_poisson},
      {"aten.multinomial", draw_multinomial},
      {"weft.trunc_normal", draw_trunc_normal},
  };
  return table;
}

template <typename Number, typename Fill>
at::Tensor filled(
    const std::vector<Piece>& piece, at::ScalarType type, const Fill& fill) {
  at::Tensor tensor = place_for(piece, type);
  auto* data = tensor.mutable_data_ptr<Number>();
  for_runs(piece, [&](const ElementRun& run) { fill(run, data + run.offset); });
  return tensor;
}

// `fill` writes the numbers of a run, f64 or f32.
template <typename Fill>
at::Tensor counted(
    const std::vector<Piece>& piece, at::ScalarType like, const Fill& fill) {
  return like == at::kDouble ? filled<double>(piece, at::kDouble, fill)
                             : filled<float>(piece, at::kFloat, fill);
}

}  // namespace

DrawFunction find_draw(const Node& node) {
  const auto found = draws().find(node.op);
  return found == draws().end() ? nullptr : found->second;
}

at::Tensor counted_uniform(
    const RandomStream& stream,
    const std::vector<Piece>& piece,
    at::ScalarType like) {
  return counted(piece, like, [&](const ElementRun& run, auto* numbers) {
    if constexpr (std::is_same_v<decltype(numbers), double*>) {
      random_uniform(stream, run.first, run.count, numbers);
    } else {
      random_uniform(stream, run.first, run.count, digits_of(like), numbers);
    }
  });
}

at::Tensor counted_normal(
    const RandomStream& stream,
    const std::vector<Piece>& piece,
    at::ScalarType like) {
  return counted(piece, like, [&](const ElementRun& run, auto* numbers) {
    random_normal(stream, run.first, run.count, numbers);
  });
}

}  // namespace weft
