// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "plan/schedule.h"
#include "plan/schedule_walk.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

// The stages of a position, in the order of the model.
std::vector<int64_t> stages_at(const std::vector<Unit>& units) {
  std::vector<int64_t> stages;
  for (const Unit& unit : units) {
    stages.push_back(unit.stage);
  }
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

std::string label(
    const Schedule& schedule,
    const std::vector<int64_t>& stages,
    const Unit& unit) {
  std::string text = print(schedule, unit, unit.stage);
  const auto at = std::find(stages.begin(), stages.end(), unit.stage);
  if ((at - stages.begin()) % 2 == 1) {
    text.front() = static_cast<char>(text.front() - 'A' + 'a');
  }
  return text;
}

}  // namespace

std::string draw(const Schedule& schedule, const UnitCosts& costs) {
  const ScheduleRun run = run_schedule(schedule, costs);
  const int64_t last_part = schedule.micro_batches * schedule.slices - 1;
  const size_t width =
      print(schedule, {UnitKind::Forward, 0, last_part}, 0).size() + 1;
  const auto column = [&](double time) {
    return static_cast<size_t>(std::llround(time * static_cast<double>(width)));
  };
  std::string text;
  for (size_t position = 0; position < schedule.order.size(); ++position) {
    const std::vector<Unit>& units = schedule.order[position];
    const std::vector<int64_t> stages = stages_at(units);
    std::string line(column(run.seconds), ' ');
    for (size_t dot = 0; dot < line.size(); dot += width) {
      line[dot] = '.';
    }
    for (size_t at = 0; at < units.size(); ++at) {
      const double start = run.starts[position][at];
      const size_t from = column(start);
      const size_t to = column(start + cost_of(costs, units[at].kind));
      if (to <= from) {
        continue;
      }
      // A space ends a unit, dashes are the rest of a long one.
      std::string cell = label(schedule, stages, units[at]);
      cell.resize(std::max(to - from - 1, size_t{1}), '-');
      line.replace(from, to - from, cell + (to - from > 1 ? " " : ""));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += cat(position, ": ", line, "\n");
  }
  return text;
}

}  // namespace weft
