// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.h"

#include <string>

namespace weft {

// Names the plan in messages: where its text begins, or its graph.
std::string place(const Plan& plan);
// "the mesh <data=2>", or "the pipeline of <data=2> and <>".
std::string meshes_text(const Plan& plan);

}  // namespace weft
