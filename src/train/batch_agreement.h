// SPDX-License-Identifier: Apache-2.0
// Before a step, ranks tell each other in a few numbers which step they are
// about to make and of what batch. All of them take part every time, so that
// none waits for a comparison that another does not enter; ranks that differ
// raise the same message, and no other transfer has begun.
#pragma once

#include "execute/communicator.h"
#include "train/batch_difference.h"
#include "train/trainer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct BatchOptions {
  // Each rank gives its part of the batch (batch="local"), and not all of it.
  bool is_local = false;
  // Entries whose dims after the first are made as long as on the rank where
  // they are longest, and with which value.
  std::map<std::string, double> pads = {};
};

// A batch of which all ranks have the same idea.
struct AgreedBatch {
  // Of the whole batch.
  BatchTypes types;
  // What this rank gives, padded.
  NamedTensors given;
  // By entry: whether it has rows of its own on each part, or all of it is
  // there on every rank.
  std::vector<bool> is_split;
  // The row at which each part begins, and at the end how many rows there are.
  std::vector<int64_t> starts;
  std::vector<int64_t> part_of_rank;
};

BatchTypes types_of(const NamedTensors& batch);

class BatchAgreement {
 public:
  // All must outlive it. All ranks make one.
  BatchAgreement(
      World& world,
      Communicator& everybody,
      int64_t rank,
      int64_t ranks,
      BatchOptions options);

  // Which part of a local batch each rank gives; at first, one of its own.
  void set_parts(std::vector<int64_t> part_of_rank);
  int64_t part() const { return part_of_rank_[static_cast<size_t>(rank_)]; }
  int64_t parts() const;

  // All ranks must call it. `step` says what they are about to do, "a training
  // step". Compares types and a few values, and for a new shape all values; of
  // an example, types alone. Throws UserError, the same on all ranks, that
  // names entry and rank.
  AgreedBatch agree(
      const std::string& step, const NamedTensors& batch, bool is_example);

 private:
  std::vector<std::vector<int64_t>> exchange(const std::vector<int64_t>& mine);
  void find_rows(const NamedTensors& batch);
  void check_pads(const NamedTensors& batch) const;
  std::vector<int64_t> note_of(
      const std::string& step, const NamedTensors& batch) const;
  bool agrees(
      const std::vector<std::vector<int64_t>>& notes, bool is_example) const;
  void compare_values(const std::string& step, const NamedTensors& batch);
  void fill_in(
      AgreedBatch& agreed,
      const std::vector<std::vector<int64_t>>& notes) const;
  [[noreturn]] void explain(
      const std::string& step, const NamedTensors& batch, bool is_example);
  void warn_of_equal_parts(const std::vector<std::vector<int64_t>>& hashes);
  size_t first_of_part(size_t rank) const;
  bool is_padded(const std::string& key) const;

  World& world_;
  Communicator& everybody_;
  const int64_t rank_;
  const int64_t ranks_;
  const BatchOptions options_;
  std::vector<int64_t> part_of_rank_;
  // By key: whether each part has rows of its own; of the first such entry.
  std::map<std::string, bool> has_rows_;
  // By entry of the batch that is being compared.
  std::vector<bool> is_split_;
  // Steps whose values were compared.
  std::set<std::string> compared_;
  bool has_warned_ = false;
};

}  // namespace weft
