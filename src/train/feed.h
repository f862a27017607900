// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/dataset.h"
#include "data/match_fields.h"
#include "data/sampler.h"
#include "train/train.h"
#include "train/trainer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

// From the dataset to the batch inputs of a step: each rank reads its own rows.
class Feed {
 public:
  // Opens the data; `graph` says what a batch is. Throws UserError when they do
  // not fit each other.
  Feed(const Graph& graph, const TrainOptions& options);

  // Samples of a usual batch.
  int64_t batch_size() const { return batch_size_; }
  const Dataset& dataset() const { return *dataset_; }
  const Sampler& training() const { return training_; }
  // The first `count` held-out batches, in order; fewer when there are fewer.
  std::vector<Batch> evaluation(int64_t count) const;

  // The types of a batch of so many samples.
  BatchTypes types(int64_t samples) const;
  // Fills the batch inputs of the step with this rank's rows.
  void fill(
      const Trainer& trainer, PreparedStep& step, const Batch& batch) const;

 private:
  const BatchTypes usual_;
  const int64_t batch_size_;
  const std::unique_ptr<Dataset> dataset_;
  const std::vector<FieldMatch> matches_;
  const DataSplit split_;
  const Sampler training_;
};

}  // namespace weft
