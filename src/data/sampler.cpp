// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.h"

#include "base/error.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weft {
namespace {

// The finalizer of splitmix64: every bit of the input moves every other.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

constexpr uint64_t kRounds = 6;

// A Feistel network: a permutation of [0, 4^half_bits) whatever the round
// function is.
uint64_t feistel(uint64_t value, int half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (mix(right ^ mix(key + round)) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t permuted(int64_t index, int64_t size, uint64_t key) {
  WEFT_CHECK(0 <= index && index < size, index, " of ", size);
  if (size == 1) {
    return 0;
  }
  const int bits =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1)));
  const int half_bits = (bits + 1) / 2;
  // Walks its cycle until it is back in range: less than four steps on average,
  // as the network's domain is less than four times the size.
  auto value = static_cast<uint64_t>(index);
  do {
    value = feistel(value, half_bits, key);
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

DataSplit split(int64_t dataset_size, double evaluation_fraction) {
  WEFT_CHECK_USER(
      evaluation_fraction >= 0 && evaluation_fraction < 1,
      "the share held out for evaluation is a number from 0 up to, but not, 1; "
      "it is ",
      evaluation_fraction);
  int64_t held_out = 0;
  if (evaluation_fraction > 0) {
    held_out = std::max<int64_t>(
        1,
        std::llround(static_cast<double>(dataset_size) * evaluation_fraction));
  }
  const int64_t training = dataset_size - held_out;
  WEFT_CHECK_USER(
      training > 0,
      "nothing is left to train on: ",
      held_out,
      " of ",
      dataset_size,
      " samples are held out for evaluation. Hold out less or give more data");
  return {{0, training}, {training, held_out}};
}

Sampler::Sampler(SampleRange range, SamplerOptions options)
    : range_(range), options_(options) {
  WEFT_CHECK(range.first >= 0 && range.count > 0, range.count, " samples");
}

int64_t Sampler::sample_at(int64_t position) const {
  const int64_t index = position % range_.count;
  if (!options_.shuffle) {
    return range_.first + index;
  }
  const uint64_t key =
      mix(options_.seed) ^ mix(~static_cast<uint64_t>(epoch_of(position)));
  return range_.first + permuted(index, range_.count, key);
}

Batch Sampler::batch(int64_t position, int64_t count) const {
  WEFT_CHECK(position >= 0 && count > 0, count, " samples from ", position);
  WEFT_CHECK_USER(
      !options_.drop_last || count <= range_.count,
      "a batch takes ",
      count,
      " samples and there are ",
      range_.count,
      ". Give more data, a smaller batch, or keep the last batch of an epoch");
  int64_t left = range_.count - position % range_.count;
  if (options_.drop_last && left < count) {
    position += left;
    left = range_.count;
  }
  Batch batch;
  batch.epoch = epoch_of(position);
  batch.next_position = position + std::min(count, left);
  for (; position < batch.next_position; ++position) {
    batch.samples.push_back(sample_at(position));
  }
  return batch;
}

int64_t Sampler::batches_per_epoch(int64_t count) const {
  WEFT_CHECK(count > 0, count, " samples");
  return options_.drop_last ? range_.count / count
                            : (range_.count + count - 1) / count;
}

}  // namespace weft
