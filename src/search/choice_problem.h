// SPDX-License-Identifier: Apache-2.0
// Many choices that depend on each other two by two, made so that all of them
// together cost least: what the layouts of a step are to the search
// (layout_problem.h), without a word of what is chosen.
#pragma once

#include "search/ilp.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

struct ChoiceProblem {
  // One thing to be decided: by option, what it takes and how many bytes it
  // holds.
  struct Choice {
    std::vector<double> seconds;
    std::vector<double> bytes;
  };
  // Who needs something of what is decided elsewhere: by option of `choice`,
  // what is needed, a column of Meeting::seconds.
  struct Party {
    size_t choice = 0;
    std::vector<size_t> needs;
  };
  // Where others need what the choice `at` settles. By its option and by what
  // is needed, what that costs, once however many of the parties need the same;
  // kImpossible where it cannot be.
  struct Meeting {
    size_t at = 0;
    std::vector<std::vector<double>> seconds;
    std::vector<Party> parties;
  };
  std::vector<Choice> choices;
  std::vector<Meeting> meetings;
};

inline constexpr double kImpossible = kNoBound;

struct Chosen {
  // By choice.
  std::vector<size_t> options;
  double seconds = 0;
  double bytes = 0;
  // Nothing costs less; else time ran out.
  bool is_proved = true;
  // Linear programming gave whole numbers.
  bool is_relaxed = false;
};

// What the options cost together; seconds are kImpossible where some cannot
// meet.
Chosen cost_of(const ChoiceProblem& problem, std::vector<size_t> options);

// The options that take the least time of those that hold at most so many bytes
// together; none where none can be.
std::optional<Chosen> choose(
    const ChoiceProblem& problem,
    double most_bytes = kNoBound,
    double time_limit_seconds = 60);

}  // namespace weft
