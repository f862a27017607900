// SPDX-License-Identifier: Apache-2.0
#include "search/stage.h"

#include <algorithm>

namespace weft {
namespace {

// The bytes that a rank holds of what ZeRO splits over `data` from `level` on.
int64_t piece(const Parallel& words, int64_t bytes, int level) {
  return words.zero >= level ? (bytes + words.data - 1) / words.data : bytes;
}

}  // namespace

int64_t staying_bytes(const Parallel& words, const UnitCost& cost) {
  return piece(words, cost.parameter_bytes, 3) +
         piece(words, cost.state_bytes, 1);
}

void add_stage(MemoryParts& to, const MemoryParts& stage) {
  to.parameter_bytes += stage.parameter_bytes;
  to.gradient_bytes += stage.gradient_bytes;
  to.state_bytes += stage.state_bytes;
  to.kept_bytes += stage.kept_bytes;
  to.temporary_bytes = std::max(to.temporary_bytes, stage.temporary_bytes);
}

// Micro-batches of a stage that are under way at once, at the most.
std::vector<InFlight> StageCosts::in_flight(const Parallel& words) {
  if (words.pipeline == 1) {
    return {{.forward = 1, .in_all = 1}};
  }
  const int64_t stages = stage_count(words);
  const int64_t chunks = stages / words.pipeline;
  std::vector<InFlight> out;
  for (int64_t position = 0; position < words.pipeline; ++position) {
    InFlight most = most_in_flight(
        words.schedule,
        {.positions = words.pipeline,
         .stages = stages,
         .micro_batches = words.micro_batches},
        position);
    for (int64_t* count : {&most.forward, &most.in_all, &most.waiting}) {
      *count = (*count + chunks - 1) / chunks;
    }
    out.push_back(most);
  }
  return out;
}

// Of those that have gone back, only what their weights wait for.
int64_t StageCosts::kept_bytes(const UnitCost& cost, int64_t stage) const {
  const InFlight& most = in_flight_[static_cast<size_t>(
      stage % static_cast<int64_t>(in_flight_.size()))];
  const auto with_waiting = [&](int64_t waiting) {
    return (most.in_all - waiting) * cost.kept_bytes +
           waiting * cost.waiting_bytes;
  };
  return std::max(
      with_waiting(most.in_all - most.forward), with_waiting(most.waiting));
}

// When most is kept, or at the end of the step if that takes more.
MemoryParts StageCosts::memory(const UnitCost& cost, int64_t stage) const {
  const MemoryParts during = memory_during(cost, stage);
  const MemoryParts end = memory_at_end(cost);
  return total(end) > total(during) ? end : during;
}

MemoryParts StageCosts::memory_during(
    const UnitCost& cost, int64_t stage) const {
  MemoryParts parts;
  parts.parameter_bytes = piece(words_, cost.parameter_bytes, 3);
  parts.state_bytes = piece(words_, cost.state_bytes, 1);
  const bool is_summed_up = words_.micro_batches > 1 || words_.pipeline > 1;
  // Those that are updated at once, or while the next are made.
  const int64_t passing =
      cost.gradient_bytes - (is_summed_up ? cost.summed_bytes : 0);
  parts.gradient_bytes = std::min(
      passing, (words_.data > 1 ? 2 : 1) * base_.largest_gradient_bytes);
  if (is_summed_up) {
    // Whole, and when all are, cut into pieces.
    parts.gradient_bytes +=
        cost.summed_bytes +
        (words_.zero >= 2 ? piece(words_, cost.summed_bytes, 2) : 0) +
        words_.micro_batches * cost.given_bytes;
  }
  if (words_.zero >= 3) {
    // One after the other; for several micro-batches once for all of them,
    // in forward and in backward.
    parts.temporary_bytes +=
        2 * (words_.micro_batches > 1 ? cost.parameter_bytes
                                      : base_.largest_parameter_bytes);
  }
  parts.kept_bytes = kept_bytes(cost, stage);
  parts.temporary_bytes += cost.temporary_bytes;
  return parts;
}

// Where ranks update pieces of parameters that each holds whole, these are
// gathered beside the old ones.
MemoryParts StageCosts::memory_at_end(const UnitCost& cost) const {
  MemoryParts parts;
  const bool has_pieces =
      words_.zero == 2 || (words_.zero == 1 && cost.state_bytes > 0);
  if (has_pieces && words_.data > 1) {
    parts.parameter_bytes = cost.parameter_bytes;
    parts.state_bytes = piece(words_, cost.state_bytes, 1);
    parts.gradient_bytes = piece(words_, cost.summed_bytes, 1);
    parts.temporary_bytes = cost.parameter_bytes;
  }
  return parts;
}

Stage StageCosts::stage(
    int32_t begin, int32_t end, int32_t whole_again, int64_t number) const {
  Stage out = {
      .begin = begin,
      .end = end,
      .whole_again = whole_again,
      .cost = {},
      .memory = {}};
  const int32_t middle = begin + whole_again;
  out.cost = whole_again == 0 ? between(base_, begin, end)
             : middle == end  ? between(whole_, begin, end)
                              : sum(between(whole_, begin, middle),
                                   between(base_, middle, end));
  out.memory = memory(out.cost, number);
  return out;
}

}  // namespace weft
