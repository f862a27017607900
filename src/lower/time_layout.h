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

// A layout on the axes of the mesh, split over time besides as `made` is: a
// plan says where a value lies, and never has parts of a step wait for each
// other. `mesh` has both kinds of axes.
Layout with_time_of(
    const Layout& made,
    Layout layout,
    const TensorType& type,
    const Mesh& mesh,
    const Mesh& time);

}  // namespace weft
