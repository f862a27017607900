// SPDX-License-Identifier: Apache-2.0
// Moves as instructions. Collectives take dense row-major tensors and cut or
// join their first dims: what another dim needs is packed before and unpacked
// after by ordinary calls. Pieces that are not equal travel padded to the
// largest.
#pragma once

#include "graph/layout.h"
#include "ops/rule.h"
#include "program/program.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace weft {

// Where instructions go: one rank's block, and the names that it has used.
struct Emitter {
  Block& block;
  const Mesh& mesh;
  int64_t rank = 0;
  Phase phase = Phase::Forward;
  std::unordered_set<std::string>& names;

  // Appends a call with one result, named after `base`, and returns that.
  ValueId call(
      std::string_view op,
      std::vector<Arg> args,
      TensorType type,
      Layout layout,
      const std::string& base);
  // Likewise a transfer, waited for at once.
  ValueId transfer(
      TransferKind kind,
      ValueId operand,
      const Axes& axes,
      TensorType type,
      Layout layout,
      const std::string& base);
  // A name that is not used yet.
  std::string unique(const std::string& name);
};

// Moves `value`, one rank's piece `from` of a value of type `whole`, and
// returns the piece `to`. Both layouts are canonical. `is_owned`: nobody reads
// the value's storage afterwards, so that it may be summed in place.
ValueId emit_move(
    Emitter& emitter,
    ValueId value,
    const TensorType& whole,
    const Layout& from,
    const Layout& to,
    bool is_owned);

// Brings the pieces' results of an operation over `axes` together by the same
// operation: the largest, the product... of all.
ValueId emit_join(
    Emitter& emitter, ValueId value, const Axes& axes, Combine how);

}  // namespace weft
