// SPDX-License-Identifier: Apache-2.0
// Random numbers by counting: the number of an element follows from the seed,
// the step, the node's `rng` and the element's index in the whole value, and
// from nothing else. Philox4x32-10 (Salmon et al., 2011) is keyed by the seed;
// its counter is made of the other three, so that no two numbers of a run come
// from one counter.
#pragma once

#include <cstdint>

namespace weft {

struct RandomStream {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t rng = 0;
};

// words[i] is that of element `first` + i: 32 random bits. Indices from
// kSecondWord on are further words of the same elements.
constexpr uint64_t kSecondWord = uint64_t{1} << 62;
void random_words(
    const RandomStream& stream, uint64_t first, int64_t count, uint32_t* words);

// Numbers in [0, 1) of which `digits` (at most 24) binary digits are random.
void random_uniform(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    int digits,
    float* numbers);
// With 53 digits.
void random_uniform(
    const RandomStream& stream, uint64_t first, int64_t count, double* numbers);

// Numbers of mean 0 and variance 1, normally distributed (Box and Muller's
// way, elements in pairs).
void random_normal(
    const RandomStream& stream, uint64_t first, int64_t count, float* numbers);
void random_normal(
    const RandomStream& stream, uint64_t first, int64_t count, double* numbers);

// 1 with the chance `chance`, else 0.
void random_truth(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double chance,
    uint8_t* truths);
void random_truth(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double chance,
    float* truths);

// The same truths, and the numbers times them and then times `scale`, in one
// pass. `to` may be `from`.
void random_dropout(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double chance,
    float scale,
    const float* from,
    float* to,
    uint8_t* truths);

}  // namespace weft
