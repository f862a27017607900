// SPDX-License-Identifier: Apache-2.0
// The schedules that have a name: one line of recipes() each.
#include "base/error.h"
#include "base/number.h"
#include "plan/schedule_recipe.h"
#include "plan/schedule_walk.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

int64_t unlimited(const Seat&) { return std::numeric_limits<int64_t>::max(); }
// As many as there are stages from here on.
int64_t to_the_end(const Seat& s) {
  return s.positions - s.position + s.more_slices;
}
// As many as fit before the first one is back: there and back again.
int64_t there_and_back(const Seat& s) {
  return 2 * (s.positions - s.position) - 1 + s.more_slices;
}
// The same, after the rounds before the last.
int64_t rounds_there_and_back(const Seat& s) {
  return (s.rounds - 1) * s.group + there_and_back(s);
}
int64_t as_the_first_to_the_end(const Seat& s) {
  return s.positions + s.more_slices;
}
int64_t as_the_first_there_and_back(const Seat& s) {
  return 2 * s.positions - 1 + s.more_slices;
}
int64_t both_stages(const Seat& s) { return 2 * (s.positions + s.more_slices); }

constexpr auto kRow = StagePlacement::Row;
const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = {
      {"gpipe", kRow, false, unlimited},
      {"1f1b", kRow, false, to_the_end},
      {"interleaved", StagePlacement::Round, false, rounds_there_and_back},
      {"zb-h1", kRow, false, to_the_end, as_the_first_to_the_end},
      {"zb-h2", kRow, false, there_and_back, as_the_first_there_and_back, 2},
      {"zb-v", StagePlacement::Vee, false, both_stages, both_stages},
      {"token", kRow, true, unlimited},
  };
  return all;
}

const Recipe& recipe_of(std::string_view name) {
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) {
      return recipe;
    }
  }
  throw UserError(
      cat("there is no schedule ",
          quote(name),
          "; there are ",
          join(schedule_names(), ", ")));
}

void check_shape(const Recipe& recipe, const ScheduleShape& shape) {
  const auto& [positions, stages, micro_batches, slices] = shape;
  for (const auto& [what, size] :
       {std::pair("positions", positions),
        std::pair("stages", stages),
        std::pair("micro-batches", micro_batches),
        std::pair("slices", slices)}) {
    WEFT_CHECK_USER(
        size >= 1,
        "schedule ",
        recipe.name,
        ": ",
        what,
        " are at least 1, found ",
        size);
  }
  WEFT_CHECK_USER(
      checked_product({stages, micro_batches, slices})
              .value_or(std::numeric_limits<int64_t>::max()) <= kMostPairs,
      "schedule ",
      recipe.name,
      ": ",
      stages,
      " stages of ",
      micro_batches,
      " x ",
      slices,
      " parts are more units than can be played through; take fewer parts");
  const auto fail = [&](const std::string& needs, const std::string& take) {
    throw UserError(
        cat("schedule ",
            recipe.name,
            " needs ",
            needs,
            ", and there are ",
            stages,
            " stages on ",
            positions,
            " positions; take ",
            take));
  };
  switch (recipe.placement) {
    case StagePlacement::Row:
      if (stages != positions) {
        fail(
            "one stage a position",
            cat(positions, " stages, or the schedule interleaved or zb-v"));
      }
      break;
    case StagePlacement::Round:
      if (stages % positions != 0) {
        const int64_t below = std::max<int64_t>(stages / positions, 1);
        fail(
            "as many stages at every position",
            cat(below * positions, " or ", (below + 1) * positions, " stages"));
      }
      break;
    case StagePlacement::Vee:
      if (stages != 2 * positions) {
        fail("two stages a position", cat(2 * positions, " stages"));
      }
      break;
  }
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Recipe& recipe : recipes()) {
      all.emplace_back(recipe.name);
    }
    return all;
  }();
  return names;
}

int64_t stages_per_position(std::string_view name) {
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) {
      return recipe.placement == StagePlacement::Row ? 1 : 2;
    }
  }
  return 1;
}

Schedule make_schedule(std::string_view name, const ScheduleShape& shape) {
  const Recipe& recipe = recipe_of(name);
  check_shape(recipe, shape);
  return generate_schedule(recipe, shape);
}

InFlight most_in_flight(
    std::string_view name, const ScheduleShape& shape, int64_t position) {
  const Recipe& recipe = recipe_of(name);
  const Seat seat = seat_of(shape, position);
  const int64_t all = seat.rounds * shape.micro_batches * shape.slices;
  const int64_t forward = std::min(all, recipe.forward_limit(seat));
  if (recipe.weight_limit == nullptr) {
    return {.forward = forward, .in_all = forward};
  }
  const int64_t in_all = std::min(all, recipe.weight_limit(seat));
  return {
      .forward = forward,
      .in_all = in_all,
      .waiting =
          recipe.placement == StagePlacement::Row
              ? std::min(in_all, in_all - forward + recipe.backwards_in_a_row)
              : in_all};
}

}  // namespace weft
