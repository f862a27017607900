// SPDX-License-Identifier: Apache-2.0
#include "data/read_batch.h"

#include "base/error.h"
#include "data/convert.h"

namespace weft {
namespace {

void read_field(
    const Dataset& dataset,
    const FieldMatch& match,
    std::span<const int64_t> samples,
    std::span<std::byte> to) {
  const Field& field = dataset.fields()[match.field];
  const auto row_bytes = static_cast<size_t>(storage_bytes(match.type));
  const bool same = field.type.dtype == match.type.dtype;
  std::vector<std::byte> raw(
      same ? 0 : static_cast<size_t>(storage_bytes(field.type)));
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::span<std::byte> row = to.subspan(i * row_bytes, row_bytes);
    if (same) {
      dataset.read(samples[i], match.field, row);
      continue;
    }
    dataset.read(samples[i], match.field, raw);
    try {
      convert(field.type.dtype, raw, match.type.dtype, row);
    } catch (const UserError& error) {
      throw UserError(
          cat("sample ",
              samples[i],
              ", field ",
              quote(field.name),
              ": ",
              error.what()));
    }
  }
}

}  // namespace

void read_batch(
    const Dataset& dataset,
    const std::vector<FieldMatch>& matches,
    std::span<const int64_t> samples,
    const std::vector<std::span<std::byte>>& destinations) {
  WEFT_CHECK(
      matches.size() == destinations.size(),
      matches.size(),
      " matches, ",
      destinations.size(),
      " destinations");
  for (size_t i = 0; i < matches.size(); ++i) {
    const FieldMatch& match = matches[i];
    WEFT_CHECK(
        std::ssize(destinations[i]) ==
            storage_bytes(match.type) * std::ssize(samples),
        destinations[i].size(),
        " bytes for ",
        samples.size(),
        " samples of ",
        print(match.type));
    if (match.source == FieldMatch::Source::Ones) {
      fill_ones(match.type.dtype, destinations[i]);
    } else {
      read_field(dataset, match, samples, destinations[i]);
    }
  }
}

}  // namespace weft
