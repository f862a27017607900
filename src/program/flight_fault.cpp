// SPDX-License-Identifier: Apache-2.0
#include "program/flight_fault.h"

#include "base/error.h"

#include <algorithm>
#include <set>

namespace weft {
namespace {

const FlightName& name_of(const Flight& flight, const FlightMark& mark) {
  return flight.names[static_cast<size_t>(mark.name)];
}

bool counts(const FlightName& name, int64_t channel) {
  return name.channel == channel &&
         (name.kind == FlightKind::Start || name.kind == FlightKind::Phase);
}

// Which meeting of its channel the rank waits at: it may have begun later ones.
int64_t meeting_of(const Flight& flight, const FlightName& last) {
  int64_t number = flight.channels[static_cast<size_t>(last.channel)].count;
  if (last.kind != FlightKind::Wait) {
    return number;
  }
  const int64_t all = number;
  for (size_t i = flight.marks.size(); i-- > 0;) {
    if (flight.marks[i].name == last.waits_for) {
      return number;
    }
    number -= counts(name_of(flight, flight.marks[i]), last.channel) ? 1 : 0;
  }
  // It began before what is kept.
  return all;
}

int64_t count_of(const Flight& flight, const std::string& channel) {
  for (const FlightChannel& each : flight.channels) {
    if (each.name == channel) {
      return each.count;
    }
  }
  return 0;
}

class FaultFinder {
 public:
  explicit FaultFinder(const std::vector<Flight>& flights) {
    const auto latest = std::max_element(
        flights.begin(), flights.end(), [](const Flight& a, const Flight& b) {
          return a.seen_unix_ns < b.seen_unix_ns;
        });
    by_rank_.resize(static_cast<size_t>(latest->ranks), nullptr);
    for (const Flight& flight : flights) {
      if (flight.ranks == latest->ranks) {
        by_rank_[static_cast<size_t>(flight.rank)] = &flight;
      }
    }
  }

  FlightFault find() {
    FlightFault fault;
    for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
      fault.ranks.push_back(rank_fault(static_cast<int64_t>(rank)));
      fault.end_unix_ns = std::max(
          {fault.end_unix_ns,
           fault.ranks.back().since_unix_ns,
           fault.ranks.back().seen_unix_ns});
    }
    std::set<int64_t> missed;
    for (const RankFault& each : fault.ranks) {
      missed.insert(each.waits_for.begin(), each.waits_for.end());
    }
    for (const RankFault& each : fault.ranks) {
      const bool is_silent = each.is_known && each.end == FlightEnd::None;
      if (missed.empty()
              ? is_silent
              : each.waits_for.empty() && missed.contains(each.rank)) {
        fault.at_fault.push_back(each.rank);
      }
    }
    return fault;
  }

 private:
  RankFault rank_fault(int64_t rank) const {
    RankFault fault;
    fault.rank = rank;
    const Flight* flight = by_rank_[static_cast<size_t>(rank)];
    if (flight == nullptr || flight->marks.empty()) {
      return fault;
    }
    const FlightMark& mark = flight->marks.back();
    const FlightName& last = name_of(*flight, mark);
    fault.is_known = true;
    fault.end = flight->end;
    fault.doing = last.label;
    fault.step = mark.step;
    fault.since_unix_ns = mark.unix_ns;
    fault.seen_unix_ns = flight->seen_unix_ns;
    if (last.channel < 0 || last.kind == FlightKind::Start ||
        fault.end == FlightEnd::Well) {
      return fault;
    }
    const FlightChannel& channel =
        flight->channels[static_cast<size_t>(last.channel)];
    fault.channel = channel.name;
    fault.meeting = meeting_of(*flight, last);
    for (const int64_t other : channel.ranks) {
      const bool is_there = other < static_cast<int64_t>(by_rank_.size()) &&
                            by_rank_[static_cast<size_t>(other)] != nullptr;
      if (other != rank &&
          (!is_there ||
           count_of(*by_rank_[static_cast<size_t>(other)], channel.name) <
               fault.meeting)) {
        fault.waits_for.push_back(other);
      }
    }
    fault.all_had_come = fault.waits_for.empty();
    if (fault.all_had_come && fault.end == FlightEnd::Message) {
      for (const int64_t other : channel.ranks) {
        if (other != rank &&
            by_rank_[static_cast<size_t>(other)]->end == FlightEnd::None) {
          fault.waits_for.push_back(other);
        }
      }
    }
    return fault;
  }

  // Nullptr where there is no record.
  std::vector<const Flight*> by_rank_;
};

}  // namespace

FlightFault find_fault(const std::vector<Flight>& flights) {
  WEFT_CHECK(!flights.empty(), "no flight record");
  return FaultFinder(flights).find();
}

}  // namespace weft
