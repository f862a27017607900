// SPDX-License-Identifier: Apache-2.0
// Moves as instructions. Collectives take dense row-major tensors and cut or
// join their first dims: what another dim needs is packed before and unpacked
// after by ordinary calls. Pieces that are not equal travel padded to the
// largest.
#pragma once

#include "graph/layout.h"
#include "lower/emitter.h"
#include "lower/move.h"
#include "ops/rule.h"
#include "program/program.h"

#include <vector>

namespace weft {

// Moves `value`, one rank's piece of a value of type `whole`, by the steps that
// find_move gave for it, and returns the piece `to`. `is_owned`: nobody reads
// the value's storage afterwards, so that it may be summed in place.
ValueId emit_move(
    Emitter& emitter,
    ValueId value,
    const TensorType& whole,
    const std::vector<MoveStep>& steps,
    const Layout& to,
    bool is_owned);

// Brings the pieces' results of an operation over `axes` together by the same
// operation: the largest, the product... of all.
ValueId emit_join(
    Emitter& emitter, ValueId value, const Axes& axes, Combine how);

}  // namespace weft
