// SPDX-License-Identifier: Apache-2.0
#include "train/branches.h"

#include "base/error.h"
#include "execute/guard.h"
#include "ops/call.h"

#include <algorithm>
#include <iostream>
#include <optional>

namespace weft {
namespace {

constexpr const char* kAdvice =
    "Keep the number in the step: compute with tensors or with what .item() "
    "gives instead of float() and int(), choose with torch.where instead of "
    "`if`";

// Why its guard failed, when it did.
std::optional<std::string> failure_of(
    PreparedStep& step,
    const std::function<void(PreparedStep&)>& fill,
    const std::function<void(PreparedStep&)>& run) {
  fill(step);
  try {
    run(step);
  } catch (const GuardFailed& failed) {
    return failed.what();
  }
  return std::nullopt;
}

std::vector<std::string> guard_names(const Block& block) {
  std::vector<std::string> names;
  for (const Node& node : block.function.nodes) {
    if (is_guard(node)) {
      names.push_back(block.function[node.results.front()].name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Whether a value that Python read is checked by all ranks: then all of them
// stop at it together, and can take another path together.
bool all_ranks_guard(const Program& program) {
  const std::vector<std::string> first = guard_names(program.blocks.front());
  return std::all_of(
      program.blocks.begin(), program.blocks.end(), [&](const Block& block) {
        return guard_names(block) == first;
      });
}

}  // namespace

void run_branch(
    Trainer& trainer,
    const BatchTypes& types,
    StepKind kind,
    const std::function<void(PreparedStep&)>& fill,
    const std::function<void(PreparedStep&)>& run) {
  trainer.prepare(types, kind);
  std::vector<std::shared_ptr<PreparedStep>>& steps =
      trainer.branches(types, kind);
  std::optional<std::string> why;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::optional<std::string> failure = failure_of(*steps[i], fill, run);
    if (!failure) {
      const auto place = steps.begin() + static_cast<int64_t>(i);
      std::rotate(steps.begin(), place, place + 1);
      return;
    }
    WEFT_CHECK_USER(
        all_ranks_guard(steps[i]->program),
        *failure,
        ". In a pipeline the other stages cannot take another path. ",
        kAdvice);
    why = why ? why : failure;
  }
  WEFT_CHECK_USER(
      steps.size() < kMostBranches,
      *why,
      ". The step was captured ",
      steps.size(),
      " times, for as many values that Python read. ",
      kAdvice);
  if (steps.size() == 1 && trainer.options().rank == 0) {
    std::cerr << "weft: " << *why
              << ". The step is captured again, and at most " << kMostBranches
              << " times\n";
  }
  const std::optional<std::string> failure =
      failure_of(trainer.add_branch(types, kind), fill, run);
  WEFT_CHECK_USER(
      !failure,
      failure.value_or(""),
      ". It was captured with this very batch: what Python read there is not "
      "what the ranks compute together, or it is random. ",
      kAdvice);
}

}  // namespace weft
