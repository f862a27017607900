// SPDX-License-Identifier: Apache-2.0
#include "execute/communicator.h"

#include "base/text.h"
#include "execute/test_ranks.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>

namespace weft {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Both,
    Communication,
    testing::Values("shared", "segment", "gloo"),
    [](const auto& kind) { return std::string(kind.param); });

TEST_P(Communication, TwoRanksAgree) {
  EXPECT_EQ(run_as_ranks(2, "RankProgram.DISABLED_Collectives"), 0);
}

TEST_P(Communication, ThreeRanksAgree) {
  EXPECT_EQ(run_as_ranks(3, "RankProgram.DISABLED_Collectives"), 0);
}

TEST(SharedMemory, TheBitsAreThoseOfAddingInTheOrderOfRanks) {
  for (const char* way : {"shared", "segment"}) {
    ::setenv("WEFT_COMMUNICATION", way, 1);
    EXPECT_EQ(run_as_ranks(3, "RankProgram.DISABLED_OrderOfRanks"), 0) << way;
  }
  ::unsetenv("WEFT_COMMUNICATION");
}

TEST(RankProgram, DISABLED_Collectives) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  const std::vector<int64_t> ranks = all_ranks(rendezvous);
  const auto all = world->group(ranks);
  const int64_t rank = rendezvous.rank;
  for (const at::ScalarType type :
       {at::kFloat,
        at::kDouble,
        at::kHalf,
        at::kBFloat16,
        at::kLong,
        at::kInt,
        at::kByte}) {
    for (const int64_t count : {0, 1, 7, 1024, 8193, 400'000, 1'500'001}) {
      const bool is_exact = !c10::isFloatingType(type);
      at::Tensor expected = at::zeros({count}, is_exact ? type : at::kDouble);
      for (const int64_t other : ranks) {
        expected += numbers(count, other, type);
      }
      at::Tensor sum = numbers(count, rank, type);
      all->all_reduce(sum)->wait();
      const double tolerance =
          is_exact ? 0 : (c10::elementSize(type) == 2 ? 2e-2 : 1e-6);
      EXPECT_TRUE(
          sum.to(expected.scalar_type()).allclose(expected, 0, tolerance))
          << c10::toString(type) << " " << count;

      at::Tensor copy = numbers(count, rank, type);
      all->broadcast(copy, rendezvous.size - 1)->wait();
      EXPECT_TRUE(copy.equal(numbers(count, rendezvous.size - 1, type)));

      at::Tensor whole = at::empty({rendezvous.size, count}, type);
      all->all_gather(whole, numbers(count, rank, type))->wait();
      for (const int64_t other : ranks) {
        EXPECT_TRUE(whole[other].equal(numbers(count, other, type)));
      }
    }
  }
  // Several at once, waited for in another order.
  std::vector<at::Tensor> tensors;
  std::vector<std::unique_ptr<Pending>> pending;
  for (int64_t i = 0; i < 20; ++i) {
    tensors.push_back(at::full({i * 5000}, static_cast<double>(i + rank)));
    pending.push_back(all->all_reduce(tensors.back()));
  }
  all->barrier()->wait();
  for (size_t i = tensors.size(); i-- > 0;) {
    pending[i]->wait();
    const auto sum =
        static_cast<double>(rendezvous.size * static_cast<int64_t>(i)) +
        static_cast<double>(rendezvous.size * (rendezvous.size - 1)) / 2;
    EXPECT_TRUE(tensors[i].equal(at::full_like(tensors[i], sum)));
  }
  // Groups that overlap, in an order that differs from rank to rank.
  if (rank < 2) {
    const auto two = world->group({0, 1});
    at::Tensor one = at::full({100'000}, 1.0);
    at::Tensor ten = at::full({100'000}, 10.0);
    std::unique_ptr<Pending> first;
    std::unique_ptr<Pending> second;
    const auto again = world->group({0, 1});
    if (rank == 0) {
      first = two->all_reduce(one);
      second = again->all_reduce(ten);
    } else {
      second = again->all_reduce(ten);
      first = two->all_reduce(one);
    }
    first->wait();
    second->wait();
    EXPECT_TRUE(one.equal(at::full_like(one, 2.0)));
    EXPECT_TRUE(ten.equal(at::full_like(ten, 20.0)));
  }
  const std::vector<std::string> texts = world->gather(cat("text ", rank));
  EXPECT_EQ(texts.size(), rank == 0 ? ranks.size() : 0);
  if (rank == 0) {
    EXPECT_EQ(texts.back(), cat("text ", rendezvous.size - 1));
  }
}

TEST(RankProgram, DISABLED_OrderOfRanks) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  const auto all = world->group({0, 1, 2});
  for (const int64_t count : {1000, 400'000}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      at::Tensor expected = numbers(count, 0, type).to(at::kFloat);
      expected += numbers(count, 1, type).to(at::kFloat);
      expected += numbers(count, 2, type).to(at::kFloat);
      at::Tensor sum = numbers(count, rendezvous.rank, type);
      all->all_reduce(sum)->wait();
      EXPECT_TRUE(sum.equal(expected.to(type)))
          << c10::toString(type) << " " << count;
    }
  }
}

// Prints; asserts nothing about time.
TEST(RankProgram, DISABLED_Times) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  const std::vector<int64_t> ranks = all_ranks(rendezvous);
  const auto all = world->group(ranks);
  for (const int64_t bytes : {4096, 55'000'000}) {
    at::Tensor tensor = at::zeros({bytes / 4}, at::kFloat);
    const int times = bytes > 100'000 ? 10 : 1000;
    std::vector<double> seconds;
    timespec cpu_begin = {};
    timespec cpu_end = {};
    for (int i = -3; i < times; ++i) {
      if (i == 0) {
        ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_begin);
      }
      const auto begin = std::chrono::steady_clock::now();
      all->all_reduce(tensor)->wait();
      const std::chrono::duration<double> passed =
          std::chrono::steady_clock::now() - begin;
      if (i >= 0) {
        seconds.push_back(passed.count());
      }
    }
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_end);
    const double cpu =
        static_cast<double>(cpu_end.tv_sec - cpu_begin.tv_sec) +
        1e-9 * static_cast<double>(cpu_end.tv_nsec - cpu_begin.tv_nsec);
    std::sort(seconds.begin(), seconds.end());
    if (rendezvous.rank == 0) {
      std::printf(
          "%s all_reduce of %lld bytes: median %.3f ms, CPU %.3f ms\n",
          std::getenv("WEFT_COMMUNICATION"),
          static_cast<long long>(bytes),
          1e3 * seconds[seconds.size() / 2],
          1e3 * cpu / times);
    }
  }
}

TEST_P(Communication, DISABLED_TimesOfTwoPinnedRanks) {
  EXPECT_EQ(run_as_ranks(2, "RankProgram.DISABLED_Times", true), 0);
}

}  // namespace
}  // namespace weft
