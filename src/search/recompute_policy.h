// SPDX-License-Identifier: Apache-2.0
// What backward makes again, as `recompute` lines of a plan.
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"
#include "search/units.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class RecomputePolicy : uint8_t {
  // Everything that backward reads is kept.
  None,
  // What costs little more than reading and writing it: `recompute cheap`.
  Cheap,
  // Also what takes few operations for the bytes that it saves: the scores of
  // attention, where they are values, and what is made of them.
  Selective,
  // Of every layer, all but what it takes in.
  Full,
};
inline constexpr RecomputePolicy kRecomputePolicies[] = {
    RecomputePolicy::None,
    RecomputePolicy::Cheap,
    RecomputePolicy::Selective,
    RecomputePolicy::Full};
// "none", "cheap", "selective", "full".
std::string_view name(RecomputePolicy policy);
std::optional<RecomputePolicy> recompute_policy(std::string_view name);

// By value, the one in whose storage it lies: views lie in their operand's.
std::vector<ValueId> storage_roots(const Function& step);

// Replaces what the plan said about recomputation by lines for these values.
void set_recompute(
    Plan& plan, const Function& step, const std::vector<std::string>& names);

// For every unit its own; Cheap is for the whole plan as soon as one unit has
// more than None. What the plan said about recomputation before is dropped.
// `keeps_output`: by unit, whether what it gives to the next is kept; else that
// is made again, too. Empty: all is.
void set_recompute(
    Plan& plan,
    const Function& step,
    const StepUnits& units,
    const std::vector<RecomputePolicy>& policies,
    const std::vector<bool>& keeps_output = {});
void set_recompute(
    Plan& plan,
    const Function& step,
    const StepUnits& units,
    RecomputePolicy policy);

}  // namespace weft
