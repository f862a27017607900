// SPDX-License-Identifier: Apache-2.0
#include "plan/parallel.h"

#include "base/error.h"
#include "base/number.h"
#include "graph/most_ranks.h"
#include "plan/schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

namespace weft {
namespace {

// Characters of a word in a message.
constexpr size_t kShown = 40;

constexpr const char* kWords =
    "data=N, tensor=N (or 2x2, 2x2x2), sequence, vocabulary=off, context=N, "
    "ulysses=N, expert=N, seats=N, spatial=2x2, zero=1, 2 or 3, shard=N, "
    "pipeline=N, "
    "stages=N, schedule=NAME (or FILE), micro-batches=N, "
    "slices=N (or 3:2:1, auto)";

// One word: its key, and what stands after '='.
struct Word {
  std::string key;
  std::string value;
  bool has_value = false;
};

Word word_of(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return {std::string(text), "", false};
  }
  return {
      std::string(text.substr(0, equals)),
      std::string(text.substr(equals + 1)),
      true};
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n");
  return first == std::string::npos
             ? ""
             : text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::string joined(
    const std::vector<int64_t>& sizes, const char* between = "x") {
  std::vector<std::string> parts;
  for (const int64_t size : sizes) {
    parts.push_back(cat(size));
  }
  return join(parts, between);
}

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(
      sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Of the mesh; none when there are more than any mesh has.
std::optional<int64_t> checked_rank_count(const Parallel& parallel) {
  std::vector<int64_t> sizes = {
      parallel.pipeline,
      parallel.data,
      parallel.context,
      parallel.ulysses,
      parallel.expert};
  sizes.insert(sizes.end(), parallel.tensor.begin(), parallel.tensor.end());
  sizes.insert(sizes.end(), parallel.spatial.begin(), parallel.spatial.end());
  const std::optional<int64_t> count = checked_product(sizes);
  return count && *count <= kMostMeshRanks ? count : std::nullopt;
}

class WordReader {
 public:
  explicit WordReader(std::string source) : source_(std::move(source)) {}

  void read(const Word& word, Parallel& out) {
    if (!seen_.insert(word.key).second) {
      fail(cat("the word ", word.key, " stands twice"));
    }
    if (word.key == "data") {
      out.data = number(word);
    } else if (word.key == "tensor") {
      out.tensor = numbers(word);
    } else if (word.key == "sequence") {
      out.sequence = is_on(word);
    } else if (word.key == "vocabulary") {
      out.vocabulary = is_on(word);
    } else if (word.key == "context") {
      out.context = number(word);
    } else if (word.key == "ulysses") {
      out.ulysses = number(word);
    } else if (word.key == "expert") {
      out.expert = number(word);
    } else if (word.key == "seats") {
      out.seats = number(word);
    } else if (word.key == "spatial") {
      out.spatial = numbers(word);
    } else if (word.key == "zero") {
      const int64_t level = number(word);
      if (level > 3) {
        fail(cat("zero is 1, 2 or 3, found ", level));
      }
      out.zero = static_cast<int>(level);
    } else if (word.key == "shard") {
      out.shard = number(word);
    } else if (word.key == "pipeline") {
      out.pipeline = number(word);
    } else if (word.key == "stages") {
      out.stages = number(word);
    } else if (word.key == "schedule") {
      read_schedule_word(word, out);
    } else if (word.key == "micro-batches") {
      out.micro_batches = number(word);
    } else if (word.key == "slices") {
      read_slices(word, out);
    } else {
      fail(
          cat("no word is called ",
              quote(word.key),
              "; there are ",
              kWords,
              ", with commas between"));
    }
  }

  bool has_seen(const std::string& key) const { return seen_.contains(key); }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw UserError(cat(source_, ": ", message));
  }

  bool is_on(const Word& word) const {
    if (word.has_value && word.value != "on" && word.value != "off") {
      fail(cat(word.key, " is on or off, found ", quote(word.value)));
    }
    return word.value != "off";
  }

  void read_slices(const Word& word, Parallel& out) const {
    out.slices_are_chosen = word.value == "auto";
    if (out.slices_are_chosen) {
      return;
    }
    const std::vector<int64_t> sizes = numbers(word, ':');
    const bool is_count = sizes.size() == 1;
    out.slices = is_count ? sizes.front() : static_cast<int64_t>(sizes.size());
    out.slice_shares = is_count ? std::vector<int64_t>() : sizes;
  }

  std::vector<int64_t> numbers(const Word& word, char between = 'x') const {
    std::vector<int64_t> sizes;
    for (const std::string& part : split(word.value, between)) {
      const std::optional<int64_t> size = read_integer(part);
      if (!size || *size < 1 || *size > kMostMeshRanks) {
        fail(
            cat(word.key,
                " takes a number",
                size && *size > kMostMeshRanks
                    ? cat(" of at most ", with_commas(kMostMeshRanks))
                    : "",
                ", as in ",
                word.key,
                "=2; found ",
                word.has_value ? quote(word.value.substr(0, kShown)) : "none"));
      }
      sizes.push_back(*size);
    }
    return sizes;
  }

  // A path has a dot or a slash in it, which no name has.
  void read_schedule_word(const Word& word, Parallel& out) const {
    const std::vector<std::string>& known = schedule_names();
    out.schedule = word.value;
    if (std::find(known.begin(), known.end(), word.value) != known.end()) {
      return;
    }
    if (word.value.find_first_of("./") == std::string::npos) {
      fail(
          cat("no schedule is called ",
              quote(word.value),
              "; there are ",
              join(known, ", "),
              ", and files such as mine.schedule"));
    }
    out.own_schedule = read_schedule(word.value);
  }

  int64_t number(const Word& word) const {
    const std::vector<int64_t> sizes = numbers(word);
    if (sizes.size() != 1) {
      fail(cat(word.key, " takes one number, found ", quote(word.value)));
    }
    return sizes.front();
  }

  std::string source_;
  std::set<std::string> seen_;
};

// What a schedule from a file says and no word does.
void follow_schedule(Parallel& parallel, const WordReader& words) {
  if (!parallel.own_schedule) {
    return;
  }
  if (!words.has_seen("stages")) {
    parallel.stages = parallel.own_schedule->stages;
  }
  if (!words.has_seen("micro-batches")) {
    parallel.micro_batches = parallel.own_schedule->micro_batches;
  }
  if (!words.has_seen("slices")) {
    parallel.slices = parallel.own_schedule->slices;
  }
}

void verify_own_schedule(const Parallel& parallel) {
  if (!parallel.own_schedule) {
    return;
  }
  const Schedule& own = *parallel.own_schedule;
  const auto check = [&](const char* word, int64_t given, int64_t of_schedule) {
    WEFT_CHECK_USER(
        given == of_schedule,
        parallel.schedule,
        ": schedule @",
        own.name,
        " is for ",
        word,
        "=",
        of_schedule,
        ", and here it is ",
        given,
        "; give ",
        word,
        "=",
        of_schedule,
        ", or another schedule");
  };
  check("pipeline", parallel.pipeline, static_cast<int64_t>(own.order.size()));
  check("stages", parallel.stages, own.stages);
  check("micro-batches", parallel.micro_batches, own.micro_batches);
  check("slices", parallel.slices, own.slices);
}

}  // namespace

std::string print(const Parallel& parallel) {
  std::vector<std::string> words;
  const auto add_size = [&](const char* key, int64_t size) {
    if (size > 1) {
      words.push_back(cat(key, "=", size));
    }
  };
  add_size("data", parallel.data);
  if (!parallel.tensor.empty()) {
    words.push_back(cat("tensor=", joined(parallel.tensor)));
  }
  if (parallel.sequence) {
    words.emplace_back("sequence");
  }
  if (!parallel.vocabulary) {
    words.emplace_back("vocabulary=off");
  }
  add_size("context", parallel.context);
  add_size("ulysses", parallel.ulysses);
  add_size("expert", parallel.expert);
  if (parallel.seats > 0) {
    words.push_back(cat("seats=", parallel.seats));
  }
  if (!parallel.spatial.empty()) {
    words.push_back(cat("spatial=", joined(parallel.spatial)));
  }
  if (parallel.zero > 0) {
    words.push_back(cat("zero=", parallel.zero));
  }
  add_size("shard", parallel.shard);
  add_size("pipeline", parallel.pipeline);
  // A file says it itself.
  if (!parallel.own_schedule) {
    add_size("stages", parallel.stages);
  }
  if (parallel.schedule != Parallel().schedule) {
    words.push_back(cat("schedule=", parallel.schedule));
  }
  add_size("micro-batches", parallel.micro_batches);
  if (parallel.slices_are_chosen) {
    words.emplace_back("slices=auto");
  } else if (!parallel.slice_shares.empty()) {
    words.push_back(cat("slices=", joined(parallel.slice_shares, ":")));
  } else {
    add_size("slices", parallel.slices);
  }
  return join(words, ",");
}

Parallel parse_parallel(std::string_view text, const std::string& source) {
  Parallel parallel;
  WordReader reader(source);
  for (const std::string& part : split(text, ',')) {
    const std::string word = trimmed(part);
    if (!word.empty()) {
      reader.read(word_of(word), parallel);
    }
  }
  follow_schedule(parallel, reader);
  try {
    verify(parallel);
  } catch (const UserError& error) {
    throw UserError(cat(source, ": ", error.what()));
  }
  return parallel;
}

void verify(const Parallel& parallel) {
  WEFT_CHECK_USER(
      parallel.tensor.size() <= 3,
      "tensor has one, two or three numbers, found ",
      joined(parallel.tensor));
  WEFT_CHECK_USER(
      !parallel.sequence || parallel.tensor.size() == 1,
      "sequence splits over the axis of tensor: give tensor=N, one number");
  WEFT_CHECK_USER(
      parallel.vocabulary || parallel.tensor.size() == 1,
      "vocabulary=off is about tensor: give tensor=N, or leave it out");
  WEFT_CHECK_USER(
      parallel.tensor.size() <= 1 ||
          (parallel.context == 1 && parallel.ulysses == 1 &&
           parallel.expert == 1 && parallel.spatial.empty()),
      "tensor=",
      joined(parallel.tensor),
      " goes with data, zero and shard; beside other words give one number, "
      "tensor=",
      product(parallel.tensor));
  WEFT_CHECK_USER(
      parallel.seats == 0 || parallel.expert > 1,
      "seats=",
      parallel.seats,
      " says how much room the experts of a rank have: give expert=N");
  WEFT_CHECK_USER(
      parallel.context == 1 || parallel.ulysses == 1,
      "context and ulysses both split the sequence: give one of them");
  WEFT_CHECK_USER(
      !has_slices(parallel) || (parallel.context == 1 && parallel.ulysses == 1),
      "slices and ",
      parallel.context > 1 ? "context" : "ulysses",
      " both split the sequence: give one of them");
  WEFT_CHECK_USER(
      parallel.spatial.empty() || (parallel.context == 1 &&
                                   parallel.ulysses == 1 && !parallel.sequence),
      "spatial is about images and volumes, and context, ulysses and sequence "
      "about texts: give one of them");
  WEFT_CHECK_USER(
      parallel.spatial.size() <= 3,
      "spatial has one to three numbers, found ",
      joined(parallel.spatial));
  WEFT_CHECK_USER(
      checked_rank_count(parallel).has_value(),
      print(parallel),
      " is for more than ",
      with_commas(kMostMeshRanks),
      " ranks; give smaller numbers");
  WEFT_CHECK_USER(
      parallel.zero == 0 || parallel.data > 1,
      "zero=",
      parallel.zero,
      " splits over the ranks of data: give data=N");
  WEFT_CHECK_USER(
      parallel.shard == 1 || parallel.zero > 0,
      "shard=",
      parallel.shard,
      " says over how many ranks zero splits: give zero=1, 2 or 3");
  WEFT_CHECK_USER(
      parallel.data % parallel.shard == 0,
      "shard=",
      parallel.shard,
      " must divide data=",
      parallel.data);
  verify_own_schedule(parallel);
  WEFT_CHECK_USER(
      parallel.stages == 0 || parallel.own_schedule ||
          parallel.stages % parallel.pipeline == 0,
      "stages=",
      parallel.stages,
      " must be a multiple of pipeline=",
      parallel.pipeline);
}

bool has_slices(const Parallel& parallel) {
  return parallel.slices > 1 || parallel.slices_are_chosen;
}

int64_t rank_count(const Parallel& parallel) {
  const std::optional<int64_t> count = checked_rank_count(parallel);
  WEFT_CHECK(count, "the words were not verified: ", print(parallel));
  return *count;
}

int64_t stage_count(const Parallel& parallel) {
  return parallel.stages > 0
             ? parallel.stages
             : parallel.pipeline * stages_per_position(parallel.schedule);
}

}  // namespace weft
