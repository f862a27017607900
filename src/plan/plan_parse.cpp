// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "graph/most_ranks.h"
#include "plan/plan.h"

#include <filesystem>

namespace weft {
namespace {

bool is_pattern_char(char c) { return is_name_char(c) || c == '*'; }

class PlanParser {
 public:
  PlanParser(std::string_view text, const std::string& source)
      : scanner_(text, source),
        folder_(std::filesystem::path(source).parent_path()) {}

  Plan run() {
    plan_.where = line();
    scanner_.expect("plan");
    scanner_.expect("@");
    plan_.graph = scanner_.expect_run(is_name_char, "the name of a graph");
    scanner_.expect("on");
    plan_.mesh = parse_mesh(scanner_);
    if (scanner_.take("in")) {
      plan_.time = parse_mesh(scanner_);
    }
    scanner_.expect("{");
    while (take_setting()) {
    }
    while (!scanner_.take("}")) {
      take_decision();
    }
    if (!scanner_.at_end()) {
      scanner_.fail_expected("the end after '}'");
    }
    return std::move(plan_);
  }

 private:
  // Of the next token: where() without the column.
  std::string line() {
    const std::string where = scanner_.where();
    return where.substr(0, where.rfind(':'));
  }

  bool take_setting() {
    const std::string where = line();
    if (scanner_.take("local")) {
      scanner_.expect("batch_norm");
      plan_.local_batch_norm = true;
      return true;
    }
    if (scanner_.take("seats")) {
      plan_.seats = expect_integer(
          scanner_,
          "seats, how many times an even share has room,",
          {1, kMostMeshRanks});
      return true;
    }
    if (scanner_.take("schedule")) {
      take_schedule();
      return true;
    }
    if (scanner_.take("stage")) {
      plan_.stages.push_back({pattern(), where});
      if (scanner_.take("on")) {
        plan_.stages.back().mesh = parse_mesh(scanner_);
      }
      return true;
    }
    if (scanner_.take("keep")) {
      const int64_t stage =
          expect_integer(scanner_, "the stage of keep", {0, kMostMeshRanks});
      plan_.keeps.push_back({stage, pattern(), where});
      return true;
    }
    if (scanner_.take("recompute")) {
      if (scanner_.take("cheap")) {
        plan_.recompute_cheap = true;
      } else if (scanner_.take("collectives")) {
        plan_.recompute_collectives = true;
      } else if (scanner_.looking_at("%")) {
        plan_.recompute.push_back({pattern(), where});
      } else {
        scanner_.fail_expected("'cheap', 'collectives' or '%' and a pattern");
      }
      return true;
    }
    return false;
  }

  void take_schedule() {
    plan_.schedule = Plan().schedule;
    plan_.own_schedule.reset();
    if (scanner_.looking_at("@")) {
      plan_.own_schedule = parse_schedule(scanner_);
    } else if (scanner_.peek() == '"') {
      const size_t mark = scanner_.mark();
      const std::string file = scanner_.expect_string();
      const std::string path = (folder_ / file).string();
      if (!std::filesystem::exists(path)) {
        scanner_.fail_at(
            mark,
            cat("there is no file ",
                path,
                "; a path is from the folder of the plan on"));
      }
      plan_.own_schedule = read_schedule(path);
    } else {
      plan_.schedule = scanner_.expect_run(
          is_name_char, "a schedule's name, \"FILE\", or '@' and its own text");
    }
  }

  void take_decision() {
    if (!scanner_.looking_at("%")) {
      scanner_.fail_expected(
          plan_.decisions.empty()
              ? "'local batch_norm', 'seats N', 'schedule NAME', "
                "'stage %pattern', "
                "'keep N %pattern', 'recompute cheap', 'recompute %pattern', "
                "or '%' and a decision"
              : "'%' and a decision (settings stand before the first one), or "
                "'}'");
    }
    Decision decision;
    decision.where = line();
    decision.pattern = pattern();
    decision.layout = parse_layout(scanner_);
    if (scanner_.take("compute")) {
      decision.compute = parse_layout(scanner_);
    }
    plan_.decisions.push_back(std::move(decision));
  }

  std::string pattern() {
    scanner_.expect("%");
    return std::string(scanner_.expect_run(
        is_pattern_char, "the name of a value or a pattern"));
  }

  Scanner scanner_;
  // Of the text, where there is one.
  const std::filesystem::path folder_;
  Plan plan_;
};

}  // namespace

Plan parse_plan(std::string_view text, const std::string& source) {
  return PlanParser(text, source).run();
}

}  // namespace weft
