// SPDX-License-Identifier: Apache-2.0
#include "program/timeline.h"

#include "base/error.h"
#include "base/number.h"
#include "graph/graph.h"
#include "graph/most_ranks.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace weft {

std::string_view name(Stream stream) {
  switch (stream) {
    case Stream::Compute:
      return "compute";
    case Stream::Communication:
      return "communication";
  }
  WEFT_CHECK(false, "unknown stream");
}

double step_seconds(const Timeline& timeline) {
  double seconds = 0;
  for (const Event& event : timeline.events) {
    seconds = std::max(seconds, event.end_seconds);
  }
  return seconds;
}

int64_t peak_bytes(const Timeline& timeline) {
  int64_t peak = 0;
  for (const Event& event : timeline.events) {
    peak = std::max(peak, event.live_bytes);
  }
  return peak;
}

namespace {

// Without its times: what must be the same in every run.
std::string identity(const Event& event) {
  return cat(
      "rank ",
      event.rank,
      ", ",
      name(event.stream),
      ", instruction ",
      event.instruction,
      " (",
      event.label,
      "), ",
      event.live_bytes,
      " live bytes");
}

}  // namespace

Comparison compare(const Timeline& predicted, const Timeline& measured) {
  Comparison comparison;
  comparison.predicted_seconds = step_seconds(predicted);
  comparison.measured_seconds = step_seconds(measured);
  comparison.predicted_peak_bytes = peak_bytes(predicted);
  comparison.measured_peak_bytes = peak_bytes(measured);
  const size_t common =
      std::min(predicted.events.size(), measured.events.size());
  for (size_t i = 0; i < common; ++i) {
    const std::string before = identity(predicted.events[i]);
    const std::string after = identity(measured.events[i]);
    if (before != after) {
      comparison.difference =
          cat("event ", i, ": predicted ", before, "; measured ", after);
      return comparison;
    }
  }
  if (predicted.events.size() != measured.events.size()) {
    comparison.difference =
        cat("predicted ",
            predicted.events.size(),
            " events, measured ",
            measured.events.size());
  }
  return comparison;
}

std::string print(const Comparison& comparison) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3);
  out << "instructions  "
      << (comparison.difference.empty()
              ? "the same, in the same order, with the same live bytes"
              : comparison.difference)
      << "\nstep          predicted " << comparison.predicted_seconds * 1e3
      << " ms, measured " << comparison.measured_seconds * 1e3
      << " ms, measured / predicted "
      << comparison.measured_seconds / comparison.predicted_seconds
      << "\npeak memory   predicted "
      << human_bytes(static_cast<double>(comparison.predicted_peak_bytes))
      << ", measured "
      << human_bytes(static_cast<double>(comparison.measured_peak_bytes))
      << "\n";
  return out.str();
}

std::string print(const Timeline& timeline) {
  std::string out = cat("timeline @", timeline.program, "\n");
  for (const Event& event : timeline.events) {
    out +=
        cat(event.rank,
            " ",
            name(event.stream),
            " ",
            event.instruction,
            " ",
            print_double(event.start_seconds),
            " ",
            print_double(event.end_seconds),
            " live ",
            event.live_bytes,
            " ",
            quote(event.label),
            "\n");
  }
  return out;
}

Timeline parse_timeline(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  const auto expect_seconds = [&scanner](std::string_view what) {
    return expect_number(scanner, what, NumberRange::NotNegative);
  };
  Timeline timeline;
  scanner.expect("timeline");
  scanner.expect("@");
  timeline.program = scanner.expect_run(is_name_char, "the name of a program");
  while (!scanner.at_end()) {
    Event event;
    event.rank = expect_integer(scanner, "a rank", {0, kMostMeshRanks});
    if (scanner.take("compute")) {
      event.stream = Stream::Compute;
    } else if (scanner.take("communication")) {
      event.stream = Stream::Communication;
    } else {
      scanner.fail_expected("'compute' or 'communication'");
    }
    event.instruction =
        expect_integer(scanner, "the number of an instruction", {});
    event.start_seconds = expect_seconds("when it starts");
    event.end_seconds = expect_seconds("when it ends");
    scanner.expect("live");
    event.live_bytes = expect_integer(scanner, "live bytes", {});
    event.label = scanner.expect_string();
    timeline.events.push_back(std::move(event));
  }
  return timeline;
}

void verify(const Timeline& timeline) {
  const Event* previous = nullptr;
  double compute_end = 0;
  for (const Event& event : timeline.events) {
    const auto check = [&](bool condition, std::string_view what) {
      WEFT_CHECK_USER(
          condition,
          "timeline @",
          timeline.program,
          ", ",
          identity(event),
          ": ",
          what);
    };
    const bool same_rank = previous != nullptr && previous->rank == event.rank;
    compute_end = same_rank ? compute_end : 0;
    check(
        previous == nullptr || previous->rank <= event.rank,
        "ranks are out of order");
    check(
        !same_rank || previous->instruction < event.instruction,
        "instructions are out of order");
    check(
        std::isfinite(event.start_seconds) && event.start_seconds >= 0 &&
            std::isfinite(event.end_seconds) &&
            event.end_seconds >= event.start_seconds,
        "it must not end before it starts, nor start before the step");
    check(event.live_bytes >= 0, "live bytes are negative");
    if (event.stream == Stream::Compute) {
      check(
          event.start_seconds >= compute_end,
          "it starts before the one before it has ended");
      compute_end = event.end_seconds;
    }
    previous = &event;
  }
}

}  // namespace weft
