// SPDX-License-Identifier: Apache-2.0
#include "data/data_identity.h"

#include "base/error.h"
#include "checkpoint/checkpoint_index.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

constexpr int64_t kMostSamples = 256;
constexpr int64_t kFewestSamples = 16;
constexpr int64_t kMostBytes = int64_t{1} << 24;

int64_t bytes_of_field(const Field& field) {
  return element_count(field.type) * element_bytes(field.type.dtype);
}

}  // namespace

std::string identity(const Dataset& dataset) {
  std::vector<std::string> fields;
  int64_t sample_bytes = 1;
  for (const Field& field : dataset.fields()) {
    fields.push_back(cat(field.name, " ", print(field.type)));
    sample_bytes += bytes_of_field(field);
  }
  std::sort(fields.begin(), fields.end());
  const int64_t count = std::min(
      dataset.size(),
      std::clamp(kMostBytes / sample_bytes, kFewestSamples, kMostSamples));
  std::vector<std::byte> sums;
  for (int64_t i = 0; i < count; ++i) {
    // The first and the last are among them.
    const int64_t sample =
        count == 1 ? 0 : i * (dataset.size() - 1) / (count - 1);
    for (size_t field = 0; field < dataset.fields().size(); ++field) {
      std::vector<std::byte> bytes(
          static_cast<size_t>(bytes_of_field(dataset.fields()[field])));
      dataset.read(sample, field, bytes);
      const uint64_t sum = checksum_of(bytes);
      const auto* first = reinterpret_cast<const std::byte*>(&sum);
      sums.insert(sums.end(), first, first + sizeof(sum));
    }
  }
  const uint64_t sum = checksum_of(sums);
  std::string bytes(sizeof(sum), '\0');
  std::memcpy(bytes.data(), &sum, sizeof(sum));
  return cat(
      dataset.size(),
      " samples of ",
      join(fields, ", "),
      ", checksum ",
      to_hex(bytes));
}

}  // namespace weft
