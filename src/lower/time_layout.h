// SPDX-License-Identifier: Apache-2.0
// Layouts with and without axes of time.
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"
#include "graph/tensor_type.h"

namespace weft {

// What a rank has at all points of time, of a value of that type, canonical.
// `mesh` has both kinds of axes. Throws UserError where an axis of time stands
// in front of one of the mesh and does not divide.
Layout without_time(
    Layout layout, const TensorType& type, const Mesh& mesh, const Mesh& time);

// Where a value comes to rest that is made so, and that a plan wants on axes of
// the mesh so. A plan never has parts of a step wait for each other: the value
// stays split over time as it was made, but for what an update reads, which is
// of all points of time. `mesh` has both kinds of axes.
Layout resting_layout(
    const Layout& made,
    Layout wanted,
    bool is_for_update,
    const TensorType& type,
    const Mesh& mesh,
    const Mesh& time);

}  // namespace weft
