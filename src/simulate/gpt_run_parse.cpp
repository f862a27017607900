// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "simulate/gpt_run.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace weft {
namespace {

struct Column {
  std::string_view name;
  int64_t GptRun::*field;
  bool is_needed;
};

constexpr Column kColumns[] = {
    {"global_batch", &GptRun::global_batch, true},
    {"micro_batch", &GptRun::micro_batch, true},
    {"hidden", &GptRun::hidden, true},
    {"heads", &GptRun::heads, true},
    {"layers", &GptRun::layers, true},
    {"sequence", &GptRun::sequence, true},
    {"tensor", &GptRun::tensor, true},
    {"data", &GptRun::data, true},
    {"pipeline", &GptRun::pipeline, true},
    {"vocabulary", &GptRun::vocabulary, false},
    {"stages_per_position", &GptRun::stages_per_position, false},
};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  return text;
}

double number_of(const std::string& text, const std::string& where) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  WEFT_CHECK_USER(
      error == std::errc{} && end == text.data() + text.size() && value > 0,
      where,
      " must be a number above 0, found ",
      quote(text));
  return value;
}

// Cells by the name of their column.
using Cells = std::map<std::string, std::string>;

void check_run(
    const GptRun& run, const Cells& cells, const std::string& where) {
  const auto divides = [&](int64_t part, int64_t whole, std::string_view what) {
    WEFT_CHECK_USER(
        whole % part == 0, where, ": ", what, ": ", part, " and ", whole);
  };
  divides(
      run.data * run.micro_batch,
      run.global_batch,
      "data x micro_batch must divide global_batch");
  divides(
      run.pipeline * run.stages_per_position,
      run.layers,
      "pipeline x stages_per_position must divide layers");
  divides(run.tensor, run.heads, "tensor must divide heads");
  divides(run.heads, run.hidden, "heads must divide hidden");
  const auto gpus = cells.find("gpus");
  if (gpus != cells.end()) {
    WEFT_CHECK_USER(
        number_of(gpus->second, cat(where, ": gpus")) ==
            static_cast<double>(rank_count(run)),
        where,
        ": gpus is ",
        gpus->second,
        ", and tensor x data x pipeline ",
        rank_count(run));
  }
}

GptRun parse_run(const Cells& cells, const std::string& where) {
  GptRun run;
  for (const Column& column : kColumns) {
    const auto cell = cells.find(std::string(column.name));
    if (cell != cells.end()) {
      run.*column.field = static_cast<int64_t>(
          number_of(cell->second, cat(where, ": ", column.name)));
    }
  }
  const auto measured = cells.find("iteration_ms");
  if (measured != cells.end()) {
    run.measured_seconds =
        1e-3 * number_of(measured->second, cat(where, ": iteration_ms"));
  }
  check_run(run, cells, where);
  return run;
}

}  // namespace

int64_t rank_count(const GptRun& run) {
  return run.tensor * run.data * run.pipeline;
}

std::vector<GptRun> parse_gpt_runs(
    std::string_view text, const std::string& source) {
  std::vector<std::string> names;
  std::vector<GptRun> runs;
  int64_t number = 0;
  for (const std::string& raw : split(text, '\n')) {
    number += 1;
    const std::string line = trimmed(raw);
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const std::string where = cat(source, ":", number);
    const std::vector<std::string> words = split(line, ',');
    if (names.empty()) {
      names = words;
      for (const Column& column : kColumns) {
        WEFT_CHECK_USER(
            !column.is_needed ||
                std::find(names.begin(), names.end(), column.name) !=
                    names.end(),
            where,
            ": the table has no column ",
            quote(column.name));
      }
      continue;
    }
    WEFT_CHECK_USER(
        words.size() == names.size(),
        where,
        ": the row has ",
        words.size(),
        " cells, and the table ",
        names.size(),
        " columns");
    Cells cells;
    for (size_t i = 0; i < names.size(); ++i) {
      cells[names[i]] = words[i];
    }
    runs.push_back(parse_run(cells, where));
  }
  WEFT_CHECK_USER(!runs.empty(), source, ": the table has no rows");
  return runs;
}

}  // namespace weft
