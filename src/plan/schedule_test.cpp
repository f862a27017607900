// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// A stage's forward and the halves of its backward take the same time, as in
// the papers' closed forms.
constexpr UnitCosts kSplit = {.forward = 1, .backward = 1, .weight = 1};
constexpr UnitCosts kWhole = {.forward = 1, .backward = 2};

int64_t rounds_of(const std::string& name) {
  return name == "zb-v" || name == "interleaved" ? 2 : 1;
}

Schedule made(
    const std::string& name,
    int64_t positions,
    int64_t micro_batches,
    int64_t slices = 1) {
  return make_schedule(
      name, {positions, positions * rounds_of(name), micro_batches, slices});
}

const UnitCosts& costs_of(const Schedule& schedule) {
  return has_weight_units(schedule) ? kSplit : kWhole;
}

ScheduleRun run(const Schedule& schedule) {
  return run_schedule(schedule, costs_of(schedule));
}

// Every (positions, micro-batches) that the closed forms are checked for.
template <typename Check>
void for_sizes(const Check& check) {
  for (const int64_t p : {1, 2, 3, 4, 5, 6, 8}) {
    for (int64_t m = 1; m <= 3 * p + 2; ++m) {
      SCOPED_TRACE(cat(p, " positions, ", m, " micro-batches"));
      check(p, m);
    }
  }
}

double share(int64_t idle, int64_t work) {
  return static_cast<double>(idle) / static_cast<double>(idle + work);
}

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_message(const std::string& text) {
  return message_of([&] { parse_schedule(text, "s"); });
}

// Of a schedule of two stages, with these lines for positions.
std::string verify_message(const std::string& lines, int64_t parts = 1) {
  return message_of([&] {
    verify(parse_schedule(
        cat("schedule @x { stages 2 micro_batches ", parts, " ", lines, " }"),
        "s"));
  });
}

TEST(PipelineSchedule, PrintsWhatItParsed) {
  const std::string text =
      "schedule @1f1b {\n"
      "  stages 2\n"
      "  micro_batches 3\n"
      "  0: F0 F1 B0 F2 B1 B2\n"
      "  1: F0 B0 F1 B1 F2 B2\n"
      "}\n";
  EXPECT_EQ(print(parse_schedule(text, "s")), text);
  EXPECT_EQ(print(made("1f1b", 2, 3)), text);
  for (const std::string& name : schedule_names()) {
    for (const int64_t slices : {1, 3}) {
      const Schedule schedule = made(name, 3, 4, slices);
      EXPECT_EQ(parse_schedule(print(schedule), "s"), schedule);
    }
  }
}

TEST(PipelineSchedule, StagesAndSlicesAreNamedWhereThereAreSeveral) {
  EXPECT_EQ(
      print(made("zb-v", 1, 1)),
      "schedule @zb-v {\n"
      "  stages 2\n"
      "  micro_batches 1\n"
      "  0: F0@0 F0@1 B0@1 B0@0 W0@1 W0@0\n"
      "}\n");
  EXPECT_EQ(
      print(made("token", 1, 2, 2)),
      "schedule @token {\n"
      "  stages 1\n"
      "  micro_batches 2\n"
      "  slices 2\n"
      "  0: F0.0 F0.1 F1.0 F1.1 B1.1 B1.0 B0.1 B0.0\n"
      "}\n");
}

// A deadlock, a unit too many and one too few are all in here.
TEST(PipelineSchedule, AllVerifyAtEverySize) {
  for (const std::string& name : schedule_names()) {
    for_sizes([&](int64_t p, int64_t m) {
      for (const int64_t slices : {1, 2, 3, 7}) {
        const Schedule schedule = made(name, p, m, slices);
        verify(schedule);
        EXPECT_EQ(schedule.name, name);
        EXPECT_EQ(has_weight_units(schedule), name.starts_with("zb"));
      }
    });
  }
}

TEST(PipelineSchedule, StagesHavePlaces) {
  const auto places = [](const Schedule& schedule) {
    std::vector<int64_t> all;
    for (int64_t stage = 0; stage < schedule.stages; ++stage) {
      all.push_back(position_of(schedule, stage));
    }
    return all;
  };
  EXPECT_EQ(places(made("gpipe", 3, 2)), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(
      places(made("interleaved", 2, 2)), (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(places(made("zb-v", 2, 2)), (std::vector<int64_t>{0, 1, 1, 0}));
}

TEST(PipelineSchedule, UnitsWaitForStagesAndSlices) {
  const Schedule schedule = made("token", 3, 2, 2);
  using enum UnitKind;
  EXPECT_EQ(
      waits_for(schedule, {Forward, 1, 3}),
      (std::vector<Unit>{{Forward, 0, 3}, {Forward, 1, 2}}));
  EXPECT_EQ(
      waits_for(schedule, {Backward, 1, 2}),
      (std::vector<Unit>{{Forward, 1, 2}, {Backward, 2, 2}, {Backward, 1, 3}}));
  EXPECT_EQ(
      waits_for(schedule, {Backward, 2, 1}),
      (std::vector<Unit>{{Forward, 2, 1}}));
  EXPECT_EQ(
      waits_for(schedule, {Weight, 1, 1}),
      (std::vector<Unit>{{Backward, 1, 1}}));
}

TEST(PipelineSchedule, IdleShareOfGpipeAndOneForwardOneBackward) {
  for_sizes([](int64_t p, int64_t m) {
    for (const std::string name : {"gpipe", "1f1b"}) {
      const ScheduleRun seen = run(made(name, p, m));
      EXPECT_NEAR(seen.idle_share, share(p - 1, m), 1e-12);
      EXPECT_EQ(seen.step_seconds, seen.seconds);
    }
  });
}

// TeraPipe: slices count as micro-batches.
TEST(PipelineSchedule, IdleShareOfTokens) {
  for_sizes([](int64_t p, int64_t m) {
    EXPECT_NEAR(
        run(made("token", p, m, 4)).idle_share, share(p - 1, 4 * m), 1e-12);
  });
}

// Also when micro-batches are no multiple of positions. With fewer of them, a
// position waits at every round for the first part to come round again.
TEST(PipelineSchedule, IdleShareOfInterleaved) {
  for_sizes([](int64_t p, int64_t m) {
    for (const int64_t v : {1, 2, 3, 4}) {
      const Schedule schedule = make_schedule("interleaved", {p, v * p, m});
      const int64_t idle = p - 1 + (v - 1) * std::max<int64_t>(p - m, 0);
      EXPECT_NEAR(run(schedule).idle_share, share(idle, v * m), 1e-12);
    }
  });
}

// Qi et al.: (p - 1)(F + B - W), a third of 1F1B's.
TEST(PipelineSchedule, IdleShareOfZbH1) {
  for_sizes([](int64_t p, int64_t m) {
    const ScheduleRun seen = run(made("zb-h1", p, m));
    const int64_t idle = p - 1 + std::max<int64_t>(p - m, 0);
    EXPECT_NEAR(seen.idle_share, share(idle, 3 * m), 1e-12);
    EXPECT_EQ(seen.step_seconds, seen.seconds);
  });
}

// Qi et al.: (p - 1)(F + B - 2W) = 0, from 2p - 1 micro-batches on. Positions
// begin and end one after the other, so a wait between steps shows p - 1.
TEST(PipelineSchedule, ZbH2AndZbVAreNotIdleBetweenTheirFirstAndLastUnit) {
  for_sizes([](int64_t p, int64_t m) {
    for (const std::string name : {"zb-h2", "zb-v"}) {
      const int64_t work = 3 * rounds_of(name) * m;
      const ScheduleRun seen = run(made(name, p, m));
      const int64_t idle = std::max<int64_t>(2 * p - 1 - m, 0);
      if (m >= p || name == "zb-h2") {
        EXPECT_NEAR(seen.step_idle_share, share(idle, work), 1e-12);
        EXPECT_NEAR(seen.idle_share, share(std::max(p - 1, idle), work), 1e-12);
      }
    }
  });
}

// The closed forms hold for other costs too, though orders are made with equal
// ones.
TEST(PipelineSchedule, IdleTimeOfSplitBackwardWithUnequalCosts) {
  for (const double weight : {0.5, 0.75, 1.0}) {
    const UnitCosts costs = {1, 1.25, weight};
    const double unit = 1 + 1.25 + weight;
    for (const int64_t p : {2, 4, 8}) {
      const int64_t m = 2 * p + 1;
      const auto idle = [&](const std::string& name) {
        return run_schedule(made(name, p, m), costs).step_seconds -
               static_cast<double>(m) * unit;
      };
      const auto borders = static_cast<double>(p - 1);
      EXPECT_NEAR(idle("zb-h1"), borders * (2.25 - weight), 1e-9);
      EXPECT_NEAR(idle("zb-h2"), borders * (2.25 - 2 * weight), 1e-9);
    }
  }
}

TEST(PipelineSchedule, PartsInFlightAreBoundedByPositions) {
  for_sizes([](int64_t p, int64_t m) {
    const auto bounds = [&](const std::string& name) {
      return run(made(name, p, m)).most_in_flight;
    };
    for (int64_t at = 0; at < p; ++at) {
      const auto i = static_cast<size_t>(at);
      EXPECT_EQ(bounds("gpipe")[i], m);
      EXPECT_EQ(bounds("1f1b")[i], std::min(m, p - at));
      // Never more than the first position of 1F1B.
      EXPECT_EQ(bounds("zb-h1")[i], std::min(m, p));
      EXPECT_EQ(bounds("zb-h2")[i], std::min(m, 2 * p - 1));
      // Stages of half the size.
      EXPECT_LE(bounds("zb-v")[i], 2 * p);
    }
    if (m % p == 0) {
      EXPECT_LE(bounds("interleaved")[0], 3 * p - 1);
    }
  });
}

TEST(PipelineSchedule, SlicesAddAtMostAMicroBatchInFlight) {
  for_sizes([](int64_t p, int64_t m) {
    EXPECT_LE(run(made("1f1b", p, m, 5)).most_in_flight[0], p + 4);
    EXPECT_LE(run(made("zb-h1", p, m, 5)).most_in_flight[0], p + 4);
    EXPECT_LE(run(made("zb-v", p, m, 5)).most_in_flight[0], 2 * (p + 4));
  });
}

// One part: each of the p - 1 borders is passed twice.
TEST(PipelineSchedule, TransfersAreWaitedFor) {
  UnitCosts costs = kWhole;
  costs.transfer = 0.5;
  EXPECT_EQ(
      run_schedule(made("1f1b", 4, 1), costs).seconds, 4 * 3 + 2 * 3 * 0.5);
  // The bottom of the V is at one position.
  costs = kSplit;
  costs.transfer = 0.5;
  EXPECT_EQ(run_schedule(made("zb-v", 1, 1), costs).seconds, 6);
}

TEST(PipelineSchedule, Drawn) {
  EXPECT_EQ(
      draw(made("1f1b", 2, 3), kWhole),
      "0: F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
      "1: .  F0 B0--- F1 B1--- F2 B2--- .  .\n");
  EXPECT_EQ(
      draw(made("zb-v", 2, 3), kSplit),
      "0: F0 F1 F2 f0 b0 w0 f1 b1 w1 B0 W0 f2 b2 B1 w2 B2 W1 W2 .\n"
      "1: .  F0 f0 F1 f1 b0 w0 F2 B0 W0 f2 b1 B1 b2 B2 w1 W1 w2 W2\n");
}

TEST(PipelineSchedule, MessagesOfShapes) {
  const auto message = [](std::string_view name, const ScheduleShape& shape) {
    return message_of([&] { make_schedule(name, shape); });
  };
  EXPECT_EQ(
      message("2f2b", {}),
      "there is no schedule \"2f2b\"; there are gpipe, 1f1b, interleaved, "
      "zb-h1, zb-h2, zb-v, token");
  EXPECT_EQ(
      message("1f1b", {4, 8, 2}),
      "schedule 1f1b needs one stage a position, and there are 8 stages on 4 "
      "positions; take 4 stages, or the schedule interleaved or zb-v");
  EXPECT_EQ(
      message("interleaved", {4, 6, 2}),
      "schedule interleaved needs as many stages at every position, and there "
      "are 6 stages on 4 positions; take 4 or 8 stages");
  EXPECT_EQ(
      message("zb-v", {4, 4, 2}),
      "schedule zb-v needs two stages a position, and there are 4 stages on 4 "
      "positions; take 8 stages");
  EXPECT_EQ(
      message("gpipe", {2, 2, 0}),
      "schedule gpipe: micro-batches are at least 1, found 0");
}

TEST(PipelineSchedule, MessagesOfTexts) {
  const std::string head = "schedule @x {\n  stages 2\n  micro_batches 2\n";
  EXPECT_EQ(
      parse_message("schedule @x { stages 0"),
      "s:1:22: stages must be a whole number, from 1 to 1,000,000, found 0");
  EXPECT_EQ(
      parse_message(head + "  1: F0 }"),
      "s:4:3: expected the line of position 0, found that of 1; positions "
      "stand in order, each once");
  EXPECT_EQ(
      parse_message(head + "  0: F0 X1 }"),
      "s:4:9: expected '1:' and its units, or '}', found \"X1\"");
  EXPECT_EQ(
      parse_message(head + "  0: F0 Bx }"),
      "s:4:9: expected a unit such as F0, or F0@2 (micro-batch and stage), "
      "found \"Bx\"");
  EXPECT_EQ(
      parse_message(head + "  slices 2 0: F0 }"),
      "s:4:15: expected a unit such as F0.1, or F0.1@2 (micro-batch, slice and "
      "stage), found \"F0\"");
  EXPECT_EQ(
      parse_message(head + "  0: F2 }"),
      "s:4:6: F2 is of micro-batch 2, and the last one is 1");
  EXPECT_EQ(
      parse_message(head + "  0: F0@7 }"),
      "s:4:6: F0@7 is of stage 7, and the last one is 1");
  EXPECT_EQ(
      parse_message(head + "  slices 2 0: F0.2 }"),
      "s:4:15: F0.2 is of slice 2, and the last one is 1");
}

TEST(PipelineSchedule, MessagesOfUnits) {
  EXPECT_EQ(verify_message("0: F0 B0 1: F0 B0"), "no error");
  EXPECT_EQ(
      verify_message(""),
      "s:1: schedule @x: it has no position; give each its line, as in '0: F0 "
      "B0'");
  EXPECT_EQ(
      verify_message("0: F0 B0 F0 1: F0 B0"),
      "s:1: schedule @x: F0@0 stands twice; leave one out");
  EXPECT_EQ(
      verify_message("0: F0 B0 1: F0"),
      "s:1: schedule @x: B0@1 is missing; every stage has F and B for every "
      "part");
  EXPECT_EQ(
      verify_message("0: F0 B0 W0 1: F0 B0"),
      "s:1: schedule @x: W0@1 is missing; W units are there for every stage "
      "and "
      "part, or for none");
  EXPECT_EQ(
      verify_message("0: F0 B0 F0@1 1: B0"),
      "s:1: schedule @x: stage 1 is at position 0 and, with B0@1, at position "
      "1; a "
      "stage has one position");
}

TEST(PipelineSchedule, UnitsThatWaitForEverAreNamed) {
  EXPECT_EQ(
      verify_message("0: F0 B0 F1 B1 1: F0 F1 B0 B1", 2),
      "s:1: schedule @x: units wait for ever: position 0 is at B0@0 and waits "
      "for "
      "B0@1, position 1 is at F1@1 and waits for F1@0; move what is waited for "
      "before what waits");
  EXPECT_EQ(
      verify_message("0: B0 F0 1: F0 B0"),
      "s:1: schedule @x: units wait for ever: position 0 is at B0@0 and waits "
      "for "
      "F0@0, position 1 is at F0@1 and waits for F0@0; move what is waited for "
      "before what waits");
}

TEST(PipelineSchedule, MessagesNameTheLineOfThePosition) {
  EXPECT_EQ(
      verify_message("\n0: F0 B0\n1: F0 B0 F0\n"),
      "s:3: schedule @x: F0@1 stands twice; leave one out");
  EXPECT_EQ(
      verify_message("\n0: F0 B0\n1: B0 F0\n"),
      "s:2: schedule @x: units wait for ever: position 0 is at B0@0 and waits "
      "for B0@1, position 1 is at B0@1 and waits for F0@1; move what is waited "
      "for before what waits");
  // One that was made and not read has no lines.
  Schedule schedule = made("gpipe", 2, 1);
  schedule.order[0].clear();
  EXPECT_EQ(
      message_of([&] { verify(schedule); }),
      "schedule @gpipe: F0@0 is missing; every stage has F and B for every "
      "part");
}

TEST(PipelineSchedule, FewerMicroBatchesKeepTheirOrder) {
  for (const std::string& name : schedule_names()) {
    for (const int64_t slices : {1, 2}) {
      const Schedule all = made(name, 3, 5, slices);
      const Schedule some = first_micro_batches(all, 2);
      verify(some);
      EXPECT_EQ(some.micro_batches, 2);
      EXPECT_EQ(first_micro_batches(all, 5), all);
    }
  }
  EXPECT_EQ(
      print(first_micro_batches(made("1f1b", 2, 3), 2)),
      "schedule @1f1b {\n"
      "  stages 2\n"
      "  micro_batches 2\n"
      "  0: F0 F1 B0 B1\n"
      "  1: F0 B0 F1 B1\n"
      "}\n");
}

// At no moment is more in flight than is said, and at some moment as much, but
// that in a V no less is known than all.
TEST(Schedule, SaysHowManyAreInFlight) {
  for (const std::string& name : schedule_names()) {
    for (const int64_t positions : {1, 2, 3, 4, 8}) {
      for (const int64_t micro_batches : {1, 2, 3, 4, 7, 8, 16, 30}) {
        const ScheduleShape shape = {
            .positions = positions,
            .stages = positions * stages_per_position(name),
            .micro_batches = micro_batches};
        const Schedule schedule = make_schedule(name, shape);
        const bool has_weights = has_weight_units(schedule);
        for (int64_t position = 0; position < positions; ++position) {
          InFlight found;
          int64_t forward = 0;
          int64_t waiting = 0;
          for (const Unit& unit :
               schedule.order[static_cast<size_t>(position)]) {
            forward += unit.kind == UnitKind::Forward    ? 1
                       : unit.kind == UnitKind::Backward ? -1
                                                         : 0;
            if (has_weights) {
              waiting += unit.kind == UnitKind::Backward ? 1
                         : unit.kind == UnitKind::Weight ? -1
                                                         : 0;
            }
            found.forward = std::max(found.forward, forward);
            found.waiting = std::max(found.waiting, waiting);
            found.in_all = std::max(found.in_all, forward + waiting);
          }
          const InFlight said = most_in_flight(name, shape, position);
          const std::string where = cat(
              name, " ", position, " of ", positions, " with ", micro_batches);
          EXPECT_EQ(said.in_all, found.in_all) << where;
          if (name != "zb-v") {
            EXPECT_EQ(said.forward, found.forward) << where;
          }
          EXPECT_GE(said.forward, found.forward) << where;
          EXPECT_GE(said.waiting, found.waiting) << where;
          EXPECT_LE(said.waiting, has_weights ? said.in_all : 0) << where;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
