// SPDX-License-Identifier: Apache-2.0
// Programs with every kind of transfer, on real ranks.
#include "base/text.h"
#include "execute/executor.h"
#include "execute/test_ranks.h"
#include "program/live_bytes.h"
#include "program/transfer.h"

#include <ATen/ops/cat.h>

#include <map>

namespace weft {
namespace {

class TransferProgram : public Communication {};

INSTANTIATE_TEST_SUITE_P(
    Both,
    TransferProgram,
    testing::Values("shared", "gloo"),
    [](const auto& kind) { return std::string(kind.param); });

TEST_P(TransferProgram, EveryKindOnTwoAndFourRanks) {
  EXPECT_EQ(run_as_ranks(2, "TransferRank.DISABLED_EveryKind"), 0);
  EXPECT_EQ(run_as_ranks(4, "TransferRank.DISABLED_EveryKind"), 0);
}

// Each rank names its groups in another order.
TEST_P(TransferProgram, ARingOfThree) {
  EXPECT_EQ(run_as_ranks(3, "TransferRank.DISABLED_Ring"), 0);
}

// Half of the ranks differ in `data`; two ranks only in `tensor`.
std::string every_kind(int64_t ranks) {
  std::string text = cat("program @p on <data=", ranks / 2, ", tensor=2>\n");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t peer = ranks - 1 - rank;
    text +=
        cat("block @r",
            rank,
            " ranks ",
            rank,
            " to ",
            rank,
            R"( {
  input %g : f32[65536] = batch "g" at [-] +{data, tensor} offset(0)
  input %w : bf16[3, 5] = parameter "w" trained at [data*tensor, -]
  input %u : f32[2] = parameter "u" trained at [data*tensor]
  input %v : f64[7] = parameter "v" trained at [tensor]
  input %h : f32[6, 10] = parameter "h" trained at [-, -] +{tensor}
  input %x : f32[1, 6, 4] = batch "x" at [tensor, -, data] offset(262144)
  start %g.sum = all_reduce(%g) over {data, tensor}
  start %x.sent = send(%x) to )",
            peer,
            R"(
  start %w.whole, %u.whole = all_gather(%w, %u) over {data, tensor} offset(262272, 262400)
  start %v.whole = all_gather(%v) over {tensor} offset(262464)
  start %h.piece = reduce_scatter(%h) over {tensor} offset(262592)
  start %y = all_to_all(%x) over {tensor} offset(262720)
  start %k = receive : f32[1, 6, 4] at [tensor, -, data] offset(262848) from )",
            peer,
            R"(
  start %x.kept = copy(%x) to host
  wait %k
  wait %x.kept
  wait %y
  wait %x.sent
  free %x
  start %x.back = copy(%x.kept) to device offset(262976)
  wait %x.back
  free %x.kept
  wait %u.whole
  wait %v.whole
  wait %h.piece
  wait %g.sum
  return gradient "g" = %g.sum
  return gradient "w" = %w.whole
  return gradient "u" = %u.whole
  return gradient "v" = %v.whole
  return gradient "h" = %h.piece
  return gradient "y" = %y
  return gradient "k" = %k
  return gradient "x" = %x.back
}
)");
  }
  return text;
}

// One rank of a program, with the memory that `weft train` gives it.
class Rank {
 public:
  Rank(const Program& program, World& world, int64_t rank)
      : executor_(program, rank, &world, arena_, /*seed=*/0) {}

  Executor& executor() { return executor_; }

  // Each input gets the numbers of this rank.
  void fill(int64_t seed) {
    for (const at::Tensor& input : executor_.inputs()) {
      input.copy_(
          numbers(input.numel(), seed, input.scalar_type()).view_as(input));
    }
  }

  std::map<std::string, at::Tensor> outputs() {
    std::map<std::string, at::Tensor> out;
    const Function& function = executor_.block().function;
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      out[function.outputs[i].key] = executor_.outputs()[i];
    }
    return out;
  }

 private:
  Arena arena_;
  Executor executor_;
};

void expect_close(const at::Tensor& ours, const at::Tensor& sum) {
  EXPECT_TRUE(ours.to(at::kDouble).allclose(sum.to(at::kDouble), 0, 1e-5));
}

TEST(TransferRank, DISABLED_EveryKind) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  const int64_t size = rendezvous.size;
  const int64_t rank = rendezvous.rank;
  const Program program = parse_program(every_kind(size), "p");
  verify(program);
  Rank self(program, *world, rank);
  const int64_t half = rank % 2;
  const std::vector<int64_t> pair = {rank - half, rank - half + 1};
  for (int64_t step = 0; step < 3; ++step) {
    const auto of = [&](int64_t count, int64_t other, at::ScalarType type) {
      return numbers(count, 10 * step + other, type);
    };
    self.fill(10 * step + rank);
    if (step == 2) {
      const Timeline timeline = self.executor().run_timed(step);
      verify(timeline);
      for (const Event& event : timeline.events) {
        EXPECT_EQ(
            event.stream == Stream::Communication,
            event.label.rfind("start ", 0) == 0);
      }
    } else {
      self.executor().run(step);
    }
    const auto out = self.outputs();
    at::Tensor sum = of(65536, 0, at::kFloat);
    std::vector<at::Tensor> w = {of(15, 0, at::kBFloat16)};
    std::vector<at::Tensor> u = {of(2, 0, at::kFloat)};
    for (int64_t other = 1; other < size; ++other) {
      sum += of(65536, other, at::kFloat);
      w.push_back(of(15, other, at::kBFloat16));
      u.push_back(of(2, other, at::kFloat));
    }
    expect_close(out.at("g"), sum);
    EXPECT_TRUE(out.at("w").equal(at::cat(w).view({3 * size, 5})));
    EXPECT_TRUE(out.at("u").equal(at::cat(u)));
    EXPECT_TRUE(out.at("v").equal(
        at::cat({of(7, pair[0], at::kDouble), of(7, pair[1], at::kDouble)})));
    const at::Tensor both =
        of(60, pair[0], at::kFloat) + of(60, pair[1], at::kFloat);
    EXPECT_TRUE(
        out.at("h").equal(both.view({6, 10}).slice(0, 3 * half, 3 * half + 3)));
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(
          out.at("y")[i].equal(of(24, pair[static_cast<size_t>(i)], at::kFloat)
                                   .view({6, 4})
                                   .slice(0, 3 * half, 3 * half + 3)));
    }
    EXPECT_TRUE(
        out.at("k").flatten().equal(of(24, size - 1 - rank, at::kFloat)));
    EXPECT_TRUE(out.at("x").flatten().equal(of(24, rank, at::kFloat)));
    for (const TransferKind kind : kTransferKinds) {
      EXPECT_EQ(
          self.executor().taken_bytes(kind),
          (step + 1) * wire_bytes(program, rank, kind))
          << name(kind);
    }
  }
  EXPECT_EQ(self.executor().used_bytes(), peak_bytes(self.executor().block()));
}

TEST(TransferRank, DISABLED_Ring) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  std::string text = "program @ring on <stage=3>\n";
  for (int64_t rank = 0; rank < 3; ++rank) {
    text +=
        cat("block @r",
            rank,
            " ranks ",
            rank,
            " to ",
            rank,
            R"( {
  input %x : f32[4] = batch "x" at [-] offset(0)
  start %x.sent = send(%x) to )",
            (rank + 1) % 3,
            R"(
  start %k = receive : f32[4] at [-] offset(64) from )",
            (rank + 2) % 3,
            R"(
  wait %k
  wait %x.sent
  return gradient "k" = %k
}
)");
  }
  const Program program = parse_program(text, "p");
  verify(program);
  Rank self(program, *world, rendezvous.rank);
  self.fill(rendezvous.rank);
  self.executor().run(0);
  EXPECT_TRUE(self.outputs().at("k").equal(
      numbers(4, (rendezvous.rank + 2) % 3, at::kFloat)));
}

// What is left of a transfer where there is nobody else.
TEST(TransferRankAlone, CollectivesOfOneRankCopy) {
  const Program program = parse_program(
      R"(program @p on <data=1>
block @b ranks 0 to 0 {
  input %x : f32[4] = parameter "x" trained at [data]
  input %g : f32[4] = parameter "g" trained at [-] +{data}
  start %y = all_gather(%x) over {data} offset(0)
  start %h = reduce_scatter(%g) over {data} offset(64)
  wait %y
  wait %h
  start %g.sum = all_reduce(%g) over {data}
  wait %g.sum
  return gradient "y" = %y
  return gradient "h" = %h
  return gradient "g" = %g.sum
}
)",
      "p");
  verify(program);
  Arena arena;
  Executor executor(program, 0, nullptr, arena, 0);
  executor.inputs()[0].copy_(numbers(4, 1, at::kFloat));
  executor.inputs()[1].copy_(numbers(4, 2, at::kFloat));
  executor.run(0);
  EXPECT_TRUE(executor.outputs()[0].equal(numbers(4, 1, at::kFloat)));
  EXPECT_TRUE(executor.outputs()[1].equal(numbers(4, 2, at::kFloat)));
  EXPECT_TRUE(executor.outputs()[2].equal(numbers(4, 2, at::kFloat)));
  EXPECT_EQ(executor.taken_bytes(TransferKind::AllGather), 0);
}

}  // namespace
}  // namespace weft
