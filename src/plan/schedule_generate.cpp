// SPDX-License-Identifier: Apache-2.0
// What there is to do at a position depends on time, so the generator plays the
// schedule through with F = B = W = 1.
#include "base/error.h"
#include "plan/schedule_recipe.h"
#include "plan/schedule_walk.h"

#include <algorithm>
#include <limits>
#include <set>

namespace weft {
namespace {

using Units = std::vector<Unit>;

// The end of the nth group of parts. A group is of whole micro-batches and of
// at least a part for every position, so that none waits for the first one to
// come round; the larger groups are first.
int64_t group_end(const ScheduleShape& shape, int64_t n) {
  const int64_t least = (shape.positions + shape.slices - 1) / shape.slices;
  const int64_t groups = std::max<int64_t>(shape.micro_batches / least, 1);
  const int64_t larger = shape.micro_batches % groups;
  return shape.slices *
         ((n + 1) * (shape.micro_batches / groups) + std::min(n + 1, larger));
}

class ScheduleGenerator {
 public:
  ScheduleGenerator(const Recipe& recipe, const ScheduleShape& shape)
      : recipe_(recipe), shape_(shape) {
    schedule_.name = recipe.name;
    schedule_.stages = shape.stages;
    schedule_.micro_batches = shape.micro_batches;
    schedule_.slices = shape.slices;
    schedule_.order.resize(static_cast<size_t>(shape.positions));
    for (int64_t position = 0; position < shape.positions; ++position) {
      Worker worker;
      worker.seat = seat_of(shape, position);
      set_orders(worker);
      workers_.push_back(std::move(worker));
    }
  }

  Schedule run() {
    UnitTable<int64_t> ends(schedule_, kNever);
    ends_ = &ends;
    std::set<int64_t> times = {0};
    while (!times.empty()) {
      const int64_t now = *times.begin();
      times.erase(times.begin());
      for (Worker& worker : workers_) {
        if (worker.free_at <= now) {
          if (const Unit* unit = choose(worker, now)) {
            times.insert(begin(worker, *unit, now));
          }
        }
      }
    }
    for (const Worker& worker : workers_) {
      WEFT_CHECK(
          worker.backwards_done == worker.backwards.size() &&
              worker.weights_done == worker.weights.size(),
          recipe_.name,
          " leaves position ",
          worker.seat.position,
          " waiting for ever");
    }
    return std::move(schedule_);
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Worker {
    Seat seat;
    // In order; the first of them are done.
    Units forwards = {};
    Units backwards = {};
    // Made as backwards are done.
    Units weights = {};
    size_t forwards_done = 0;
    size_t backwards_done = 0;
    size_t weights_done = 0;
    int64_t free_at = 0;
  };

  void set_orders(Worker& worker) {
    if (recipe_.placement == StagePlacement::Vee) {
      set_vee_orders(worker);
    } else {
      set_round_orders(worker);
    }
    if (recipe_.newest_first) {
      worker.backwards = worker.forwards;
      std::reverse(worker.backwards.begin(), worker.backwards.end());
      for (Unit& unit : worker.backwards) {
        unit.kind = UnitKind::Backward;
      }
    }
  }

  int64_t part_count() const { return shape_.micro_batches * shape_.slices; }

  // The part that goes back as the nth: micro-batches in order, slices of each
  // from the last to the first.
  int64_t backward_part(int64_t n) const {
    const int64_t slice = n % shape_.slices;
    return n - slice + (shape_.slices - 1 - slice);
  }

  // A group of parts through every stage of the position, then the next group.
  // A row is the case of one stage.
  void set_round_orders(Worker& worker) {
    const Seat& seat = worker.seat;
    int64_t first = 0;
    for (int64_t group = 0; first < part_count(); ++group) {
      const int64_t end = group_end(shape_, group);
      for (int64_t round = 0; round < seat.rounds; ++round) {
        const int64_t stage = round * seat.positions + seat.position;
        const int64_t back =
            (seat.rounds - 1 - round) * seat.positions + seat.position;
        for (int64_t n = first; n < end; ++n) {
          worker.forwards.push_back({UnitKind::Forward, stage, n});
          worker.backwards.push_back(
              {UnitKind::Backward, back, backward_part(n)});
        }
      }
      first = end;
    }
  }

  // The first stages of the V go down the positions and its second ones come
  // back up. Each position fills the time until the first part is there again
  // with forwards of its first stage, alternates while the part turns, then
  // catches up with the second stage; from there on the two alternate. Backward
  // begins with the second stage, as far as the first part has to go until its
  // gradients are back.
  void set_vee_orders(Worker& worker) {
    const int64_t position = worker.seat.position;
    const int64_t left = worker.seat.positions - position;
    std::vector<int> forwards(static_cast<size_t>(2 * left - 1), 0);
    for (int64_t i = 0; i < position; ++i) {
      forwards.insert(forwards.end(), {1, 0});
    }
    forwards.insert(forwards.end(), static_cast<size_t>(left), 1);
    const std::vector<int> backwards(static_cast<size_t>(left), 1);
    for (const auto& [half, n] : alternate(forwards)) {
      worker.forwards.push_back(
          {UnitKind::Forward, vee_stage(position, half), n});
    }
    for (const auto& [half, n] : alternate(backwards)) {
      worker.backwards.push_back(
          {UnitKind::Backward, vee_stage(position, half), backward_part(n)});
    }
  }

  int64_t vee_stage(int64_t position, int half) const {
    return half == 0 ? position : shape_.stages - 1 - position;
  }

  // All parts of both halves of the V as (half, nth part): as `begin` says, by
  // turns after that.
  std::vector<std::pair<int, int64_t>> alternate(
      const std::vector<int>& begin) const {
    std::vector<std::pair<int, int64_t>> all;
    int64_t taken[2] = {0, 0};
    const auto take = [&](int half) {
      if (taken[half] < part_count()) {
        all.emplace_back(half, taken[half]++);
      }
    };
    for (const int half : begin) {
      take(half);
    }
    while (taken[0] < part_count() || taken[1] < part_count()) {
      take(0);
      take(1);
    }
    return all;
  }

  bool is_ready(const Unit& unit, int64_t now) {
    const std::vector<Unit> needed = waits_for(schedule_, unit);
    return std::all_of(needed.begin(), needed.end(), [&](const Unit& before) {
      return ends_->at(before) <= now;
    });
  }

  // What the position does next, or nullptr: it waits.
  const Unit* choose(const Worker& worker, int64_t now) {
    const Unit* weight = worker.weights_done < worker.weights.size()
                             ? &worker.weights[worker.weights_done]
                             : nullptr;
    if (may_go_forward(worker)) {
      if (has_room(worker)) {
        const Unit& forward = worker.forwards[worker.forwards_done];
        if (is_ready(forward, now)) {
          return &forward;
        }
      } else if (weight != nullptr) {
        return weight;
      }
    }
    if (worker.backwards_done < worker.backwards.size()) {
      const Unit& backward = worker.backwards[worker.backwards_done];
      if (is_ready(backward, now)) {
        return &backward;
      }
    }
    return weight;
  }

  bool may_go_forward(const Worker& worker) const {
    const size_t in_flight = worker.forwards_done - worker.backwards_done;
    return worker.forwards_done < worker.forwards.size() &&
           static_cast<int64_t>(in_flight) < recipe_.forward_limit(worker.seat);
  }

  bool has_room(const Worker& worker) const {
    const size_t kept = worker.forwards_done - worker.weights_done;
    return recipe_.weight_limit == nullptr ||
           static_cast<int64_t>(kept) < recipe_.weight_limit(worker.seat);
  }

  // Returns when it ends.
  int64_t begin(Worker& worker, const Unit& chosen, int64_t now) {
    const Unit unit = chosen;
    const bool is_split = recipe_.weight_limit != nullptr;
    int64_t ticks = 1;
    switch (unit.kind) {
      case UnitKind::Forward:
        ++worker.forwards_done;
        break;
      case UnitKind::Backward:
        ++worker.backwards_done;
        if (is_split) {
          worker.weights.push_back({UnitKind::Weight, unit.stage, unit.part});
        } else {
          ticks = 2;
        }
        break;
      case UnitKind::Weight:
        ++worker.weights_done;
        break;
    }
    worker.free_at = now + ticks;
    ends_->at(unit) = worker.free_at;
    schedule_.order[static_cast<size_t>(worker.seat.position)].push_back(unit);
    return worker.free_at;
  }

  const Recipe& recipe_;
  const ScheduleShape& shape_;
  Schedule schedule_;
  std::vector<Worker> workers_;
  UnitTable<int64_t>* ends_ = nullptr;
};

}  // namespace

Seat seat_of(const ScheduleShape& shape, int64_t position) {
  return {
      .positions = shape.positions,
      .position = position,
      .rounds = shape.stages / shape.positions,
      .group = group_end(shape, 0),
      .more_slices = shape.slices - 1};
}

Schedule generate_schedule(const Recipe& recipe, const ScheduleShape& shape) {
  return ScheduleGenerator(recipe, shape).run();
}

}  // namespace weft
