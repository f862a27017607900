// SPDX-License-Identifier: Apache-2.0
// In which order samples are read. The order is a function of seed and position
// alone: nothing else has to be saved, and the number of ranks is of no matter.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// Samples [first, first + count) of a dataset.
struct SampleRange {
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const SampleRange&) const = default;
};

struct DataSplit {
  SampleRange training;
  SampleRange evaluation;
};

// The last samples are held out for evaluation, whatever the seed: at least one
// when the fraction is not 0. Throws UserError when the fraction is not in
// [0, 1) or leaves nothing to train on.
DataSplit split(int64_t dataset_size, double evaluation_fraction);

// A permutation of [0, size) by a key, without a table: the image of one
// number, in constant time and memory. `size` up to 2^62.
int64_t permuted(int64_t index, int64_t size, uint64_t key);

struct SamplerOptions {
  uint64_t seed = 0;
  // A new order every epoch; else the order of the dataset.
  bool shuffle = true;
  // Leaves out the samples of an epoch that do not fill a batch.
  bool drop_last = true;
};

struct Batch {
  // Indices into the dataset. A rank takes its own rows of it.
  std::vector<int64_t> samples;
  int64_t epoch = 0;
  // Where the next batch starts.
  int64_t next_position = 0;
};

class Sampler {
 public:
  Sampler(SampleRange range, SamplerOptions options);

  // The next `count` samples. `position` is the number of samples passed since
  // the run began, those left out by drop_last among them, so that epoch and
  // order do not depend on the size of batches: it may change at any position.
  // Without drop_last the last batch of an epoch is shorter, and none crosses
  // two epochs. Throws UserError when drop_last would leave out everything.
  Batch batch(int64_t position, int64_t count) const;

  int64_t batches_per_epoch(int64_t count) const;
  int64_t epoch_of(int64_t position) const { return position / range_.count; }

 private:
  int64_t sample_at(int64_t position) const;

  SampleRange range_;
  SamplerOptions options_;
};

}  // namespace weft
