// SPDX-License-Identifier: Apache-2.0
#include "execute/executor.h"

#include "aten/outside_of_modes.h"
#include "base/error.h"
#include "execute/executor_builder.h"
#include "execute/explain_lookup.h"
#include "execute/flight_record.h"
#include "execute/guard.h"
#include "program/live_bytes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace weft {

std::string resident_name(const Input& input) {
  return cat(name(input.kind), "/", input.keys.front());
}

Executor::Executor(
    const Program& program,
    int64_t rank,
    World* world,
    Arena& arena,
    uint64_t seed)
    : program_(program),
      block_(block_of(program, rank)),
      rank_(rank),
      world_(world) {
  ExecutorBuilder builder(program, rank, world, arena, seed, *this);
  builder.build();
}

Executor::~Executor() = default;

void Executor::mark_in(FlightRecord& record) {
  record_ = &record;
  first_name_ = record.add(program_, rank_);
}

void Executor::run(int64_t step) { run_actions(step, nullptr); }

Timeline Executor::run_timed(int64_t step) {
  StepClock clock;
  clock.events.resize(block_.instructions.size());
  clock.begin = std::chrono::steady_clock::now();
  run_actions(step, &clock);
  const std::vector<int64_t> live = live_bytes(block_);
  Timeline timeline;
  timeline.program = program_.name;
  timeline.events = std::move(clock.events);
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    Event& event = timeline.events[i];
    event.rank = rank_;
    event.instruction = static_cast<int64_t>(i);
    event.label = label(block_, block_.instructions[i]);
    event.live_bytes = live[i];
    if (std::holds_alternative<Start>(block_.instructions[i])) {
      event.stream = Stream::Communication;
    }
  }
  return timeline;
}

void Executor::run_actions(int64_t step, StepClock* clock) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const OutsideOfModes outside;
  step_.store(step, std::memory_order_relaxed);
  put_aside();
  for (size_t i = 0; i < actions_.size(); ++i) {
    instruction_.store(static_cast<int64_t>(i), std::memory_order_relaxed);
    if (clock != nullptr) {
      clock->events[i].start_seconds = clock->now_seconds();
    }
    if (actions_[i]) {
      if (record_ != nullptr) {
        record_->mark(first_name_ + static_cast<uint32_t>(i), step);
      }
      const int64_t overflow_before = meter_.overflow_bytes;
      try {
        actions_[i](step, clock);
        if (meter_.overflow_bytes > overflow_before) {
          overflow_at_ = i;
        }
      } catch (const c10::Error& error) {
        stack_.clear();
        fail(i, cat(error.what_without_backtrace(), explained(i)));
      } catch (const GuardFailed& error) {
        stack_.clear();
        put_back(i);
        throw GuardFailed(named(i, error.what()));
      } catch (const UserError& error) {
        stack_.clear();
        fail(i, error.what());
      }
    }
    if (clock != nullptr) {
      clock->events[i].end_seconds =
          std::max(clock->events[i].end_seconds, clock->now_seconds());
    }
  }
}

void Executor::put_aside() {
  for (PutAside& each : put_aside_) {
    if (!each.before.defined()) {
      each.before = at::empty_like(each.tensor);
    }
    each.before.copy_(each.tensor);
  }
}

void Executor::put_back(size_t instruction) {
  // What is on its way lands first.
  for (const WaitFor& each : waits_) {
    if (each.start < instruction && each.wait > instruction) {
      actions_[each.wait](step_.load(), nullptr);
    }
  }
  for (const PutAside& each : put_aside_) {
    each.tensor.copy_(each.before);
  }
}

std::string Executor::explained(size_t instruction) const {
  const auto* call = std::get_if<Call>(&block_.instructions[instruction]);
  return call == nullptr ? ""
                         : explain_lookup(
                               block_.function,
                               block_.function.nodes[index(call->node)],
                               tensors_);
}

void Executor::fail(size_t instruction, const std::string& why) const {
  throw UserError(named(instruction, why));
}

std::string Executor::named(size_t instruction, const std::string& why) const {
  return cat(
      world_ == nullptr ? cat("rank ", rank_) : world_->rank_name(rank_),
      ", step ",
      step_.load(),
      ", instruction ",
      instruction,
      " (",
      label(block_, block_.instructions[instruction]),
      "): ",
      why);
}

int64_t Executor::taken_bytes(TransferKind kind) const {
  int64_t bytes = 0;
  for (const auto& [ranks, group] : groups_) {
    bytes += group->taken_bytes(kind);
  }
  return bytes;
}

std::string Executor::doing() const {
  const auto at = static_cast<size_t>(instruction_.load());
  return cat(
      "step ",
      step_.load(),
      ", instruction ",
      at,
      at < block_.instructions.size()
          ? cat(" (", label(block_, block_.instructions[at]), ")")
          : std::string());
}

std::string Executor::overflow() const {
  return meter_.overflow_bytes == 0
             ? std::string()
             : cat("instruction ",
                   overflow_at_,
                   " (",
                   label(block_, block_.instructions[overflow_at_]),
                   ") took ",
                   meter_.overflow_bytes,
                   " bytes more than was planned for it");
}

int64_t Executor::used_bytes() const {
  return resident_bytes(block_) +
         std::max(meter_.high_bytes, filled_end_bytes_);
}

}  // namespace weft
