// SPDX-License-Identifier: Apache-2.0
// The part of a step that depends on what is known beforehand alone: a table of
// positions that a model makes in its first step and keeps.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <optional>
#include <vector>

namespace weft {

// For each value of the step, whether `value` is computed from it. None when
// `value` depends on random numbers or on an input that is not known.
std::optional<std::vector<bool>> known_origin(
    const Function& step,
    ValueId value,
    const std::function<bool(const Input&)>& is_known);

// A function that makes `value` alone; none when it depends on random numbers
// or on an input that is not known.
std::optional<Function> constant_part(
    const Function& step,
    ValueId value,
    const std::function<bool(const Input&)>& is_known);

}  // namespace weft
