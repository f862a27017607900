// SPDX-License-Identifier: Apache-2.0
// What tells one schedule from another, and the generator of them all.
//
// The orders of forwards and of backwards at a position follow from where its
// stages are. How the two mix follows from how many parts may be in flight: a
// position goes forward until that many are, then backward and forward by
// turns; a backward that is ready goes before a forward that is not. Weight
// gradients wait until there is nothing else to do, or until their activations
// are in the way of the next forward.
#pragma once

#include "plan/schedule.h"

#include <cstdint>
#include <string_view>

namespace weft {

// Stages 0 1 2 3; 0 1 0 1; 0 1 1 0.
enum class StagePlacement : uint8_t { Row, Round, Vee };

// A position, as the limits see it.
struct Seat {
  int64_t positions = 1;
  int64_t position = 0;
  // Stages of each position.
  int64_t rounds = 1;
  // The most parts that a position takes through a stage before it turns to its
  // next one.
  int64_t group = 1;
  // Beyond one, of a micro-batch: it can go back only after its last slice.
  int64_t more_slices = 0;
};

using Limit = int64_t (*)(const Seat&);

struct Recipe {
  std::string_view name;
  StagePlacement placement = StagePlacement::Row;
  // Backwards begin with the last part.
  bool newest_first = false;
  // The most pairs of stage and part that have gone forward at a position and
  // not back.
  Limit forward_limit = nullptr;
  // The same, that still wait for W; nullptr: backward is not split.
  Limit weight_limit = nullptr;
  // Of a row: how many backwards may come one after the other before the first
  // of them is in the way of a forward.
  int64_t backwards_in_a_row = 1;
};

Seat seat_of(const ScheduleShape& shape, int64_t position);

// The shape is one that the placement allows.
Schedule generate_schedule(const Recipe& recipe, const ScheduleShape& shape);

}  // namespace weft
