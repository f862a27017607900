// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/most_ranks.h"
#include "simulate/gpt_run.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

// Beyond any model and machine. What is made for each layer, stage and part
// then has room, and the checks of products see no overflow.
constexpr int64_t kMostLayers = 100'000;
constexpr int64_t kMostSize = 1'000'000'000;
constexpr int64_t kMostUnits = 10'000'000;

struct Column {
  std::string_view name;
  int64_t GptRun::*field;
  bool is_needed;
  int64_t most;
};

constexpr Column kColumns[] = {
    {"global_batch", &GptRun::global_batch, true, kMostSize},
    {"micro_batch", &GptRun::micro_batch, true, kMostSize},
    {"hidden", &GptRun::hidden, true, kMostSize},
    {"heads", &GptRun::heads, true, kMostSize},
    {"layers", &GptRun::layers, true, kMostLayers},
    {"sequence", &GptRun::sequence, true, kMostSize},
    {"tensor", &GptRun::tensor, true, kMostMeshRanks},
    {"data", &GptRun::data, true, kMostMeshRanks},
    {"pipeline", &GptRun::pipeline, true, kMostMeshRanks},
    {"vocabulary", &GptRun::vocabulary, false, kMostSize},
    {"stages_per_position", &GptRun::stages_per_position, false, kMostLayers},
};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  return text;
}

// Cells by the name of their column.
using Cells = std::map<std::string, std::string>;

// What its calls count in bytes and multiply-adds, and what its schedule has
// for every stage and micro-batch.
void check_size(const GptRun& run, const std::string& where) {
  // The largest number that one of these is multiplied by.
  constexpr int64_t kRoom = 1000;
  const int64_t columns = std::max(run.hidden, run.vocabulary);
  for (const auto& size :
       {checked_product(
            {run.micro_batch, run.sequence, run.hidden, columns, kRoom}),
        checked_product(
            {run.micro_batch, run.sequence, run.sequence, run.hidden, kRoom}),
        checked_product(
            {run.layers, run.hidden, run.hidden + run.vocabulary, kRoom})}) {
    WEFT_CHECK_USER(
        size.has_value(),
        where,
        ": a step of so many tokens, of such a size, is more than can be "
        "counted: give smaller numbers");
  }
  const auto units =
      checked_product({run.layers, run.global_batch / run.micro_batch});
  WEFT_CHECK_USER(
      units && *units <= kMostUnits * run.data,
      where,
      ": a pipeline with so many micro-batches is more than can be played "
      "through: give a smaller global_batch, or a larger micro_batch");
}

void check_run(
    const GptRun& run, const Cells& cells, const std::string& where) {
  const auto divides = [&](int64_t part, int64_t whole, std::string_view what) {
    WEFT_CHECK_USER(
        whole % part == 0, where, ": ", what, ": ", part, " and ", whole);
  };
  WEFT_CHECK_USER(
      checked_product({run.tensor, run.data, run.pipeline})
              .value_or(kMostMeshRanks + 1) <= kMostMeshRanks,
      where,
      ": tensor x data x pipeline is more than ",
      with_commas(kMostMeshRanks),
      " ranks");
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
  check_size(run, where);
  const auto gpus = cells.find("gpus");
  if (gpus != cells.end()) {
    WEFT_CHECK_USER(
        expect_integer(
            gpus->second, cat(where, ": gpus"), {1, kMostMeshRanks}) ==
            rank_count(run),
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
      run.*column.field = expect_integer(
          cell->second, cat(where, ": ", column.name), {1, column.most});
    }
  }
  const auto measured = cells.find("iteration_ms");
  if (measured != cells.end()) {
    run.measured_seconds = 1e-3 * expect_number(
                                      measured->second,
                                      cat(where, ": iteration_ms"),
                                      NumberRange::Positive);
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
