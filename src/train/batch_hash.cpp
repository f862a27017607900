// SPDX-License-Identifier: Apache-2.0
#include "train/batch_hash.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

namespace weft {
namespace {

// Elements that a sample looks at.
constexpr int64_t kSamples = 64;

// Odd numbers with bits all over.
constexpr uint64_t kFirst = 0x9e3779b97f4a7c15;
constexpr uint64_t kSecond = 0xd6e8feb86659fd93;

uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 32)) * kSecond;
  value = (value ^ (value >> 29)) * kFirst;
  return value ^ (value >> 32);
}

uint64_t hash_bytes(const std::byte* bytes, size_t size) {
  // Four at a time do not wait for each other.
  std::array<uint64_t, 4> lanes = {kFirst, kSecond, ~kFirst, ~kSecond};
  size_t at = 0;
  for (; at + sizeof(lanes) <= size; at += sizeof(lanes)) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + at + lane * sizeof(word), sizeof(word));
      uint64_t& into = lanes[lane];
      into = (into ^ word) * kFirst;
      into ^= into >> 29;
    }
  }
  uint64_t hash = size;
  for (const uint64_t lane : lanes) {
    hash = joined_hash(hash, lane);
  }
  for (; at < size; at += sizeof(hash)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof(word), size - at));
    hash = joined_hash(hash, word);
  }
  return hash;
}

uint64_t hash_of_type(const at::Tensor& tensor) {
  uint64_t hash = static_cast<uint64_t>(tensor.scalar_type());
  for (const int64_t size : tensor.sizes()) {
    hash = joined_hash(hash, static_cast<uint64_t>(size));
  }
  return hash;
}

// In memory as it is seen.
at::Tensor plain(const at::Tensor& tensor) {
  return tensor.detach().cpu().resolve_conj().resolve_neg();
}

// Where element `number` in row-major order lies.
int64_t offset_of(const at::Tensor& tensor, int64_t number) {
  int64_t offset = 0;
  for (int64_t dim = tensor.dim(); dim-- > 0;) {
    offset += number % tensor.size(dim) * tensor.stride(dim);
    number /= tensor.size(dim);
  }
  return offset;
}

}  // namespace

uint64_t joined_hash(uint64_t first, uint64_t second) {
  return mixed(first * kFirst + mixed(second));
}

uint64_t hash_of(std::string_view text) {
  return hash_bytes(
      reinterpret_cast<const std::byte*>(text.data()), text.size());
}

uint64_t hash_of(const at::Tensor& tensor) {
  const at::Tensor values = plain(tensor).contiguous();
  return joined_hash(
      hash_of_type(tensor),
      hash_bytes(
          static_cast<const std::byte*>(values.const_data_ptr()),
          values.nbytes()));
}

uint64_t sample_hash(const at::Tensor& tensor) {
  const int64_t count = tensor.numel();
  if (count <= kSamples) {
    return hash_of(tensor);
  }
  const at::Tensor values = plain(tensor);
  const auto* data = static_cast<const std::byte*>(values.const_data_ptr());
  const size_t bytes = values.element_size();
  std::vector<std::byte> sample(kSamples * bytes);
  for (int64_t i = 0; i < kSamples; ++i) {
    // The first and the last are among them.
    const int64_t number = i * (count - 1) / (kSamples - 1);
    std::memcpy(
        sample.data() + static_cast<size_t>(i) * bytes,
        data + static_cast<size_t>(offset_of(values, number)) * bytes,
        bytes);
  }
  return joined_hash(
      hash_of_type(tensor), hash_bytes(sample.data(), sample.size()));
}

}  // namespace weft
