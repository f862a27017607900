// SPDX-License-Identifier: Apache-2.0
// The Timeline: when each instruction of a Program ran on each rank, and how
// much memory was live. `simulate` and `execute` return the same type, so
// "predicted against measured" is one diff. Text form, one event a line: rank,
// stream, number of the instruction in its block, start and end, live bytes,
// and what it was.
//
//   timeline @gpt
//   0 compute 0 0.0 1.25e-05 live 4096 "%x = aten.mm"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class Stream : uint8_t {
  Compute,        // calls, waits, frees: one after the other
  Communication,  // collectives, from their start to their end
};
std::string_view name(Stream stream);

struct Event {
  int64_t rank = 0;
  Stream stream = Stream::Compute;
  int64_t instruction = 0;
  // Since the step began on that rank.
  double start_seconds = 0;
  double end_seconds = 0;
  // When the instruction had been issued: storages that a later one may read,
  // its own results included.
  int64_t live_bytes = 0;
  std::string label;

  bool operator==(const Event&) const = default;
};

struct Timeline {
  std::string program;
  // Rank by rank, in the order of the instructions.
  std::vector<Event> events;

  bool operator==(const Timeline&) const = default;
};

// The end of the last event.
double step_seconds(const Timeline& timeline);
// The most live bytes of one rank.
int64_t peak_bytes(const Timeline& timeline);

// What two runs of one program have in common. Differences in time are
// expected; in anything else, they are reasons to distrust one of the two.
struct Comparison {
  // The first event that differs in rank, stream, instruction, label or live
  // bytes, as words; empty when there is none.
  std::string difference;
  double predicted_seconds = 0;
  double measured_seconds = 0;
  int64_t predicted_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
};
Comparison compare(const Timeline& predicted, const Timeline& measured);
// A few lines for people.
std::string print(const Comparison& comparison);

std::string print(const Timeline& timeline);
// `source` names the text in messages. Throws UserError with line and column.
Timeline parse_timeline(std::string_view text, const std::string& source);
// Ranks in order, times finite and none before its start, live bytes not
// negative, compute events of a rank one after the other. Throws UserError.
void verify(const Timeline& timeline);

}  // namespace weft
