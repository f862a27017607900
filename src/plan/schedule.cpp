// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.h"

#include "base/error.h"
#include "plan/schedule_walk.h"

#include <algorithm>

namespace weft {

bool has_weight_units(const Schedule& schedule) {
  return std::any_of(
      schedule.order.begin(), schedule.order.end(), [](const auto& units) {
        return std::any_of(units.begin(), units.end(), [](const Unit& unit) {
          return unit.kind == UnitKind::Weight;
        });
      });
}

int64_t position_of(const Schedule& schedule, int64_t stage) {
  for (size_t position = 0; position < schedule.order.size(); ++position) {
    for (const Unit& unit : schedule.order[position]) {
      if (unit.stage == stage) {
        return static_cast<int64_t>(position);
      }
    }
  }
  WEFT_CHECK(false, "no position has stage ", stage);
}

Schedule first_micro_batches(Schedule schedule, int64_t count) {
  WEFT_CHECK(
      count >= 1 && count <= schedule.micro_batches,
      count,
      " of ",
      schedule.micro_batches,
      " micro-batches");
  schedule.micro_batches = count;
  for (std::vector<Unit>& units : schedule.order) {
    std::erase_if(units, [&](const Unit& unit) {
      return unit.part >= count * schedule.slices;
    });
  }
  return schedule;
}

UnitCosts drawing_costs(const Schedule& schedule) {
  return has_weight_units(schedule)
             ? UnitCosts{.forward = 1, .backward = 1, .weight = 1}
             : UnitCosts{};
}

std::vector<Unit> waits_for(const Schedule& schedule, const Unit& unit) {
  const auto [kind, stage, part] = unit;
  const int64_t slice = part % schedule.slices;
  std::vector<Unit> before;
  switch (kind) {
    case UnitKind::Forward:
      if (stage > 0) {
        before.push_back({kind, stage - 1, part});
      }
      if (slice > 0) {
        before.push_back({kind, stage, part - 1});
      }
      break;
    case UnitKind::Backward:
      before.push_back({UnitKind::Forward, stage, part});
      if (stage + 1 < schedule.stages) {
        before.push_back({kind, stage + 1, part});
      }
      if (slice + 1 < schedule.slices) {
        before.push_back({kind, stage, part + 1});
      }
      break;
    case UnitKind::Weight:
      before.push_back({UnitKind::Backward, stage, part});
      break;
  }
  return before;
}

double cost_of(const UnitCosts& costs, UnitKind kind) {
  switch (kind) {
    case UnitKind::Forward:
      return costs.forward;
    case UnitKind::Backward:
      return costs.backward;
    case UnitKind::Weight:
      return costs.weight;
  }
  WEFT_CHECK(false, "a unit of no kind");
}

namespace {

int64_t most_in_flight(const std::vector<Unit>& units, UnitKind last) {
  int64_t in_flight = 0;
  int64_t most = 0;
  for (const Unit& unit : units) {
    in_flight += unit.kind == UnitKind::Forward ? 1 : 0;
    most = std::max(most, in_flight);
    in_flight -= unit.kind == last ? 1 : 0;
  }
  return most;
}

}  // namespace

ScheduleRun run_schedule(const Schedule& schedule, const UnitCosts& costs) {
  const size_t positions = schedule.order.size();
  ScheduleRun run;
  run.starts.resize(positions);
  std::vector<double> free_at(positions, 0);
  UnitTable<double> ends(schedule, 0);
  UnitTable<size_t> places(schedule, 0);
  const std::vector<Stuck> stuck =
      walk(schedule, [&](size_t position, const Unit& unit) {
        double start = free_at[position];
        for (const Unit& before : waits_for(schedule, unit)) {
          const bool is_sent = places.at(before) != position;
          start =
              std::max(start, ends.at(before) + (is_sent ? costs.transfer : 0));
        }
        run.starts[position].push_back(start);
        free_at[position] = start + cost_of(costs, unit.kind);
        ends.at(unit) = free_at[position];
        places.at(unit) = position;
      });
  WEFT_CHECK(stuck.empty(), "a unit of ", schedule.name, " waits for ever");

  const UnitKind last =
      has_weight_units(schedule) ? UnitKind::Weight : UnitKind::Backward;
  double work = 0;
  for (size_t position = 0; position < positions; ++position) {
    const std::vector<Unit>& units = schedule.order[position];
    run.most_in_flight.push_back(most_in_flight(units, last));
    for (const Unit& unit : units) {
      work += cost_of(costs, unit.kind);
    }
    if (!units.empty()) {
      run.seconds = std::max(run.seconds, free_at[position]);
      run.step_seconds = std::max(
          run.step_seconds, free_at[position] - run.starts[position].front());
    }
  }
  const double mean_work = work / static_cast<double>(positions);
  if (work > 0) {
    run.idle_share = 1 - mean_work / run.seconds;
    run.step_idle_share = 1 - mean_work / run.step_seconds;
  }
  return run;
}

std::vector<int64_t> backward_order(const Schedule& schedule) {
  std::vector<int64_t> parts;
  for (const Unit& unit :
       schedule.order[static_cast<size_t>(position_of(schedule, 0))]) {
    if (unit.kind == UnitKind::Backward && unit.stage == 0) {
      parts.push_back(unit.part);
    }
  }
  return parts;
}

}  // namespace weft
