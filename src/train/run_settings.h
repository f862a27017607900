// SPDX-License-Identifier: Apache-2.0
// What shapes a run, as its folder keeps it in run.json, and what of it may
// change when the run goes on: one table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class WhenResumed : uint8_t {
  // A difference is said.
  MayChange,
  // A difference is refused.
  MustStay,
};

struct RunSetting {
  // A flag of weft train without its dashes; MODEL; or what a flag came to,
  // such as "samples".
  std::string_view name;
  WhenResumed rule = WhenResumed::MayChange;
  // Why it may change, or may not.
  std::string_view why;
  // Named with dashes.
  bool is_flag = true;
};

// Of weft train.
const std::vector<RunSetting>& run_settings();
// Of a script that keeps its own loop and its own data.
const std::vector<RunSetting>& script_settings();

// By name, each as JSON.
using RunValues = std::map<std::string, std::string>;

struct RunChange {
  std::string name;
  std::string was;
  std::string is;

  bool operator==(const RunChange&) const = default;
};

// In the order of the table, where both know the name and say different things.
std::vector<RunChange> changes_between(
    const std::vector<RunSetting>& table,
    const RunValues& before,
    const RunValues& now);

// "--clip-norm was 0.0, is 1.0: it counts from the next step on".
std::string explain(
    const std::vector<RunSetting>& table, const RunChange& change);

// Throws UserError that names all changes which must not be, and `way_out`;
// `what` is what goes on.
void refuse_changes(
    const std::vector<RunSetting>& table,
    const std::vector<RunChange>& changes,
    const std::string& what,
    const std::string& way_out);

// What run.json holds.
struct RunRecord {
  RunValues values;
  struct Past {
    // After which the change was made.
    int64_t step = 0;
    RunChange change;

    bool operator==(const Past&) const = default;
  };
  std::vector<Past> changes;

  bool operator==(const RunRecord&) const = default;
};

std::string print(const RunRecord& record);
// Throws UserError naming `source`: no JSON, another format or version.
RunRecord parse_run_record(const std::string& text, const std::string& source);

}  // namespace weft
