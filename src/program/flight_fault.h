// SPDX-License-Identifier: Apache-2.0
// Flights -> who waited for whom, and who never came.
#pragma once

#include "program/flight.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct RankFault {
  int64_t rank = 0;
  // Whether there is a record of it.
  bool is_known = false;
  FlightEnd end = FlightEnd::None;
  // What it did last, in which step, and since when.
  std::string doing;
  int64_t step = 0;
  int64_t since_unix_ns = 0;
  int64_t seen_unix_ns = 0;
  // The ranks that had not come to where it waits; where all had, and it left
  // with a message, those that ended without a word since.
  std::vector<int64_t> waits_for;
  bool all_had_come = false;
  // The channel it waits at, and the number of the meeting there.
  std::string channel;
  int64_t meeting = 0;
};

struct FlightFault {
  // By rank: all of the run.
  std::vector<RankFault> ranks;
  // When anything was heard of any rank for the last time.
  int64_t end_unix_ns = 0;
  // The ranks that others waited for and that waited for nobody; where nobody
  // waited, those that ended without a word.
  std::vector<int64_t> at_fault;
};

// `flights` of one run, at least one. Records of ranks that the latest run did
// not have are left out.
FlightFault find_fault(const std::vector<Flight>& flights);

}  // namespace weft
