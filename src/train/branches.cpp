// SPDX-License-Identifier: Apache-2.0
#include "train/branches.h"

#include "base/error.h"
#include "base/text.h"
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

// What ranks have to do alike, in order: guards by name, and collectives.
std::vector<std::string> shared_course(const Block& block) {
  std::vector<std::string> course;
  for (const Instruction& instruction : block.instructions) {
    if (const auto* call = std::get_if<Call>(&instruction)) {
      const Node& node = block.function.nodes[index(call->node)];
      if (is_guard(node)) {
        course.push_back(block.function[node.results.front()].name);
      }
    } else if (const auto* start = std::get_if<Start>(&instruction)) {
      if (is_collective(start->kind)) {
        course.push_back(cat(name(start->kind), " ", join(start->axes, " ")));
      }
    }
  }
  return course;
}

// Whether a guard that fails on one rank fails on all, with nothing under way
// between them. Ranks whose pieces have unequal sizes have blocks of their own
// and do so; stages of a pipeline do not.
bool meets_guards_together(const Program& program) {
  if (program.blocks.size() == 1) {
    return true;
  }
  const std::vector<std::string> first = shared_course(program.blocks.front());
  for (const Block& block : program.blocks) {
    for (const Instruction& instruction : block.instructions) {
      const auto* start = std::get_if<Start>(&instruction);
      if (start != nullptr && start->peer >= 0) {
        return false;
      }
    }
    if (shared_course(block) != first) {
      return false;
    }
  }
  return true;
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
        meets_guards_together(steps[i]->program),
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
