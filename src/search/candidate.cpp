// SPDX-License-Identifier: Apache-2.0
#include "search/candidate.h"

#include "base/text.h"

namespace weft {

std::string print(const Candidate& candidate) {
  const std::string words = print(candidate.words);
  return cat(
      words,
      words.empty() ? "" : ",",
      candidate.has_searched_layouts ? "layouts=searched," : "",
      "recompute=",
      name(candidate.recompute),
      candidate.may_mix && candidate.recompute != RecomputePolicy::Full ? "+"
                                                                        : "");
}

SampleKey key_of(const Candidate& candidate, RecomputePolicy recompute) {
  const Parallel& words = candidate.words;
  return {
      .batch_parts = words.data * words.micro_batches,
      .tensor = words.tensor.empty() ? 1 : words.tensor.front(),
      .sequence = words.sequence,
      .context = words.context,
      .expert = words.expert,
      .seats = words.seats,
      .has_searched_layouts = candidate.has_searched_layouts,
      .recompute = recompute};
}

int64_t ranks_a_part(const Candidate& candidate) {
  const SampleKey key = key_of(candidate, candidate.recompute);
  return key.tensor * key.context * key.expert;
}

int64_t total(const MemoryParts& parts) {
  return parts.parameter_bytes + parts.gradient_bytes + parts.state_bytes +
         parts.kept_bytes + parts.temporary_bytes;
}

}  // namespace weft
