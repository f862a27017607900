// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "graph/graph.h"
#include "plan/schedule.h"

namespace weft {
namespace {

constexpr std::string_view kKindLetters = "FBW";
// Of stages, micro-batches and slices each: their products are no overflow.
constexpr int64_t kMostOfEach = 1'000'000;

char letter_of(UnitKind kind) {
  return kKindLetters.at(static_cast<size_t>(kind));
}

std::string part_text(const Schedule& schedule, int64_t part) {
  if (schedule.slices == 1) {
    return cat(part);
  }
  return cat(part / schedule.slices, ".", part % schedule.slices);
}

bool is_unit_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c >= '0' && c <= '9') || c == '.' || c == '@';
}

class ScheduleParser {
 public:
  explicit ScheduleParser(Scanner& scanner) : scanner_(scanner) {}

  Schedule run() {
    schedule_.where = line();
    scanner_.expect("@");
    schedule_.name = scanner_.expect_run(is_name_char, "a name");
    scanner_.expect("{");
    scanner_.expect("stages");
    schedule_.stages = size("stages");
    scanner_.expect("micro_batches");
    schedule_.micro_batches = size("micro_batches");
    if (scanner_.take("slices")) {
      schedule_.slices = size("slices");
    }
    while (!scanner_.take("}")) {
      take_position();
    }
    return std::move(schedule_);
  }

 private:
  // Of the next token: where() without the column.
  std::string line() {
    const std::string where = scanner_.where();
    return where.substr(0, where.rfind(':'));
  }

  int64_t size(std::string_view what) {
    return expect_integer(scanner_, what, {1, kMostOfEach});
  }

  void take_position() {
    const auto position = static_cast<int64_t>(schedule_.order.size());
    if (scanner_.peek() < '0' || scanner_.peek() > '9') {
      scanner_.fail_expected(cat("'", position, ":' and its units, or '}'"));
    }
    const size_t mark = scanner_.mark();
    schedule_.position_where.push_back(line());
    const int64_t found = scanner_.expect_int();
    if (found != position) {
      scanner_.fail_at(
          mark,
          cat("expected the line of position ",
              position,
              ", found that of ",
              found,
              "; positions stand in order, each once"));
    }
    scanner_.expect(":");
    schedule_.order.emplace_back();
    while (kKindLetters.find(scanner_.peek()) != std::string_view::npos) {
      schedule_.order.back().push_back(take_unit(position));
    }
  }

  Unit take_unit(int64_t position) {
    const size_t mark = scanner_.mark();
    const std::string token(scanner_.expect_run(is_unit_char, "a unit"));
    std::string_view rest = token;
    Unit unit;
    unit.kind = static_cast<UnitKind>(kKindLetters.find(rest.front()));
    rest.remove_prefix(1);
    const int64_t micro_batch = number(rest, mark, token);
    int64_t slice = 0;
    if (schedule_.slices > 1) {
      take(rest, '.', mark, token);
      slice = number(rest, mark, token);
    }
    unit.stage = position;
    if (!rest.empty()) {
      take(rest, '@', mark, token);
      unit.stage = number(rest, mark, token);
    }
    if (!rest.empty()) {
      fail_form(mark, token);
    }
    check_below(
        "micro-batch", micro_batch, schedule_.micro_batches, mark, token);
    check_below("slice", slice, schedule_.slices, mark, token);
    check_below("stage", unit.stage, schedule_.stages, mark, token);
    unit.part = micro_batch * schedule_.slices + slice;
    return unit;
  }

  void check_below(
      std::string_view what,
      int64_t found,
      int64_t end,
      size_t mark,
      const std::string& token) {
    if (found >= end) {
      scanner_.fail_at(
          mark,
          cat(token,
              " is of ",
              what,
              " ",
              found,
              ", and the last one is ",
              end - 1));
    }
  }

  int64_t number(
      std::string_view& rest, size_t mark, const std::string& token) {
    const std::optional<int64_t> value = take_integer(rest);
    if (!value || *value < 0) {
      fail_form(mark, token);
    }
    return *value;
  }

  void take(
      std::string_view& rest, char c, size_t mark, const std::string& token) {
    if (rest.empty() || rest.front() != c) {
      fail_form(mark, token);
    }
    rest.remove_prefix(1);
  }

  [[noreturn]] void fail_form(size_t mark, const std::string& token) {
    scanner_.fail_at(
        mark,
        cat("expected a unit such as ",
            schedule_.slices > 1
                ? "F0.1, or F0.1@2 (micro-batch, slice and stage)"
                : "F0, or F0@2 (micro-batch and stage)",
            ", found ",
            quote(token)));
  }

  Scanner& scanner_;
  Schedule schedule_;
};

}  // namespace

std::string print(
    const Schedule& schedule, const Unit& unit, int64_t position) {
  std::string text = cat(letter_of(unit.kind), part_text(schedule, unit.part));
  return unit.stage == position ? text : cat(text, "@", unit.stage);
}

std::string print(const Schedule& schedule) {
  std::string text =
      cat("schedule @",
          schedule.name,
          " {\n  stages ",
          schedule.stages,
          "\n  micro_batches ",
          schedule.micro_batches,
          "\n");
  if (schedule.slices != 1) {
    text += cat("  slices ", schedule.slices, "\n");
  }
  for (size_t at = 0; at < schedule.order.size(); ++at) {
    const auto position = static_cast<int64_t>(at);
    text += cat("  ", position, ":");
    // A position with several stages names them all, its own number too.
    bool one_stage = true;
    for (const Unit& unit : schedule.order[at]) {
      one_stage &= unit.stage == position;
    }
    for (const Unit& unit : schedule.order[at]) {
      text += " " + print(schedule, unit, one_stage ? position : kNoPosition);
    }
    text += "\n";
  }
  return text + "}\n";
}

Schedule parse_schedule(Scanner& scanner) {
  return ScheduleParser(scanner).run();
}

Schedule parse_schedule(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  scanner.expect("schedule");
  Schedule schedule = parse_schedule(scanner);
  if (!scanner.at_end()) {
    scanner.fail_expected("the end after '}'");
  }
  return schedule;
}

Schedule read_schedule(const std::string& path) {
  Schedule schedule = parse_schedule(read_file(path), path);
  verify(schedule);
  return schedule;
}

}  // namespace weft
