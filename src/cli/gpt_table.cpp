// SPDX-License-Identifier: Apache-2.0
#include "cli/gpt_table.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "profile/text_table.h"
#include "simulate/gpt_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

constexpr int64_t kDevicesPerNode = 8;
constexpr size_t kShownRows = 12;

struct Score {
  GptRun run;
  GptSeconds predicted;
  // Predicted over measured, less 1.
  double error = 0;
};

Cluster cluster_for(const std::string& name, int64_t devices) {
  if (std::filesystem::exists(name)) {
    return load_cluster(name);
  }
  if (std::optional<Cluster> whole = cluster_preset(name)) {
    return *whole;
  }
  const int64_t nodes = (devices + kDevicesPerNode - 1) / kDevicesPerNode;
  const std::string counted =
      nodes > 1 ? cat(nodes, "x", kDevicesPerNode, "x", name)
                : cat(std::min(devices, kDevicesPerNode), "x", name);
  return *cluster_preset(counted);
}

std::vector<Score> score(
    const std::vector<GptRun>& runs, const std::string& cluster) {
  std::vector<Score> scores;
  for (const GptRun& run : runs) {
    Score scored;
    scored.run = run;
    scored.predicted = gpt_seconds(run, cluster_for(cluster, rank_count(run)));
    if (run.measured_seconds > 0) {
      scored.error = scored.predicted.step / run.measured_seconds - 1;
    }
    scores.push_back(scored);
  }
  return scores;
}

struct Errors {
  int64_t measured = 0;
  double mean_absolute = 0;
  double mean = 0;
  double worst = 0;
};

Errors errors_of(const std::vector<Score>& scores) {
  Errors errors;
  for (const Score& each : scores) {
    if (each.run.measured_seconds > 0) {
      errors.measured += 1;
      errors.mean_absolute += std::abs(each.error);
      errors.mean += each.error;
      errors.worst = std::max(errors.worst, std::abs(each.error));
    }
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, errors.measured));
  errors.mean_absolute /= count;
  errors.mean /= count;
  return errors;
}

nlohmann::json to_json(const std::vector<Score>& scores, const Errors& errors) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Score& each : scores) {
    const GptRun& run = each.run;
    nlohmann::json row = {
        {"gpus", rank_count(run)},
        {"global_batch", run.global_batch},
        {"micro_batch", run.micro_batch},
        {"hidden", run.hidden},
        {"layers", run.layers},
        {"tensor", run.tensor},
        {"data", run.data},
        {"pipeline", run.pipeline},
        {"predicted_ms", 1e3 * each.predicted.step}};
    if (run.measured_seconds > 0) {
      row["measured_ms"] = 1e3 * run.measured_seconds;
      row["error"] = each.error;
    }
    rows.push_back(std::move(row));
  }
  return {
      {"rows", scores.size()},
      {"measured_rows", errors.measured},
      {"mean_absolute_error", errors.mean_absolute},
      {"mean_error", errors.mean},
      {"worst_error", errors.worst},
      {"runs", std::move(rows)}};
}

std::string signed_percent(double share) {
  return cat(share < 0 ? "-" : "+", decimals(100 * std::abs(share), 1), " %");
}

// The rows that are furthest off.
std::string table_of(std::vector<Score> scores, const TextStyle& style) {
  std::stable_sort(
      scores.begin(), scores.end(), [](const Score& a, const Score& b) {
        return std::abs(a.error) > std::abs(b.error);
      });
  scores.resize(std::min(scores.size(), kShownRows));
  TextTable table;
  for (const char* heading :
       {"gpus",
        "batch",
        "micro",
        "hidden",
        "layers",
        "tensor",
        "data",
        "pipeline",
        "predicted",
        "bubble",
        "gradients",
        "measured",
        "error"}) {
    table.column(heading);
  }
  const auto ms = [](double seconds) {
    return cat(decimals(1e3 * seconds, 1), " ms");
  };
  for (const Score& each : scores) {
    const GptRun& run = each.run;
    const bool is_measured = run.measured_seconds > 0;
    table.row(
        {cat(rank_count(run)),
         cat(run.global_batch),
         cat(run.micro_batch),
         cat(run.hidden),
         cat(run.layers),
         cat(run.tensor),
         cat(run.data),
         cat(run.pipeline),
         ms(each.predicted.step),
         ms(each.predicted.bubble),
         ms(each.predicted.gradients),
         is_measured ? ms(run.measured_seconds) : "-",
         is_measured ? signed_percent(each.error) : "-"});
  }
  return table.print(style);
}

}  // namespace

void score_table(
    const std::string& path, const std::string& cluster, bool as_json) {
  const std::vector<Score> scores =
      score(parse_gpt_runs(read_input(path), path), cluster);
  const Errors errors = errors_of(scores);
  if (as_json) {
    write_output("-", to_json(scores, errors).dump(2) + "\n");
    return;
  }
  std::string out = table_of(scores, stdout_style(false));
  if (scores.size() > kShownRows) {
    out +=
        cat("the furthest off of ", scores.size(), " rows; --json has all\n");
  }
  out +=
      cat("\nrows                 ",
          errors.measured,
          "\nmean absolute error  ",
          decimals(100 * errors.mean_absolute, 2),
          " %\nmean error           ",
          signed_percent(errors.mean),
          "\nworst                ",
          decimals(100 * errors.worst, 1),
          " %\n");
  write_output("-", out);
}

}  // namespace weft
