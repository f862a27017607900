// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "plan/schedule.h"
#include "plan/schedule_walk.h"

#include <algorithm>

namespace weft {

std::vector<Stuck> walk(
    const Schedule& schedule,
    const std::function<void(size_t position, const Unit& unit)>& visit) {
  const size_t positions = schedule.order.size();
  UnitTable<char> done(schedule, 0);
  std::vector<size_t> next(positions, 0);
  std::vector<Stuck> stuck;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    stuck.clear();
    for (size_t position = 0; position < positions; ++position) {
      const std::vector<Unit>& units = schedule.order[position];
      for (size_t& at = next[position]; at < units.size(); ++at) {
        const std::vector<Unit> needed = waits_for(schedule, units[at]);
        const auto missing =
            std::find_if(needed.begin(), needed.end(), [&](const Unit& unit) {
              return done.at(unit) == 0;
            });
        if (missing != needed.end()) {
          stuck.push_back({position, units[at], *missing});
          break;
        }
        visit(position, units[at]);
        done.at(units[at]) = 1;
        goes_on = true;
      }
    }
  }
  return stuck;
}

namespace {

class ScheduleVerifier {
 public:
  explicit ScheduleVerifier(const Schedule& schedule)
      : schedule_(schedule), parts_(schedule.micro_batches * schedule.slices) {}

  void run() {
    check_sizes();
    check_units();
    check_all_there();
    check_progress();
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(const Args&... args) {
    fail_from(schedule_.where, args...);
  }

  template <typename... Args>
  [[noreturn]] void fail_at(size_t position, const Args&... args) {
    fail_from(
        position < schedule_.position_where.size()
            ? schedule_.position_where[position]
            : schedule_.where,
        args...);
  }

  template <typename... Args>
  [[noreturn]] void fail_from(const std::string& where, const Args&... args) {
    throw UserError(
        cat(where,
            where.empty() ? "" : ": ",
            "schedule @",
            schedule_.name,
            ": ",
            args...));
  }

  std::string name_of(const Unit& unit) {
    return print(schedule_, unit, kNoPosition);
  }

  void check_sizes() {
    const int64_t stages = schedule_.stages;
    const int64_t micro_batches = schedule_.micro_batches;
    const int64_t slices = schedule_.slices;
    for (const auto& [what, size] :
         {std::pair("stages", stages),
          std::pair("micro_batches", micro_batches),
          std::pair("slices", slices)}) {
      if (size < 1) {
        fail(what, " is at least 1, found ", size);
      }
    }
    if (stages > kMostPairs || micro_batches > kMostPairs / stages ||
        slices > kMostPairs / stages / micro_batches) {
      fail(
          stages,
          " stages of ",
          micro_batches,
          " x ",
          slices,
          " parts are more units than can be checked; take fewer parts");
    }
    if (schedule_.order.empty()) {
      fail("it has no position; give each its line, as in '0: F0 B0'");
    }
  }

  void check_units() {
    UnitTable<char> seen(schedule_, 0);
    places_.assign(static_cast<size_t>(schedule_.stages), kNoPosition);
    for (size_t at = 0; at < schedule_.order.size(); ++at) {
      const auto position = static_cast<int64_t>(at);
      for (const Unit& unit : schedule_.order[at]) {
        if (unit.stage < 0 || unit.stage >= schedule_.stages) {
          fail_at(
              at,
              "position ",
              position,
              " has a unit of stage ",
              unit.stage,
              ", and the stages are 0 to ",
              schedule_.stages - 1);
        }
        if (unit.part < 0 || unit.part >= parts_) {
          fail_at(
              at,
              "position ",
              position,
              " has a unit of part ",
              unit.part,
              ", and the parts are 0 to ",
              parts_ - 1);
        }
        if (seen.at(unit) != 0) {
          fail_at(at, name_of(unit), " stands twice; leave one out");
        }
        seen.at(unit) = 1;
        int64_t& place = places_[static_cast<size_t>(unit.stage)];
        if (place != kNoPosition && place != position) {
          fail_at(
              at,
              "stage ",
              unit.stage,
              " is at position ",
              place,
              " and, with ",
              name_of(unit),
              ", at position ",
              position,
              "; a stage has one position");
        }
        place = position;
      }
    }
  }

  void check_all_there() {
    UnitTable<char> seen(schedule_, 0);
    for (const std::vector<Unit>& units : schedule_.order) {
      for (const Unit& unit : units) {
        seen.at(unit) = 1;
      }
    }
    std::vector<UnitKind> kinds = {UnitKind::Forward, UnitKind::Backward};
    if (has_weight_units(schedule_)) {
      kinds.push_back(UnitKind::Weight);
    }
    for (int64_t stage = 0; stage < schedule_.stages; ++stage) {
      for (int64_t part = 0; part < parts_; ++part) {
        for (const UnitKind kind : kinds) {
          const Unit unit = {kind, stage, part};
          if (seen.at(unit) == 0) {
            fail(
                name_of(unit),
                " is missing",
                kind == UnitKind::Weight
                    ? "; W units are there for every stage and part, or for "
                      "none"
                    : "; every stage has F and B for every part");
          }
        }
      }
    }
  }

  void check_progress() {
    const std::vector<Stuck> stuck =
        walk(schedule_, [](size_t, const Unit&) {});
    if (stuck.empty()) {
      return;
    }
    std::vector<std::string> waits;
    for (const auto& [position, unit, before] : stuck) {
      waits.push_back(
          cat("position ",
              position,
              " is at ",
              name_of(unit),
              " and waits for ",
              name_of(before)));
    }
    fail_at(
        stuck.front().position,
        "units wait for ever: ",
        join(waits, ", "),
        "; move what is waited for before what waits");
  }

  const Schedule& schedule_;
  int64_t parts_;
  // Of every stage.
  std::vector<int64_t> places_ = {};
};

}  // namespace

void verify(const Schedule& schedule) { ScheduleVerifier(schedule).run(); }

}  // namespace weft
