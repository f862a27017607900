// SPDX-License-Identifier: Apache-2.0
#include "train/batch_agreement.h"

#include "aten/types.h"
#include "base/error.h"
#include "train/batch_hash.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>

namespace weft {
namespace {

// Where a note has what; sizes of padded entries follow.
enum NotePlace : size_t { kStep, kRowValues, kWholeValues, kRows, kSizes };
// Of every padded entry, so many sizes.
constexpr size_t kPaddedDims = 6;
// Entries that should have as many rows do not.
constexpr int64_t kNoRows = -1;

int64_t as_number(uint64_t hash) { return static_cast<int64_t>(hash); }

}  // namespace

BatchTypes types_of(const NamedTensors& batch) {
  BatchTypes types;
  for (const auto& [key, tensor] : batch) {
    types.push_back(
        {key, make_type(dtype_of(tensor.scalar_type()), tensor.sizes().vec())});
  }
  return types;
}

BatchAgreement::BatchAgreement(
    World& world,
    Communicator& everybody,
    int64_t rank,
    int64_t ranks,
    BatchOptions options)
    : world_(world),
      everybody_(everybody),
      rank_(rank),
      ranks_(ranks),
      options_(std::move(options)),
      part_of_rank_(static_cast<size_t>(ranks), 0) {
  if (options_.is_local) {
    std::iota(part_of_rank_.begin(), part_of_rank_.end(), 0);
  }
}

void BatchAgreement::set_parts(std::vector<int64_t> part_of_rank) {
  WEFT_CHECK(part_of_rank.size() == part_of_rank_.size());
  part_of_rank_ = std::move(part_of_rank);
}

int64_t BatchAgreement::parts() const {
  return *std::max_element(part_of_rank_.begin(), part_of_rank_.end()) + 1;
}

size_t BatchAgreement::first_of_part(size_t rank) const {
  const auto found = std::find(
      part_of_rank_.begin(), part_of_rank_.end(), part_of_rank_[rank]);
  return static_cast<size_t>(found - part_of_rank_.begin());
}

bool BatchAgreement::is_padded(const std::string& key) const {
  return options_.pads.contains(key);
}

// Every rank's numbers, of which all give as many.
std::vector<std::vector<int64_t>> BatchAgreement::exchange(
    const std::vector<int64_t>& mine) {
  const auto count = static_cast<int64_t>(mine.size());
  const at::Tensor piece = at::empty({count}, at::kLong);
  const at::Tensor whole = at::empty({ranks_ * count}, at::kLong);
  std::copy(mine.begin(), mine.end(), piece.mutable_data_ptr<int64_t>());
  everybody_.all_gather(whole, piece)->wait();
  std::vector<std::vector<int64_t>> all;
  const int64_t* numbers = whole.const_data_ptr<int64_t>();
  for (int64_t rank = 0; rank < ranks_; ++rank, numbers += count) {
    all.emplace_back(numbers, numbers + count);
  }
  return all;
}

// Entries that are as long as the first that has a dim have a row for each of
// the samples: the rule of plan/expand.cpp. What was said of an entry when it
// was first seen stays.
void BatchAgreement::find_rows(const NamedTensors& batch) {
  const bool is_first = has_rows_.empty();
  is_split_.assign(batch.size(), false);
  if (!options_.is_local) {
    return;
  }
  int64_t rows = kNoRows;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto& [key, tensor] = batch[i];
    if (tensor.dim() > 0 && rows == kNoRows) {
      rows = tensor.size(0);
    }
    const bool has_rows = tensor.dim() > 0 && tensor.size(0) == rows;
    is_split_[i] =
        has_rows_.try_emplace(key, has_rows).first->second && tensor.dim() > 0;
  }
  if (is_first) {
    check_pads(batch);
  }
}

void BatchAgreement::check_pads(const NamedTensors& batch) const {
  for (const auto& [key, value] : options_.pads) {
    const auto found =
        std::find_if(batch.begin(), batch.end(), [&](const auto& each) {
          return each.first == key;
        });
    WEFT_CHECK_USER(
        found != batch.end() &&
            is_split_[static_cast<size_t>(found - batch.begin())] &&
            found->second.dim() <= static_cast<int64_t>(kPaddedDims),
        "pad names ",
        quote(key),
        ", and no tensor of the batch that has rows is called so");
  }
}

std::vector<int64_t> BatchAgreement::note_of(
    const std::string& step, const NamedTensors& batch) const {
  // As many numbers from every rank, whatever its batch is.
  std::vector<int64_t> note(kSizes + options_.pads.size() * kPaddedDims, 0);
  size_t sizes = kSizes;
  uint64_t code = hash_of(step);
  uint64_t of_rows = 0;
  uint64_t of_wholes = 0;
  int64_t rows = 0;
  bool has_rows = false;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto& [key, tensor] = batch[i];
    code = joined_hash(code, hash_of(key));
    code = joined_hash(code, static_cast<uint64_t>(tensor.scalar_type()));
    code = joined_hash(code, static_cast<uint64_t>(tensor.dim()));
    code = joined_hash(code, is_split_[i] ? 1 : 0);
    uint64_t& values = is_split_[i] ? of_rows : of_wholes;
    values = joined_hash(values, sample_hash(tensor));
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      const int64_t size = tensor.size(dim);
      if (is_split_[i] && dim == 0) {
        rows = has_rows && rows != size ? kNoRows : size;
        has_rows = true;
      } else if (is_padded(key) && dim < static_cast<int64_t>(kPaddedDims)) {
        note[sizes + static_cast<size_t>(dim)] = size;
      } else {
        code = joined_hash(code, static_cast<uint64_t>(size));
      }
    }
    sizes += is_padded(key) ? kPaddedDims : 0;
  }
  note[kStep] = as_number(code);
  note[kRowValues] = as_number(of_rows);
  note[kWholeValues] = as_number(of_wholes);
  note[kRows] = rows;
  return note;
}

bool BatchAgreement::agrees(
    const std::vector<std::vector<int64_t>>& notes, bool is_example) const {
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    const std::vector<int64_t>& note = notes[rank];
    const std::vector<int64_t>& first = notes[first_of_part(rank)];
    if (note[kStep] != notes.front()[kStep] || note[kRows] == kNoRows ||
        !std::equal(note.begin() + kRows, note.end(), first.begin() + kRows)) {
      return false;
    }
    if (!is_example && (note[kWholeValues] != notes.front()[kWholeValues] ||
                        note[kRowValues] != first[kRowValues])) {
      return false;
    }
  }
  return true;
}

AgreedBatch BatchAgreement::agree(
    const std::string& step, const NamedTensors& batch, bool is_example) {
  find_rows(batch);
  const auto notes = exchange(note_of(step, batch));
  if (!agrees(notes, is_example)) {
    explain(step, batch, is_example);
  }
  AgreedBatch agreed;
  agreed.given = batch;
  agreed.is_split = is_split_;
  agreed.part_of_rank = part_of_rank_;
  agreed.starts.assign(static_cast<size_t>(parts()) + 1, 0);
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    agreed.starts[static_cast<size_t>(part_of_rank_[rank]) + 1] =
        notes[rank][kRows];
  }
  std::string shape = step;
  for (const int64_t rows : agreed.starts) {
    shape += cat(" ", rows);
  }
  std::partial_sum(
      agreed.starts.begin(), agreed.starts.end(), agreed.starts.begin());
  fill_in(agreed, notes);
  shape += cat(": ", print(agreed.types));
  if (!is_example && !compared_.contains(shape)) {
    compare_values(step, batch);
    compared_.insert(std::move(shape));
  }
  return agreed;
}

// Types of the whole batch, and what this rank gives as long as on any other.
void BatchAgreement::fill_in(
    AgreedBatch& agreed, const std::vector<std::vector<int64_t>>& notes) const {
  const bool has_rows =
      std::find(is_split_.begin(), is_split_.end(), true) != is_split_.end();
  WEFT_CHECK_USER(
      !has_rows || agreed.starts.back() > 0,
      "no rank has a row of the batch to give");
  size_t place = kSizes;
  for (size_t i = 0; i < agreed.given.size(); ++i) {
    auto& [key, tensor] = agreed.given[i];
    Dims sizes = tensor.sizes().vec();
    // From the last dim on, none before and so many after.
    std::vector<int64_t> padding(sizes.size() * 2, 0);
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (is_split_[i] && dim == 0) {
        sizes[dim] = agreed.starts.back();
      } else if (is_padded(key) && dim < kPaddedDims) {
        for (const std::vector<int64_t>& note : notes) {
          sizes[dim] = std::max(sizes[dim], note[place + dim]);
        }
        padding[2 * (sizes.size() - dim) - 1] =
            sizes[dim] - tensor.size(static_cast<int64_t>(dim));
      }
    }
    place += is_padded(key) ? kPaddedDims : 0;
    if (std::any_of(
            padding.begin(), padding.end(), [](int64_t n) { return n > 0; })) {
      tensor = at::constant_pad_nd(tensor, padding, options_.pads.at(key));
    }
    agreed.types.push_back(
        {key, make_type(dtype_of(tensor.scalar_type()), std::move(sizes))});
  }
}

void BatchAgreement::compare_values(
    const std::string& step, const NamedTensors& batch) {
  std::vector<int64_t> mine;
  for (const auto& [key, tensor] : batch) {
    mine.push_back(as_number(hash_of(tensor)));
  }
  const auto hashes = exchange(mine);
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    for (size_t i = 0; i < mine.size(); ++i) {
      const size_t like = is_split_[i] ? first_of_part(rank) : 0;
      if (hashes[rank][i] != hashes[like][i]) {
        explain(step, batch, false);
      }
    }
  }
  warn_of_equal_parts(hashes);
}

// A script without a DistributedSampler reads the same rows on every rank.
void BatchAgreement::warn_of_equal_parts(
    const std::vector<std::vector<int64_t>>& hashes) {
  const bool are_equal =
      std::all_of(hashes.begin(), hashes.end(), [&](const auto& each) {
        return each == hashes.front();
      });
  if (parts() == 1 || has_warned_ || !are_equal) {
    return;
  }
  has_warned_ = true;
  if (rank_ == 0) {
    std::cerr << "weft: warning: with batch=\"local\", all ranks gave the same "
                 "rows: they count once for every part of the batch. A "
                 "DistributedSampler gives each part rows of its own\n"
              << std::flush;
  }
}

void BatchAgreement::explain(
    const std::string& step, const NamedTensors& batch, bool is_example) {
  ToldBatch mine;
  mine.step = step;
  const BatchTypes types = types_of(batch);
  for (size_t i = 0; i < batch.size(); ++i) {
    mine.entries.push_back(
        {types[i].key,
         types[i].type,
         hash_of(batch[i].second),
         is_split_[i],
         is_padded(types[i].key)});
  }
  ToldByRanks told;
  told.part_of_rank = part_of_rank_;
  told.is_local = options_.is_local;
  told.is_example = is_example;
  const std::vector<std::string> texts = world_.gather(print_json(mine));
  for (const std::string& text : texts) {
    told.names.push_back(
        world_.rank_name(static_cast<int64_t>(told.batches.size())));
    told.batches.push_back(parse_told_batch(text));
  }
  const std::string difference = texts.empty() ? "" : batch_difference(told);
  const std::string words = world_.tell_all(difference);
  WEFT_CHECK(!words.empty(), "the ranks differ, and nobody knows in what");
  throw UserError(words);
}

}  // namespace weft
