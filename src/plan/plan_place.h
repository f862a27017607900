// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.h"

#include <string>

namespace weft {

// Names the plan in messages: where its text begins, or its graph.
std::string place(const Plan& plan);

}  // namespace weft
