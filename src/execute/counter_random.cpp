// SPDX-License-Identifier: Apache-2.0
#include "execute/counter_random.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#if defined(__x86_64__)
#include <immintrin.h>
#define WEFT_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define WEFT_CLONES
#endif

namespace weft {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

// Eight counters make the words of 32 elements, the first words before the
// second: the order in which eight lanes have them.
constexpr uint64_t kLanes = 8;
constexpr uint64_t kGroup = 4 * kLanes;

// What the loops below hold at once, on the stack.
constexpr int64_t kChunk = 1024;

void group_plain(const RandomStream& stream, uint64_t group, uint32_t* words) {
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    const uint64_t counter = group * kLanes + lane;
    uint32_t a = static_cast<uint32_t>(counter);
    uint32_t b = static_cast<uint32_t>(counter >> 32);
    uint32_t c = stream.step;
    uint32_t d = stream.rng;
    uint32_t key0 = static_cast<uint32_t>(stream.seed);
    uint32_t key1 = static_cast<uint32_t>(stream.seed >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t first = uint64_t{kMultiplier0} * a;
      const uint64_t second = uint64_t{kMultiplier1} * c;
      a = static_cast<uint32_t>(second >> 32) ^ b ^ key0;
      b = static_cast<uint32_t>(second);
      c = static_cast<uint32_t>(first >> 32) ^ d ^ key1;
      d = static_cast<uint32_t>(first);
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    words[lane] = a;
    words[kLanes + lane] = b;
    words[2 * kLanes + lane] = c;
    words[3 * kLanes + lane] = d;
  }
}

void groups_plain(
    const RandomStream& stream,
    uint64_t group,
    int64_t count,
    uint32_t* words) {
  for (int64_t i = 0; i < count; ++i) {
    group_plain(stream, group, words);
    ++group;
    words += kGroup;
  }
}

#if defined(__x86_64__)
#define WEFT_AVX2 __attribute__((target("avx2")))

struct Product {
  __m256i low;
  __m256i high;
};

WEFT_AVX2 inline Product multiply(__m256i lanes, __m256i multiplier) {
  const __m256i even = _mm256_mul_epu32(lanes, multiplier);
  const __m256i odd =
      _mm256_mul_epu32(_mm256_srli_epi64(lanes, 32), multiplier);
  return {
      _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA),
      _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA)};
}

WEFT_AVX2 inline __m256i all(uint32_t number) {
  return _mm256_set1_epi32(static_cast<int>(number));
}

WEFT_AVX2 inline __m256i mixed(__m256i a, __m256i b, uint32_t key) {
  return _mm256_xor_si256(_mm256_xor_si256(a, b), all(key));
}

WEFT_AVX2 void groups_avx2(
    const RandomStream& stream,
    uint64_t group,
    int64_t count,
    uint32_t* words) {
  const __m256i multiplier0 = all(kMultiplier0);
  const __m256i multiplier1 = all(kMultiplier1);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (int64_t i = 0; i < count; ++i) {
    // The lowest word of the first counter ends in three zeros: no carry.
    const uint64_t counter = group * kLanes;
    __m256i a = _mm256_or_si256(all(static_cast<uint32_t>(counter)), lanes);
    __m256i b = all(static_cast<uint32_t>(counter >> 32));
    __m256i c = all(stream.step);
    __m256i d = all(stream.rng);
    uint32_t key0 = static_cast<uint32_t>(stream.seed);
    uint32_t key1 = static_cast<uint32_t>(stream.seed >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const Product first = multiply(a, multiplier0);
      const Product second = multiply(c, multiplier1);
      a = mixed(second.high, b, key0);
      b = second.low;
      c = mixed(first.high, d, key1);
      d = first.low;
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    auto* out = reinterpret_cast<__m256i*>(words);
    _mm256_storeu_si256(out, a);
    _mm256_storeu_si256(out + 1, b);
    _mm256_storeu_si256(out + 2, c);
    _mm256_storeu_si256(out + 3, d);
    ++group;
    words += kGroup;
  }
}

void make_groups(
    const RandomStream& stream,
    uint64_t group,
    int64_t count,
    uint32_t* words) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  (has_avx2 ? groups_avx2 : groups_plain)(stream, group, count, words);
}
#else
void make_groups(
    const RandomStream& stream,
    uint64_t group,
    int64_t count,
    uint32_t* words) {
  groups_plain(stream, group, count, words);
}
#endif

// Calls `visit(index of the first, words, how many)` chunk by chunk.
template <typename Visit>
void for_chunks(
    const RandomStream& stream, uint64_t first, int64_t count, Visit&& visit) {
  alignas(64) uint32_t words[kChunk];
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t size = std::min(kChunk, count - done);
    random_words(stream, first + static_cast<uint64_t>(done), size, words);
    visit(done, words, size);
  }
}

// Words not above `highest` are true; with the chance 0 none is.
struct Bound {
  explicit Bound(double chance)
      : never(chance * 0x1p32 < 1),
        highest(static_cast<uint32_t>(
            std::clamp(chance * 0x1p32 - 1, 0.0, 0x1p32 - 1))) {}

  bool holds(uint32_t word) const { return !never && word <= highest; }

  bool never;
  uint32_t highest;
};

WEFT_CLONES void compare(
    const uint32_t* words, int64_t count, Bound bound, uint8_t* truths) {
  for (int64_t i = 0; i < count; ++i) {
    truths[i] = bound.holds(words[i]) ? 1 : 0;
  }
}

// A number that is not finite stays so when it is dropped, as in ATen.
WEFT_CLONES void drop(
    const uint32_t* words,
    int64_t count,
    Bound bound,
    float scale,
    const float* from,
    float* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const float truth = bound.holds(words[i]) ? 1.0F : 0.0F;
    to[i] = from[i] * truth * scale;
  }
}

// 53 bits of two words, in [0, 1).
double unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Both normal numbers of two uniform ones, `chance` in (0, 1].
template <typename Number>
void box_muller(Number chance, Number turn, Number* pair) {
  const Number radius = std::sqrt(Number{-2} * std::log(chance));
  const Number angle = 2 * std::numbers::pi_v<Number> * turn;
  pair[0] = radius * std::cos(angle);
  pair[1] = radius * std::sin(angle);
}

// Pairs are of elements 2i and 2i + 1, wherever a piece begins.
template <typename Number, typename Pair>
void normal_pairs(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    Number* numbers,
    Pair&& pair_of) {
  alignas(64) uint32_t words[kChunk];
  alignas(64) uint32_t more[kChunk];
  const uint64_t end = first + static_cast<uint64_t>(count);
  for (uint64_t begin = first & ~uint64_t{1}; begin < end;
       begin += static_cast<uint64_t>(kChunk)) {
    const int64_t size =
        std::min(kChunk, static_cast<int64_t>(end + (end & 1) - begin));
    random_words(stream, begin, size, words);
    if constexpr (sizeof(Number) > 4) {
      random_words(stream, begin + kSecondWord, size, more);
    }
    for (int64_t i = 0; i < size; i += 2) {
      Number pair[2];
      pair_of(words + i, more + i, pair);
      for (int64_t j = 0; j < 2; ++j) {
        const uint64_t element = begin + static_cast<uint64_t>(i + j);
        if (element >= first && element < end) {
          numbers[element - first] = pair[j];
        }
      }
    }
  }
}

}  // namespace

void random_words(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    uint32_t* words) {
  uint32_t group[kGroup];
  const auto part = [&](uint64_t skipped, int64_t size) {
    make_groups(stream, first / kGroup, 1, group);
    std::copy_n(group + skipped, size, words);
    first += static_cast<uint64_t>(size);
    words += size;
    count -= size;
  };
  if (const uint64_t skipped = first % kGroup; skipped != 0 && count > 0) {
    part(skipped, std::min(count, static_cast<int64_t>(kGroup - skipped)));
  }
  const int64_t whole = count / static_cast<int64_t>(kGroup);
  make_groups(stream, first / kGroup, whole, words);
  const int64_t made = whole * static_cast<int64_t>(kGroup);
  first += static_cast<uint64_t>(made);
  words += made;
  count -= made;
  if (count > 0) {
    part(0, count);
  }
}

void random_uniform(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    int digits,
    float* numbers) {
  const int shift = 32 - digits;
  const float scale = std::ldexp(1.0F, -digits);
  for_chunks(
      stream, first, count, [&](int64_t at, const uint32_t* words, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          // At most 24 bits: as a signed number the conversion is one
          // instruction.
          const auto bits = static_cast<int32_t>(words[i] >> shift);
          numbers[at + i] = static_cast<float>(bits) * scale;
        }
      });
}

void random_uniform(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double* numbers) {
  uint32_t more[kChunk];
  for_chunks(
      stream, first, count, [&](int64_t at, const uint32_t* words, int64_t n) {
        random_words(
            stream, first + static_cast<uint64_t>(at) + kSecondWord, n, more);
        for (int64_t i = 0; i < n; ++i) {
          numbers[at + i] = unit(words[i], more[i]);
        }
      });
}

void random_normal(
    const RandomStream& stream, uint64_t first, int64_t count, float* numbers) {
  normal_pairs(
      stream,
      first,
      count,
      numbers,
      [](const uint32_t* words, const uint32_t*, float* pair) {
        // Added in f64, so that the smallest chance is 2^-33, not 0.
        const double chance = (static_cast<double>(words[0]) + 0.5) * 0x1p-32;
        const double turn = static_cast<double>(words[1]) * 0x1p-32;
        box_muller(static_cast<float>(chance), static_cast<float>(turn), pair);
      });
}

void random_normal(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double* numbers) {
  normal_pairs(
      stream,
      first,
      count,
      numbers,
      [](const uint32_t* words, const uint32_t* more, double* pair) {
        box_muller(1 - unit(words[0], more[0]), unit(words[1], more[1]), pair);
      });
}

void random_truth(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double chance,
    uint8_t* truths) {
  const Bound bound(chance);
  for_chunks(
      stream, first, count, [&](int64_t at, const uint32_t* words, int64_t n) {
        compare(words, n, bound, truths + at);
      });
}

void random_truth(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double chance,
    float* truths) {
  const Bound bound(chance);
  for_chunks(
      stream, first, count, [&](int64_t at, const uint32_t* words, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          truths[at + i] = bound.holds(words[i]) ? 1.0F : 0.0F;
        }
      });
}

void random_dropout(
    const RandomStream& stream,
    uint64_t first,
    int64_t count,
    double chance,
    float scale,
    const float* from,
    float* to,
    uint8_t* truths) {
  const Bound bound(chance);
  for_chunks(
      stream, first, count, [&](int64_t at, const uint32_t* words, int64_t n) {
        compare(words, n, bound, truths + at);
        drop(words, n, bound, scale, from + at, to + at);
      });
}

}  // namespace weft
