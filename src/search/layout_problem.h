// SPDX-License-Identifier: Apache-2.0
// Layouts as choices that meet: how a node is computed meets where its operands
// and results lie, and what that costs is moving them.
#pragma once

#include "search/choice_problem.h"
#include "search/layout_costs.h"
#include "search/layout_space.h"

#include <vector>

namespace weft {

// First one choice a class of nodes, its options those of the space; then one a
// class of values. Seconds are of one micro-batch, forward and backward, with
// its share of what happens once for all of them; bytes are of parameters,
// their gradients and states, and what forward leaves for backward.
ChoiceProblem layout_problem(
    const LayoutSpace& space, const LayoutCosts& costs);

// By class of values, where it lies.
std::vector<Layout> resting_layouts(
    const LayoutSpace& space, const Chosen& chosen);

}  // namespace weft
