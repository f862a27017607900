// SPDX-License-Identifier: Apache-2.0
// Transfers of pieces: reduce_scatter, all_to_all, send and receive.
#include "base/text.h"
#include "execute/communicator.h"
#include "execute/test_ranks.h"
#include "program/transfer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace weft {
namespace {

class PieceCommunication : public Communication {};

INSTANTIATE_TEST_SUITE_P(
    Both,
    PieceCommunication,
    testing::Values("shared", "segment", "gloo"),
    [](const auto& kind) { return std::string(kind.param); });

TEST_P(PieceCommunication, PiecesOfTwoThreeAndFourRanks) {
  for (const int64_t ranks : {2, 3, 4}) {
    EXPECT_EQ(run_as_ranks(ranks, "PieceProgram.DISABLED_All"), 0) << ranks;
  }
}

TEST_P(PieceCommunication, SendsOfTwoThreeAndFourRanks) {
  for (const int64_t ranks : {2, 3, 4}) {
    EXPECT_EQ(run_as_ranks(ranks, "PieceProgram.DISABLED_Sends"), 0) << ranks;
  }
}

TEST_P(PieceCommunication, SeveralTogether) {
  for (const int64_t ranks : {2, 3}) {
    EXPECT_EQ(run_as_ranks(ranks, "PieceProgram.DISABLED_Together"), 0)
        << ranks;
  }
}

// The piece of `rank` of the sum, as it must be bit by bit.
at::Tensor expected_piece(
    int64_t ranks, int64_t rank, int64_t count, at::ScalarType type) {
  const bool is_half = c10::elementSize(type) == 2 && type != at::kShort;
  const auto piece = [&](int64_t from) {
    return numbers(ranks * count, from, type)
        .slice(0, rank * count, (rank + 1) * count)
        .to(is_half ? at::kFloat : type);
  };
  at::Tensor sum = piece(0).clone();
  for (int64_t other = 1; other < ranks; ++other) {
    sum += piece(other);
  }
  return sum.to(type);
}

void expect_pieces(
    Communicator& all,
    const Rendezvous& rendezvous,
    int64_t count,
    const at::Tensor& whole,
    const at::Tensor& piece,
    const at::Tensor& other) {
  const at::ScalarType type = whole.scalar_type();
  const auto taken = [&](TransferKind kind) { return all.taken_bytes(kind); };
  const int64_t bytes = (rendezvous.size - 1) * count * whole.element_size();
  const std::string what = cat(c10::toString(type), " ", count);

  whole.copy_(numbers(rendezvous.size * count, rendezvous.rank, type));
  int64_t before = taken(TransferKind::ReduceScatter);
  all.reduce_scatter(piece, whole)->wait();
  EXPECT_TRUE(piece.equal(
      expected_piece(rendezvous.size, rendezvous.rank, count, type)))
      << what;
  EXPECT_EQ(taken(TransferKind::ReduceScatter) - before, bytes) << what;
  EXPECT_TRUE(
      whole.equal(numbers(rendezvous.size * count, rendezvous.rank, type)));

  before = taken(TransferKind::AllToAll);
  all.all_to_all(other, whole)->wait();
  for (int64_t from = 0; from < rendezvous.size; ++from) {
    const at::Tensor theirs =
        numbers(rendezvous.size * count, from, type)
            .slice(0, rendezvous.rank * count, (rendezvous.rank + 1) * count);
    EXPECT_TRUE(other.slice(0, from * count, (from + 1) * count).equal(theirs))
        << what;
  }
  EXPECT_EQ(taken(TransferKind::AllToAll) - before, bytes) << what;

  before = taken(TransferKind::AllGather);
  piece.copy_(numbers(count, rendezvous.rank, type));
  all.all_gather(whole, piece)->wait();
  for (int64_t from = 0; from < rendezvous.size; ++from) {
    EXPECT_TRUE(whole.slice(0, from * count, (from + 1) * count)
                    .equal(numbers(count, from, type)))
        << what;
  }
  EXPECT_EQ(taken(TransferKind::AllGather) - before, bytes) << what;
}

TEST(PieceProgram, DISABLED_All) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  const auto all = world->group(all_ranks(rendezvous));
  for (const at::ScalarType type :
       {at::kFloat,
        at::kDouble,
        at::kHalf,
        at::kBFloat16,
        at::kLong,
        at::kInt,
        at::kShort,
        at::kByte}) {
    for (const int64_t count : {0, 1, 7, 1024, 8193, 100'001}) {
      expect_pieces(
          *all,
          rendezvous,
          count,
          at::empty({rendezvous.size * count}, type),
          at::empty({count}, type),
          at::empty({rendezvous.size * count}, type));
    }
  }
  // A few MB, and what need not be added may have any type.
  expect_pieces(
      *all,
      rendezvous,
      1'000'000,
      at::empty({rendezvous.size * 1'000'000}, at::kFloat),
      at::empty({1'000'000}, at::kFloat),
      at::empty({rendezvous.size * 1'000'000}, at::kFloat));
  at::Tensor flags = at::zeros({rendezvous.size}, at::kBool);
  const at::Tensor mine = at::zeros({rendezvous.size}, at::kBool);
  mine[0].fill_(rendezvous.rank == 1);
  all->all_to_all(flags, mine)->wait();
  EXPECT_EQ(flags[1].item<bool>(), rendezvous.rank == 0);
  // A large sum takes what wire_bytes says, on any number of ranks.
  at::Tensor sum = numbers(rendezvous.size * 100'000, 0, at::kFloat);
  const int64_t before = all->taken_bytes(TransferKind::AllReduce);
  all->all_reduce(sum)->wait();
  const auto bytes = static_cast<int64_t>(sum.nbytes());
  EXPECT_NEAR(
      static_cast<double>(all->taken_bytes(TransferKind::AllReduce) - before),
      static_cast<double>(collective_bytes(
          TransferKind::AllReduce, rendezvous.size, bytes, bytes)),
      // Slices are whole cache lines, in each chunk that travels.
      64.0 * static_cast<double>(bytes / 500'000 + 1) *
          static_cast<double>(rendezvous.size));
}

// Round and round: each rank has a group with each other one.
TEST(PieceProgram, DISABLED_Sends) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  const int64_t size = rendezvous.size;
  const int64_t rank = rendezvous.rank;
  std::vector<std::unique_ptr<Communicator>> with(static_cast<size_t>(size));
  for (int64_t low = 0; low < size; ++low) {
    for (int64_t high = low + 1; high < size; ++high) {
      if (rank == low || rank == high) {
        with[static_cast<size_t>(rank == low ? high : low)] =
            world->group({low, high});
      }
    }
  }
  for (const at::ScalarType type :
       {at::kFloat, at::kBFloat16, at::kLong, at::kBool}) {
    for (const int64_t count : {0, 1, 7, 8193, 700'001}) {
      // Everybody sends first, two to each and a sum in between.
      std::vector<std::unique_ptr<Pending>> pending;
      std::vector<at::Tensor> kept;
      std::vector<at::Tensor> first(static_cast<size_t>(size));
      std::vector<at::Tensor> second(static_cast<size_t>(size));
      std::vector<at::Tensor> sums;
      for (int64_t other = 0; other < size; ++other) {
        if (other == rank) {
          continue;
        }
        Communicator& group = *with[static_cast<size_t>(other)];
        kept.push_back(numbers(count, rank, type));
        pending.push_back(group.send(kept.back()));
        sums.push_back(at::zeros({10}) + 1);
        pending.push_back(group.all_reduce(sums.back()));
        kept.push_back(numbers(count, rank + 10, type));
        pending.push_back(group.send(kept.back()));
      }
      for (int64_t other = size - 1; other >= 0; --other) {
        if (other == rank) {
          continue;
        }
        Communicator& group = *with[static_cast<size_t>(other)];
        const int64_t before = group.taken_bytes(TransferKind::Receive);
        at::Tensor& one = first[static_cast<size_t>(other)];
        at::Tensor& two = second[static_cast<size_t>(other)];
        one = at::empty({count}, type);
        two = at::empty({count}, type);
        const auto receives = group.receive(one);
        group.receive(two)->wait();
        receives->wait();
        EXPECT_TRUE(one.equal(numbers(count, other, type)));
        EXPECT_TRUE(two.equal(numbers(count, other + 10, type)));
        EXPECT_EQ(
            group.taken_bytes(TransferKind::Receive) - before,
            2 * static_cast<int64_t>(one.nbytes()));
      }
      for (const auto& sent : pending) {
        sent->wait();
      }
      for (const at::Tensor& sum : sums) {
        EXPECT_EQ(sum.sum().item<double>(), 20);
      }
    }
  }
}

// Of several tensors at once, of sizes that fit no chunk.
TEST(PieceProgram, DISABLED_Together) {
  const Rendezvous rendezvous = begin_rank();
  const auto world = connect(rendezvous);
  const auto all = world->group(all_ranks(rendezvous));
  const int64_t size = rendezvous.size;
  for (const std::vector<int64_t>& counts :
       {std::vector<int64_t>{3, 1, 7},
        {1, 300'001, 5, 0, 70'000},
        {131'072, 131'073}}) {
    std::vector<at::Tensor> wholes;
    std::vector<at::Tensor> pieces;
    int64_t bytes = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto seed = rendezvous.rank + 10 * static_cast<int64_t>(i);
      wholes.push_back(numbers(size * counts[i], seed, at::kFloat));
      pieces.push_back(at::empty({counts[i]}, at::kFloat));
      bytes += (size - 1) * counts[i] * 4;
    }
    int64_t before = all->taken_bytes(TransferKind::ReduceScatter);
    all->reduce_scatter(pieces, wholes)->wait();
    EXPECT_EQ(all->taken_bytes(TransferKind::ReduceScatter) - before, bytes);
    for (size_t i = 0; i < counts.size(); ++i) {
      at::Tensor sum = at::zeros({counts[i]}, at::kFloat);
      for (int64_t from = 0; from < size; ++from) {
        sum += numbers(
                   size * counts[i],
                   from + 10 * static_cast<int64_t>(i),
                   at::kFloat)
                   .slice(
                       0,
                       rendezvous.rank * counts[i],
                       (rendezvous.rank + 1) * counts[i]);
      }
      EXPECT_TRUE(pieces[i].equal(sum)) << i << " of " << counts.size();
      pieces[i].fill_(static_cast<double>(rendezvous.rank) + 0.5);
    }
    before = all->taken_bytes(TransferKind::AllGather);
    all->all_gather(wholes, pieces)->wait();
    EXPECT_EQ(all->taken_bytes(TransferKind::AllGather) - before, bytes);
    for (size_t i = 0; i < counts.size(); ++i) {
      for (int64_t from = 0; from < size; ++from) {
        EXPECT_TRUE(wholes[i]
                        .slice(0, from * counts[i], (from + 1) * counts[i])
                        .eq(static_cast<double>(from) + 0.5)
                        .all()
                        .item<bool>());
      }
    }
  }
}

}  // namespace
}  // namespace weft
