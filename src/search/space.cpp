// SPDX-License-Identifier: Apache-2.0
#include "search/space.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/most_ranks.h"
#include "plan/schedule.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace weft {
namespace {

constexpr std::string_view kWords[] = {
    "data",
    "tensor",
    "sequence",
    "context",
    "expert",
    "seats",
    "zero",
    "pipeline",
    "schedule",
    "stages",
    "micro-batches",
    "layouts",
    "recompute"};
// Those that the search tries; others of the kind can be fixed.
constexpr std::string_view kSchedules[] = {"1f1b", "interleaved", "zb-h1"};

void check_word(std::string_view key) {
  std::vector<std::string> known(std::begin(kWords), std::end(kWords));
  WEFT_CHECK_USER(
      std::find(known.begin(), known.end(), key) != known.end(),
      "the search does not choose ",
      quote(key),
      "; it chooses ",
      join(known, ", "));
}

std::optional<int64_t> number(const std::string& text) {
  const std::optional<int64_t> value = read_integer(text);
  return value && *value >= 0 && *value <= kMostMeshRanks ? value
                                                          : std::nullopt;
}

std::vector<int64_t> divisors(int64_t of) {
  std::vector<int64_t> out;
  for (int64_t i = 1; i <= of; ++i) {
    if (of % i == 0) {
      out.push_back(i);
    }
  }
  return out;
}

class Enumeration {
 public:
  Enumeration(
      int64_t ranks,
      int64_t ranks_a_node,
      int64_t rows,
      const SearchLimits& limits,
      int64_t experts)
      : ranks_(ranks),
        node_(ranks_a_node),
        rows_(rows),
        limits_(limits),
        experts_(experts) {}

  std::vector<Candidate> run() {
    for (const int64_t pipeline : divisors(ranks_)) {
      for (const int64_t tensor : divisors(ranks_ / pipeline)) {
        const bool is_far = tensor > node_ && !limits_.fixed.contains("tensor");
        if (!is_far && allows("pipeline", pipeline) &&
            allows("tensor", tensor)) {
          add_meshes(pipeline, tensor);
        }
      }
    }
    return std::move(out_);
  }

 private:
  // Experts are shared within a node, beside what `tensor` takes of it: what
  // they exchange is as much as that is.
  std::vector<int64_t> expert_counts(int64_t tensor) const {
    if (limits_.fixed.contains("expert")) {
      return {fixed_number("expert", 1)};
    }
    std::vector<int64_t> out;
    for (const int64_t count : divisors(experts_)) {
      if (count == 1 ||
          (count * tensor <= node_ && !limits_.forbidden.contains("expert"))) {
        out.push_back(count);
      }
    }
    return out;
  }

  void add_meshes(int64_t pipeline, int64_t tensor) {
    const int64_t context = fixed_number("context", 1);
    const int64_t rest = ranks_ / pipeline / tensor;
    for (const int64_t expert : expert_counts(tensor)) {
      if (rest % (context * expert) != 0) {
        continue;
      }
      const int64_t data = rest / context / expert;
      if (!allows("data", data)) {
        continue;
      }
      now_ = {};
      now_.words.pipeline = pipeline;
      now_.words.data = data;
      now_.words.context = context;
      now_.words.expert = expert;
      now_.words.seats = expert > 1 ? fixed_number("seats", 0) : 0;
      if (tensor > 1) {
        now_.words.tensor = {tensor};
      }
      add_sequences();
    }
  }

  int64_t fixed_number(const std::string& key, int64_t otherwise) const {
    const auto at = limits_.fixed.find(key);
    return at == limits_.fixed.end() ? otherwise
                                     : number(at->second).value_or(otherwise);
  }

  bool allows(const std::string& key, int64_t value) const {
    return fixed_number(key, value) == value &&
           (value == 1 || !limits_.forbidden.contains(key));
  }

  bool allows(const std::string& key, std::string_view value) const {
    const auto at = limits_.fixed.find(key);
    return at == limits_.fixed.end() || at->second == value;
  }

  void add_sequences() {
    for (const bool sequence : {false, true}) {
      if (sequence && (now_.words.tensor.empty() ||
                       limits_.forbidden.contains("sequence"))) {
        continue;
      }
      if (!allows("sequence", sequence ? "on" : "off") &&
          !(now_.words.tensor.empty() && !sequence)) {
        continue;
      }
      now_.words.sequence = sequence;
      add_zeros();
    }
  }

  void add_zeros() {
    for (int zero = 0; zero <= 3; ++zero) {
      const bool is_idle = zero > 0 && now_.words.data == 1;
      const int64_t wanted = fixed_number("zero", zero);
      const bool is_wanted =
          wanted == zero || (now_.words.data == 1 && zero == 0);
      if (is_idle || !is_wanted ||
          (zero > 0 && limits_.forbidden.contains("zero"))) {
        continue;
      }
      now_.words.zero = zero;
      add_micro_batches();
    }
  }

  void add_micro_batches() {
    const int64_t parts = now_.words.data * now_.words.expert;
    if (rows_ % parts != 0) {
      return;
    }
    const int64_t rows = rows_ / parts;
    std::vector<int64_t> counts = divisors(rows);
    std::reverse(counts.begin(), counts.end());
    for (const int64_t micro : counts) {
      // Of 1, 2, 4 and so on rows, or of all of them.
      const bool is_usual =
          micro == 1 ||
          std::has_single_bit(static_cast<uint64_t>(rows / micro));
      if (!allows("micro-batches", micro) ||
          (!is_usual && !limits_.fixed.contains("micro-batches"))) {
        continue;
      }
      now_.words.micro_batches = micro;
      add_schedules();
    }
  }

  void add_schedules() {
    const int64_t pipeline = now_.words.pipeline;
    now_.words.stages = 0;
    if (pipeline == 1) {
      now_.words.schedule = Parallel().schedule;
      if (allows("stages", 1)) {
        add_policies();
      }
      return;
    }
    std::vector<std::string> names(
        std::begin(kSchedules), std::end(kSchedules));
    const auto at = limits_.fixed.find("schedule");
    if (at != limits_.fixed.end()) {
      names = {at->second};
    }
    for (const std::string& schedule : names) {
      if (limits_.forbidden.contains("schedule") &&
          schedule != Parallel().schedule) {
        continue;
      }
      // In turns of as many micro-batches as there are positions.
      if (schedule == "interleaved" &&
          now_.words.micro_batches % pipeline != 0) {
        continue;
      }
      const int64_t usual = pipeline * stages_per_position(schedule);
      const int64_t stages = fixed_number("stages", usual);
      const bool can_be = schedule == "interleaved"
                              ? stages >= usual && stages % pipeline == 0
                              : stages == usual;
      if (!can_be) {
        continue;
      }
      now_.words.schedule = schedule;
      now_.words.stages = stages == usual ? 0 : stages;
      add_policies();
    }
  }

  void add_policies() {
    for (const RecomputePolicy policy : kRecomputePolicies) {
      if (!allows("recompute", name(policy)) ||
          (limits_.forbidden.contains("recompute") &&
           policy != RecomputePolicy::None)) {
        continue;
      }
      now_.recompute = policy;
      now_.may_mix = !limits_.fixed.contains("recompute") &&
                     !limits_.forbidden.contains("recompute") &&
                     policy != RecomputePolicy::Full &&
                     policy != RecomputePolicy::None;
      out_.push_back(now_);
    }
  }

  const int64_t ranks_;
  const int64_t node_;
  const int64_t rows_;
  const SearchLimits& limits_;
  const int64_t experts_;
  Candidate now_;
  std::vector<Candidate> out_;
};

}  // namespace

void fix_word(SearchLimits& limits, std::string_view word) {
  const size_t equals = word.find('=');
  const std::string key(word.substr(0, equals));
  std::string value(
      equals == std::string_view::npos ? "on" : word.substr(equals + 1));
  check_word(key);
  if (key == "recompute") {
    WEFT_CHECK_USER(
        recompute_policy(value).has_value(),
        "recompute is none, cheap, selective or full, not ",
        quote(value));
  } else if (key == "sequence") {
    WEFT_CHECK_USER(
        value == "on" || value == "off",
        "sequence is on or off, not ",
        quote(value));
  } else if (key == "layouts") {
    WEFT_CHECK_USER(
        value == "words" || value == "searched",
        "layouts is words or searched, not ",
        quote(value));
  } else if (key == "schedule") {
    const std::vector<std::string>& known = schedule_names();
    WEFT_CHECK_USER(
        std::find(known.begin(), known.end(), value) != known.end(),
        "no schedule is called ",
        quote(value),
        "; there are ",
        join(known, ", "));
  } else {
    WEFT_CHECK_USER(
        number(value).has_value() && (key == "zero" || *number(value) > 0),
        key,
        " takes a number, as in ",
        key,
        "=2; found ",
        quote(value));
  }
  const auto [at, is_new] = limits.fixed.emplace(key, value);
  WEFT_CHECK_USER(
      is_new || at->second == value,
      key,
      " cannot be both ",
      at->second,
      " and ",
      value);
}

void forbid_word(SearchLimits& limits, std::string_view word) {
  check_word(word);
  WEFT_CHECK_USER(
      word != "data", "data cannot be forbidden; fix it, as in data=1");
  WEFT_CHECK_USER(
      word != "stages", "stages cannot be forbidden; forbid pipeline");
  limits.forbidden.emplace(word);
}

namespace {

// A word that says how others are used, where these are kept at 1.
void verify_needed(
    const SearchLimits& limits,
    const std::string& word,
    const std::string& unused,
    const std::string& needed) {
  const auto of = limits.fixed.find(word);
  const auto at = limits.fixed.find(needed);
  const bool is_one = limits.forbidden.contains(needed) ||
                      (at != limits.fixed.end() && at->second == "1");
  WEFT_CHECK_USER(
      of == limits.fixed.end() || of->second == unused || !is_one,
      word,
      "=",
      of->second,
      " is asked for, which needs ",
      needed,
      " above 1, and ",
      limits.forbidden.contains(needed) ? cat(needed, " is forbidden")
                                        : cat(needed, "=1 is, too"),
      "; leave one of them out");
}

}  // namespace

void verify(const SearchLimits& limits, int64_t ranks) {
  verify_needed(limits, "zero", "0", "data");
  verify_needed(limits, "sequence", "off", "tensor");
  verify_needed(limits, "layouts", "words", "tensor");
  verify_needed(limits, "schedule", "", "pipeline");
  verify_needed(limits, "stages", "1", "pipeline");
  verify_needed(limits, "seats", "0", "expert");
  int64_t product = 1;
  std::vector<std::string> sizes;
  for (const auto& [key, value] : limits.fixed) {
    WEFT_CHECK_USER(
        !limits.forbidden.contains(key) || value == "1" || value == "0" ||
            value == "words",
        key,
        "=",
        value,
        " is asked for, and ",
        key,
        " is forbidden; leave one of them out");
    const bool is_axis = key == "data" || key == "tensor" || key == "context" ||
                         key == "expert" || key == "pipeline";
    if (is_axis) {
      product = checked_product({product, *number(value)})
                    .value_or(std::numeric_limits<int64_t>::max());
      sizes.push_back(cat(key, "=", value));
    }
  }
  std::vector<std::string> near;
  for (const int64_t one : divisors(ranks)) {
    near.push_back(cat(one));
  }
  WEFT_CHECK_USER(
      ranks % product == 0,
      join(sizes, ","),
      " takes groups of ",
      product,
      " ranks, which do not go into ",
      ranks,
      " devices; sizes must multiply to one of ",
      join(near, ", "));
}

int64_t batch_rows(const Graph& graph) {
  const Function& step = step_of(graph);
  for (const Input& input : step.inputs) {
    const TensorType& type = step[input.value].type;
    if (input.kind == InputKind::Batch && !type.sizes.empty()) {
      return type.sizes.front();
    }
  }
  return 1;
}

std::vector<Candidate> candidates(
    int64_t ranks,
    int64_t ranks_a_node,
    int64_t rows,
    const SearchLimits& limits,
    int64_t experts) {
  return Enumeration(ranks, ranks_a_node, rows, limits, experts).run();
}

}  // namespace weft
