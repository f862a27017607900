// SPDX-License-Identifier: Apache-2.0
#include "aten/types.h"
#include "execute/counter_random.h"
#include "execute/kernel.h"
#include "graph/graph.h"
#include "ops/call.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>

namespace weft {
namespace {

// Published with the algorithm: ten rounds from counter and key 0.
TEST(RandomWords, AreThoseOfPhilox) {
  uint32_t words[32];
  random_words({0, 0, 0}, 0, 32, words);
  EXPECT_EQ(words[0], 0x6627e8d5U);
  EXPECT_EQ(words[8], 0xe169c58dU);
  EXPECT_EQ(words[16], 0xbc57ac4cU);
  EXPECT_EQ(words[24], 0x9b00dbd8U);
}

TEST(RandomWords, DoNotDependOnWhereARunBegins) {
  const RandomStream stream{7, 3, 5};
  const uint64_t far = (uint64_t{1} << 35) - 100;
  std::vector<uint32_t> whole(300);
  random_words(stream, far, 300, whole.data());
  for (const int64_t first : {0, 1, 31, 32, 33, 100, 298}) {
    for (const int64_t count : {0, 1, 2, 31, 32, 65, 150}) {
      if (first + count > 300) {
        continue;
      }
      std::vector<uint32_t> part(static_cast<size_t>(count));
      random_words(
          stream, far + static_cast<uint64_t>(first), count, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first))
          << first << " " << count;
    }
  }
}

// A random node and tensors that it may take.
struct Case {
  Function function;
  Node node;
  std::vector<at::Tensor> operands;
};

Case parse_case(const std::string& text) {
  const Graph graph = parse_graph("graph @g func @step {" + text + "}", "t");
  Case one;
  one.function = step_of(graph);
  one.node = one.function.nodes.back();
  at::Generator generator = at::detail::createCPUGenerator(1);
  for (const ValueId id : operands(one.node)) {
    const TensorType& type = one.function[id].type;
    one.operands.push_back(
        at::empty_strided(
            type.sizes, strides_of(type), scalar_type_of(type.dtype))
            .uniform_(0.1, 0.9, generator));
  }
  return one;
}

std::vector<at::Tensor> draw(
    const Case& one,
    const std::vector<at::Tensor>& operands,
    const std::vector<Piece>& piece,
    const StepContext& context = {1, 0}) {
  std::vector<at::Tensor> results;
  for (const ValueId id : one.node.results) {
    const TensorType& type = one.function[id].type;
    Dims sizes = type.sizes;
    for (size_t dim = 0; dim < piece.size(); ++dim) {
      sizes[dim] = piece[dim].size;
    }
    results.push_back(at::empty(sizes, scalar_type_of(type.dtype)));
  }
  bind_kernel({one.function, one.node, operands, results, piece})(context);
  return results;
}

std::vector<at::Tensor> draw(
    const Case& one, const StepContext& context = {1, 0}) {
  return draw(
      one,
      one.operands,
      whole_pieces(one.function[one.node.results.front()].type.sizes),
      context);
}

const std::vector<std::string> kSplittable = {
    "forward: %r = aten.rand([8, 12, 4], rng=1) : f32[8, 12, 4]",
    "forward: %r = aten.rand([8, 12, 4], dtype=f64, rng=1) : f64[8, 12, 4]",
    "forward: %r = aten.randn([8, 12, 4], rng=1) : f32[8, 12, 4]",
    "forward: %r = aten.randn([8, 12, 4], dtype=f64, rng=1) : f64[8, 12, 4]",
    "forward: %r = aten.randint(1000, [8, 12, 4], rng=1) : i64[8, 12, 4]",
    "forward: %r = aten.normal.float_float(1.0, 2.0, [8, 12, 4], rng=1) : "
    "f32[8, 12, 4]",
    "input %x : f32[8, 12, 4] = batch \"0\" forward: %r, %m = "
    "aten.native_dropout(%x, 0.3, true, rng=1) : f32[8, 12, 4], "
    "bool[8, 12, 4]",
    "input %x : bf16[8, 12, 4] = batch \"0\" forward: %r, %m = "
    "aten.native_dropout(%x, 0.3, true, rng=1) : bf16[8, 12, 4], "
    "bool[8, 12, 4]",
    "input %x : f32[8, 12, 4]{1, 32, 8} = batch \"0\" forward: %r = "
    "aten.bernoulli.p(%x, 0.3, rng=1) : f32[8, 12, 4]",
    "input %x : f32[8, 12, 4] = batch \"0\" forward: %r = aten.bernoulli(%x, "
    "rng=1) : f32[8, 12, 4]",
    "input %x : f32[8, 12, 4] = batch \"0\" forward: %r = "
    "aten.exponential(%x, 2.0, rng=1) : f32[8, 12, 4]",
    "input %x : f32[8, 12, 4] = batch \"0\" forward: %r = aten.poisson(%x, "
    "rng=1) : f32[8, 12, 4]",
    "input %x : f32[8, 12, 4] = batch \"0\" forward: %r = "
    "aten.geometric(%x, 0.3, rng=1) : f32[8, 12, 4]",
    "input %x : f32[8, 12, 4] = batch \"0\" input %y : f32[8, 12, 4] = batch "
    "\"1\" forward: %r = aten.normal.Tensor_Tensor(%x, %y, rng=1) : "
    "f32[8, 12, 4]",
    "input %x : f32[8, 12, 4] = batch \"0\" forward: %r = "
    "weft.trunc_normal(%x, 0.0, 1.0, -2.0, 2.0, rng=1) : f32[8, 12, 4]",
};

class Splittable : public testing::TestWithParam<std::string> {};

TEST_P(Splittable, PiecesAreThoseOfTheWhole) {
  const Case one = parse_case(GetParam());
  const std::vector<at::Tensor> whole = draw(one);
  const Dims sizes = {8, 12, 4};
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    for (const int64_t ways : {2, 4}) {
      for (int64_t part = 0; part < ways; ++part) {
        std::vector<Piece> piece = whole_pieces(sizes);
        const int64_t size = sizes[dim] / ways;
        piece[dim] = {part * size, size, sizes[dim]};
        // Also two dims at once.
        piece[(dim + 1) % 3] = {1, 2, sizes[(dim + 1) % 3]};
        const auto cut = [&](at::Tensor tensor) {
          for (size_t d = 0; d < piece.size(); ++d) {
            tensor = tensor.narrow(
                static_cast<int64_t>(d), piece[d].start, piece[d].size);
          }
          return tensor;
        };
        std::vector<at::Tensor> mine;
        for (const at::Tensor& operand : one.operands) {
          mine.push_back(cut(operand));
        }
        const std::vector<at::Tensor> drawn = draw(one, mine, piece);
        for (size_t i = 0; i < drawn.size(); ++i) {
          EXPECT_TRUE(drawn[i].equal(cut(whole[i])))
              << "dim " << dim << ", piece " << part << " of " << ways;
        }
      }
    }
  }
}

// Every second element of a dim is a piece of two levels.
TEST_P(Splittable, StripesAreThoseOfTheWhole) {
  const Case one = parse_case(GetParam());
  const std::vector<Piece> piece = {{0, 8, 8}, {0, 6, 6}, {1, 1, 2}, {0, 4, 4}};
  const auto cut = [](const at::Tensor& tensor) {
    return tensor.reshape({8, 6, 2, 4}).select(2, 1).contiguous();
  };
  std::vector<at::Tensor> mine;
  for (const at::Tensor& operand : one.operands) {
    mine.push_back(cut(operand));
  }
  const std::vector<at::Tensor> whole = draw(one);
  std::vector<at::Tensor> drawn;
  for (const at::Tensor& each : whole) {
    drawn.push_back(at::empty_like(cut(each)));
  }
  bind_kernel({one.function, one.node, mine, drawn, piece})({1, 0});
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(drawn[i].equal(cut(whole[i])));
  }
}

TEST_P(Splittable, StepsSeedsAndNumbersOfNodesAreUnrelated) {
  Case one = parse_case(GetParam());
  const at::Tensor first = draw(one, {1, 0})[0];
  EXPECT_TRUE(draw(one, {1, 0})[0].equal(first));
  EXPECT_FALSE(draw(one, {1, 1})[0].equal(first));
  EXPECT_FALSE(draw(one, {2, 0})[0].equal(first));
  set_option(one.node, kRngOption, {int64_t{2}});
  EXPECT_FALSE(draw(one, {1, 0})[0].equal(first));
}

INSTANTIATE_TEST_SUITE_P(Random, Splittable, testing::ValuesIn(kSplittable));

// The largest distance between the empirical distribution function and
// `expected`, times the root of the count: beyond 1.95 once in a thousand.
template <typename Expected>
double kolmogorov(const at::Tensor& numbers, Expected&& expected) {
  const at::Tensor sorted =
      std::get<0>(numbers.flatten().to(at::kDouble).sort());
  const auto* data = sorted.const_data_ptr<double>();
  const auto n = static_cast<double>(sorted.numel());
  double worst = 0;
  for (int64_t i = 0; i < sorted.numel(); ++i) {
    const double at = expected(data[i]);
    worst = std::max(worst, std::abs(static_cast<double>(i + 1) / n - at));
    worst = std::max(worst, std::abs(static_cast<double>(i) / n - at));
  }
  return worst * std::sqrt(n);
}

double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

at::Tensor draw_text(const std::string& text, const StepContext& context) {
  return draw(parse_case("forward: %r = " + text), context)[0];
}

TEST(Statistics, UniformAndNormal) {
  for (const int64_t step : {0, 1, 77}) {
    for (const std::string type : {"f32", "f64"}) {
      const std::string sizes =
          "([100000], dtype=" + type + ", rng=4) : " + type + "[100000]";
      const at::Tensor uniform = draw_text("aten.rand" + sizes, {3, step});
      EXPECT_LT(kolmogorov(uniform, [](double x) { return x; }), 1.95);
      EXPECT_LT(uniform.max().item<double>(), 1.0);
      const at::Tensor normal = draw_text("aten.randn" + sizes, {3, step});
      EXPECT_LT(kolmogorov(normal, normal_below), 1.95);
      EXPECT_NEAR(normal.mean().item<double>(), 0, 0.013);
      EXPECT_NEAR(normal.var().item<double>(), 1, 0.02);
      // Neighbours, and the same element of the next step.
      const at::Tensor next = draw_text("aten.randn" + sizes, {3, step + 1});
      EXPECT_NEAR(normal.mul(next).mean().item<double>(), 0, 0.013);
      EXPECT_NEAR(normal.mul(normal.roll(1)).mean().item<double>(), 0, 0.013);
      EXPECT_NEAR(
          normal.square().mul(normal.roll(1).square()).mean().item<double>(),
          1,
          0.05);
    }
  }
}

TEST(Statistics, TheOthers) {
  const std::string input = "input %x : f32[100000] = batch \"0\" forward: ";
  const auto numbers = [&](const std::string& call) {
    return draw(parse_case(input + "%r = " + call + " : f32[100000]"))[0];
  };
  EXPECT_LT(
      kolmogorov(
          numbers("aten.exponential(%x, 2.0, rng=1)"),
          [](double x) { return 1 - std::exp(-2 * x); }),
      1.95);
  EXPECT_LT(
      kolmogorov(
          numbers("aten.cauchy(%x, 1.0, 2.0, rng=1)"),
          [](double x) {
            return std::atan((x - 1) / 2) / std::acos(-1.0) + 0.5;
          }),
      1.95);
  EXPECT_LT(
      kolmogorov(
          numbers("weft.trunc_normal(%x, 0.0, 1.0, 0.5, 2.0, rng=1)"),
          [](double x) {
            return (normal_below(x) - normal_below(0.5)) /
                   (normal_below(2.0) - normal_below(0.5));
          }),
      1.95);
  EXPECT_NEAR(
      numbers("aten.bernoulli.p(%x, 0.3, rng=1)").mean().item<double>(),
      0.3,
      0.006);
  EXPECT_NEAR(
      numbers("aten.geometric(%x, 0.25, rng=1)").mean().item<double>(),
      4,
      0.05);
  EXPECT_EQ(
      numbers("aten.bernoulli.p(%x, 0.0, rng=1)").sum().item<double>(), 0);
  EXPECT_EQ(
      numbers("aten.bernoulli.p(%x, 1.0, rng=1)").sum().item<double>(), 100000);
  Case poisson =
      parse_case(input + "%r = aten.poisson(%x, rng=1) : f32[100000]");
  poisson.operands[0].fill_(3.5);
  EXPECT_NEAR(draw(poisson)[0].mean().item<double>(), 3.5, 0.03);
  EXPECT_NEAR(draw(poisson)[0].var().item<double>(), 3.5, 0.1);
}

TEST(RandomKernel, DrawsClassesByTheirWeights) {
  for (const std::string replaced : {"true", "false"}) {
    Case one = parse_case(
        "input %x : f32[50000, 3] = batch \"0\" forward: %r = "
        "aten.multinomial(%x, 2, " +
        replaced + ", rng=1) : i64[50000, 2]");
    one.operands[0].copy_(at::tensor({0.5F, 0.2F, 0.3F}).expand({50000, 3}));
    const at::Tensor drawn = draw(one)[0];
    const at::Tensor first = drawn.select(1, 0);
    EXPECT_NEAR(first.eq(0).to(at::kFloat).mean().item<double>(), 0.5, 0.01);
    EXPECT_NEAR(first.eq(1).to(at::kFloat).mean().item<double>(), 0.2, 0.01);
    const bool repeats = first.eq(drawn.select(1, 1)).any().item<bool>();
    EXPECT_EQ(repeats, replaced == "true");
  }
}

TEST(RandomKernel, APermutationLeavesTheGeneratorAsItWas) {
  const Case one =
      parse_case("forward: %r = aten.randperm(100, rng=1) : i64[100]");
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  const at::Tensor drawn = draw(one)[0];
  EXPECT_TRUE(before.equal(at::detail::getDefaultCPUGenerator().get_state()));
  EXPECT_TRUE(std::get<0>(drawn.sort()).equal(at::arange(100)));
  EXPECT_TRUE(draw(one)[0].equal(drawn));
  EXPECT_FALSE(draw(one, {1, 1})[0].equal(drawn));
}

double random_seconds(const std::function<void()>& run) {
  run();
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

TEST(RandomKernel, PrintsItsSpeedBesideAtens) {
  at::set_num_threads(1);
  const Case one = parse_case(
      "input %x : f32[1024, 1024] = batch \"0\" forward: %r, %m = "
      "aten.native_dropout(%x, 0.1, true, rng=1) : f32[1024, 1024], "
      "bool[1024, 1024]");
  const at::Tensor result = at::empty({1024, 1024});
  const at::Tensor mask = at::empty({1024, 1024}, at::kBool);
  const Kernel kernel = bind_kernel(
      {one.function,
       one.node,
       one.operands,
       {result, mask},
       whole_pieces({1024, 1024})});
  const double ours = random_seconds([&] { kernel({1, 0}); });
  const double theirs =
      random_seconds([&] { at::native_dropout(one.operands[0], 0.1, true); });
  std::printf(
      "native_dropout of 2^20 elements: %.2f ns an element, ATen %.2f\n",
      ours * 1e9 / (1 << 20),
      theirs * 1e9 / (1 << 20));
  EXPECT_GT(result.ne(0).sum().item<int64_t>(), 0);
}

}  // namespace
}  // namespace weft
