// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/parallel.h"
#include "plan/plan.h"

#include <string>
#include <vector>

namespace weft {

// How messages call the ranks of a pipeline, by rank: "stage 2 (rank 5)",
// "stages 0 and 3 (rank 0)". Empty for a plan without one. Throws UserError for
// a schedule that does not fit the plan.
std::vector<std::string> rank_names(const Plan& plan);
// Of the plan that the words stand for, whatever the step.
std::vector<std::string> rank_names(const Parallel& parallel);

}  // namespace weft
