// SPDX-License-Identifier: Apache-2.0
#include "train/batch_rows.h"

#include "base/error.h"
#include "program/piece.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace weft {
namespace {

// Every tensor begins at such a place among the bytes that travel.
constexpr int64_t kTravelAlignment = 16;

size_t entry_of(const AgreedBatch& batch, const std::string& key) {
  for (size_t i = 0; i < batch.given.size(); ++i) {
    if (batch.given[i].first == key) {
      return i;
    }
  }
  WEFT_CHECK(false, "no ", key, " in the batch");
  return 0;
}

const Input* batch_input(const Block& block, const std::string& key) {
  for (const Input& input : block.function.inputs) {
    if (input.kind == InputKind::Batch && input.keys.front() == key) {
      return &input;
    }
  }
  return nullptr;
}

// The rows that the rank works on; none where its stage does not read them.
std::vector<Piece> needed_rows(
    const Program& program,
    const std::string& key,
    int64_t rows,
    int64_t rank) {
  const Block& block = block_of(program, rank);
  const Input* input = batch_input(block, key);
  if (input == nullptr) {
    return {};
  }
  const Team team = team_of(program, rank);
  return ranges_of(
      team.mesh,
      block.layouts[index(input->value)].dims.front(),
      rows,
      number_in(team, rank));
}

int64_t part_of(const AgreedBatch& batch, int64_t rank) {
  return batch.part_of_rank[static_cast<size_t>(rank)];
}

// Of the ranks that have the part, the one that is where `rank` is among those
// of its own: so that all of them have as much to send.
int64_t giver(const AgreedBatch& batch, int64_t part, int64_t rank) {
  std::vector<int64_t> givers;
  int64_t place = 0;
  for (int64_t each = 0; each < static_cast<int64_t>(batch.part_of_rank.size());
       ++each) {
    if (part_of(batch, each) == part) {
      givers.push_back(each);
    }
    if (each < rank && part_of(batch, each) == part_of(batch, rank)) {
      ++place;
    }
  }
  return givers[static_cast<size_t>(place) % givers.size()];
}

// Calls `visit(part, start, size)` for what each part has of the rows.
template <typename Visit>
void for_each_part(const AgreedBatch& batch, const Piece& rows, Visit visit) {
  const int64_t end = rows.start + rows.size;
  for (size_t part = 0; part + 1 < batch.starts.size(); ++part) {
    const int64_t first = std::max(rows.start, batch.starts[part]);
    const int64_t last = std::min(end, batch.starts[part + 1]);
    if (first < last) {
      visit(static_cast<int64_t>(part), first, last - first);
    }
  }
}

// The rows of one transfer, as the rank that gives them has them.
at::Tensor rows_given(const AgreedBatch& batch, const RowTransfer& rows) {
  const int64_t part = part_of(batch, rows.from);
  return batch.given[entry_of(batch, rows.key)].second.narrow(
      0, rows.start - batch.starts[static_cast<size_t>(part)], rows.size);
}

// By transfer, the rows that came to this rank.
class RowMail {
 public:
  RowMail(
      const AgreedBatch& batch,
      const std::vector<RowTransfer>& transfers,
      int64_t rank,
      Communicator* everybody)
      : transfers_(transfers), received_(transfers.size()) {
    if (transfers.empty()) {
      return;
    }
    WEFT_CHECK(everybody != nullptr, "rows for other ranks, and none is there");
    send(batch, rank, *everybody);
  }

  const at::Tensor& received(const RowTransfer& wanted) const {
    const auto found = std::find(transfers_.begin(), transfers_.end(), wanted);
    WEFT_CHECK(found != transfers_.end(), "no such rows were sent");
    return received_[static_cast<size_t>(found - transfers_.begin())];
  }

 private:
  // Where the bytes of each transfer lie among those between its two ranks.
  std::vector<int64_t> places(const AgreedBatch& batch, int64_t& stretch) {
    std::map<std::pair<int64_t, int64_t>, int64_t> used;
    std::vector<int64_t> out;
    for (const RowTransfer& each : transfers_) {
      int64_t& end = used[{each.from, each.to}];
      out.push_back(end);
      end += (row_bytes(batch, each) * each.size + kTravelAlignment - 1) /
             kTravelAlignment * kTravelAlignment;
      stretch = std::max(stretch, end);
    }
    return out;
  }

  static int64_t row_bytes(const AgreedBatch& batch, const RowTransfer& rows) {
    const at::Tensor& given = batch.given[entry_of(batch, rows.key)].second;
    int64_t bytes = static_cast<int64_t>(given.element_size());
    for (int64_t dim = 1; dim < given.dim(); ++dim) {
      bytes *= given.size(dim);
    }
    return bytes;
  }

  void send(const AgreedBatch& batch, int64_t rank, Communicator& everybody) {
    int64_t stretch = 0;
    const std::vector<int64_t> place = places(batch, stretch);
    const auto ranks = static_cast<int64_t>(batch.part_of_rank.size());
    const at::Tensor from = at::zeros({ranks * stretch}, at::kByte);
    const at::Tensor to = at::empty({ranks * stretch}, at::kByte);
    const auto memory = [&](const at::Tensor& bytes, int64_t peer, size_t i) {
      return bytes.mutable_data_ptr<uint8_t>() + peer * stretch + place[i];
    };
    for (size_t i = 0; i < transfers_.size(); ++i) {
      if (transfers_[i].from == rank) {
        const at::Tensor rows = rows_given(batch, transfers_[i]).contiguous();
        std::memcpy(
            memory(from, transfers_[i].to, i),
            rows.const_data_ptr(),
            rows.nbytes());
      }
    }
    everybody.all_to_all(to, from)->wait();
    for (size_t i = 0; i < transfers_.size(); ++i) {
      if (transfers_[i].to == rank) {
        const at::Tensor& like =
            batch.given[entry_of(batch, transfers_[i].key)].second;
        Dims sizes = like.sizes().vec();
        sizes.front() = transfers_[i].size;
        received_[i] = at::empty(sizes, like.scalar_type());
        std::memcpy(
            received_[i].mutable_data_ptr(),
            memory(to, transfers_[i].from, i),
            received_[i].nbytes());
      }
    }
  }

  const std::vector<RowTransfer>& transfers_;
  std::vector<at::Tensor> received_;
};

// The rows that this rank works on, one after the other.
at::Tensor own_rows(
    const AgreedBatch& batch,
    const std::vector<Piece>& needed,
    const std::string& key,
    int64_t rank,
    const RowMail& mail) {
  std::vector<at::Tensor> rows;
  for (const Piece& range : needed) {
    for_each_part(batch, range, [&](int64_t part, int64_t start, int64_t size) {
      RowTransfer each = {key, rank, rank, start, size};
      if (part == part_of(batch, rank)) {
        rows.push_back(rows_given(batch, each));
      } else {
        each.from = giver(batch, part, rank);
        rows.push_back(mail.received(each));
      }
    });
  }
  if (rows.empty()) {
    return batch.given[entry_of(batch, key)].second.narrow(0, 0, 0);
  }
  return rows.size() == 1 ? rows.front() : at::cat(rows);
}

}  // namespace

std::vector<RowTransfer> row_transfers(
    const Program& program, const AgreedBatch& batch) {
  std::vector<RowTransfer> transfers;
  const auto ranks = static_cast<int64_t>(batch.part_of_rank.size());
  for (size_t i = 0; i < batch.given.size(); ++i) {
    for (int64_t rank = 0; batch.is_split[i] && rank < ranks; ++rank) {
      const std::string& key = batch.given[i].first;
      for (const Piece& range :
           needed_rows(program, key, batch.starts.back(), rank)) {
        for_each_part(
            batch, range, [&](int64_t part, int64_t start, int64_t size) {
              if (part != part_of(batch, rank)) {
                transfers.push_back(
                    {key, giver(batch, part, rank), rank, start, size});
              }
            });
      }
    }
  }
  return transfers;
}

void fill_batch(
    const Trainer& trainer,
    PreparedStep& step,
    const AgreedBatch& batch,
    Communicator* everybody) {
  const int64_t rank = trainer.options().rank;
  auto& known = step.row_transfers;
  auto found = known.find(batch.starts);
  if (found == known.end()) {
    found =
        known.emplace(batch.starts, row_transfers(step.program, batch)).first;
  }
  for (const BatchLimit& limit : step.limits) {
    verify(limit, batch.given[entry_of(batch, limit.key)].second);
  }
  const RowMail mail(batch, found->second, rank, everybody);
  const Block& block = step.executor->block();
  for (size_t i = 0; i < block.function.inputs.size(); ++i) {
    const Input& input = block.function.inputs[i];
    if (input.kind != InputKind::Batch) {
      continue;
    }
    const std::string& key = input.keys.front();
    const size_t entry = entry_of(batch, key);
    at::Tensor rows = batch.given[entry].second;
    Layout layout = block.layouts[index(input.value)];
    if (batch.is_split[entry]) {
      rows = own_rows(
          batch,
          needed_rows(step.program, key, batch.starts.back(), rank),
          key,
          rank,
          mail);
      layout.dims.front().clear();
    }
    step.executor->inputs()[i].copy_(
        piece_of_tensor(rows, layout, trainer.team(), rank));
  }
}

NamedTensors gather_batch(
    const AgreedBatch& batch,
    const BatchTypes& types,
    int64_t rank,
    Communicator& everybody) {
  int64_t most = 0;
  for (size_t part = 0; part + 1 < batch.starts.size(); ++part) {
    most = std::max(most, batch.starts[part + 1] - batch.starts[part]);
  }
  const auto ranks = static_cast<int64_t>(batch.part_of_rank.size());
  NamedTensors out;
  for (size_t i = 0; i < batch.given.size(); ++i) {
    const auto& [key, given] = batch.given[i];
    if (!batch.is_split[i]) {
      out.emplace_back(key, given);
      continue;
    }
    // Parts may differ in size: each has room for the largest.
    Dims sizes = given.sizes().vec();
    sizes.front() = most;
    const at::Tensor piece = at::zeros(sizes, given.scalar_type());
    piece.narrow(0, 0, given.size(0)).copy_(given);
    sizes.insert(sizes.begin(), ranks);
    const at::Tensor pieces = at::empty(sizes, given.scalar_type());
    everybody.all_gather(pieces, piece)->wait();
    std::vector<at::Tensor> parts;
    for (size_t part = 0; part + 1 < batch.starts.size(); ++part) {
      const int64_t from = giver(batch, static_cast<int64_t>(part), rank);
      parts.push_back(pieces.select(0, from).narrow(
          0, 0, batch.starts[part + 1] - batch.starts[part]));
    }
    const at::Tensor whole = at::cat(parts);
    const int64_t wanted = types[i].type.sizes.front();
    out.emplace_back(
        key,
        wanted == whole.size(0)
            ? whole
            : whole.index_select(
                  0, at::arange(wanted).remainder(whole.size(0))));
  }
  return out;
}

}  // namespace weft
