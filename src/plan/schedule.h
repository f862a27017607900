// SPDX-License-Identifier: Apache-2.0
// The Schedule of a pipeline: which position works on which part of the batch,
// in which order, as a small text that a person can read and edit.
//
//   schedule @1f1b {
//     stages 2
//     micro_batches 3
//     0: F0 F1 B0 F2 B1 B2
//     1: F0 B0 F1 B1 F2 B2
//   }
//
// A stage is a run of the model's layers. A position is a place on the pipeline
// axis of the mesh; it has one stage or several. A part is what a stage works
// on at a time: a micro-batch, or a slice of one along the sequence. The text
// has one line a position. `F0@3` is stage 3's forward of micro-batch 0;
// without
// `@` the stage has the number of the position. With slices, `F2.1` is slice 1
// of micro-batch 2.
//
// Only the order is decided here, never a time: a position takes its units one
// after the other and each begins once what it waits for is there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Scanner;

// F: forward. B: backward; when the schedule has W units, only the gradients
// that the stage before waits for. W: the gradients of weights.
enum class UnitKind : uint8_t { Forward, Backward, Weight };

// One stage's work on one part of the batch.
struct Unit {
  UnitKind kind = UnitKind::Forward;
  int64_t stage = 0;
  int64_t part = 0;

  bool operator==(const Unit&) const = default;
};

struct Schedule {
  std::string name;
  // Of the model; stage s is at position_of(schedule, s).
  int64_t stages = 1;
  int64_t micro_batches = 1;
  // Of each micro-batch's sequence; part = micro_batch * slices + slice.
  int64_t slices = 1;
  // For every position on the pipeline axis, its units in order.
  std::vector<std::vector<Unit>> order = {};
  // "FILE:LINE" of the text it was read from, and of each position's line, for
  // messages; else empty. Not part of ==.
  std::string where = "";
  std::vector<std::string> position_where = {};

  bool operator==(const Schedule& other) const {
    return name == other.name && stages == other.stages &&
           micro_batches == other.micro_batches && slices == other.slices &&
           order == other.order;
  }
};

// Whether backward is split in B and W.
bool has_weight_units(const Schedule& schedule);
// The position that has the stage's units. InternalError when none has.
int64_t position_of(const Schedule& schedule, int64_t stage);
// The units that must be done before `unit` begins: its own forward or
// backward, the stage before it (after it, for B), and the slice before it in
// the sequence (after it, for B). Those at other positions are what is sent.
std::vector<Unit> waits_for(const Schedule& schedule, const Unit& unit);

// The parts in the order in which the first stage goes backward: when the last
// of several has its gradients.
std::vector<int64_t> backward_order(const Schedule& schedule);

struct ScheduleShape {
  int64_t positions = 1;
  int64_t stages = 1;
  int64_t micro_batches = 1;
  int64_t slices = 1;
};

// One of schedule_names(), for any number of micro-batches and slices. Throws
// UserError that says what would do, for a name or a number of stages that is
// not possible.
Schedule make_schedule(std::string_view name, const ScheduleShape& shape);
const std::vector<std::string>& schedule_names();
// How many stages a position has at the least where it has several, else 1.
int64_t stages_per_position(std::string_view name);

// Pairs of stage and part at a position, at the most.
struct InFlight {
  // Gone forward and not back: all that backward reads of them is kept.
  int64_t forward = 0;
  // Gone forward, and whose last unit is not done.
  int64_t in_all = 0;
  // Of these, gone back, and waiting for W; where a position has several stages
  // no more is known than that it is no more than all of them.
  int64_t waiting = 0;
};
// Of the schedule that make_schedule makes.
InFlight most_in_flight(
    std::string_view name, const ScheduleShape& shape, int64_t position);

std::string print(const Schedule& schedule);
// No stage has it: a unit printed there names its stage.
constexpr int64_t kNoPosition = -1;
// As in the text, when it stands in the line of `position`.
std::string print(const Schedule& schedule, const Unit& unit, int64_t position);
// `source` names the text in messages. Throws UserError with line and column.
Schedule parse_schedule(std::string_view text, const std::string& source);
// As it stands inside another text, after the word `schedule` and up to its
// '}'.
Schedule parse_schedule(Scanner& scanner);
// Of a file, verified.
Schedule read_schedule(const std::string& path);

// Without the micro-batches from `count` on, for a batch that has fewer rows:
// the others keep their order.
Schedule first_micro_batches(Schedule schedule, int64_t count);

// Every unit of every stage and part once, all of a stage's at one position, W
// for all or for none; and no unit waits for ever. Throws UserError with the
// line, if there is one, and the units at fault.
void verify(const Schedule& schedule);

// Of one unit, in any unit of time.
struct UnitCosts {
  double forward = 1;
  // Without the gradients of weights when the schedule has W units.
  double backward = 2;
  double weight = 0;
  // From one position to another; overlaps with computing.
  double transfer = 0;
};

struct ScheduleRun {
  // When each unit begins, as in Schedule::order.
  std::vector<std::vector<double>> starts;
  // From the first unit's start to the last one's end.
  double seconds = 0;
  // Of all positions' time in `seconds`, what they do not work.
  double idle_share = 0;
  // From step to step, if no position waits for the others between steps: the
  // longest that one position takes from its first unit to its last.
  double step_seconds = 0;
  // As idle_share, of `step_seconds`.
  double step_idle_share = 0;
  // At each position, the most pairs of stage and part whose forward is done
  // and whose last unit is not: what activations are kept for.
  std::vector<int64_t> most_in_flight;
};

// Every position goes through its order as fast as it can. The schedule is one
// that verify() accepts.
ScheduleRun run_schedule(const Schedule& schedule, const UnitCosts& costs);

// What a drawing is made with: F takes 1, B 2 or, beside W, 1 each.
UnitCosts drawing_costs(const Schedule& schedule);

// The run as a picture, a line a position and time to the right; one unit of
// time is as wide as the longest name. A dot is a unit of time without work.
// The second stage of a position, the fourth and so on are in small letters.
std::string draw(const Schedule& schedule, const UnitCosts& costs);

}  // namespace weft
