// SPDX-License-Identifier: Apache-2.0
#include "search/search_print.h"

#include "base/text.h"
#include "profile/text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace weft {
namespace {

// Of alternatives that are shown, at the most.
constexpr size_t kMostShown = 14;
// Of kinds of ranks.
constexpr size_t kMostRanks = 8;
// So little difference is none.
constexpr double kAsFast = 5e-4;

// To three figures: "0.0123", "1.85", "412".
std::string money_text(double amount) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", amount);
  return text;
}

// What it is that costs: tokens, or rows of a batch that has none.
std::string_view counted(const SearchResult& result) {
  return result.tokens > 0 ? "tokens" : "rows";
}

double count_a_step(const SearchResult& result) {
  return static_cast<double>(result.tokens > 0 ? result.tokens : result.rows);
}

struct Cost {
  double of_step = 0;
  double of_million = 0;
};

// None where no device has a price.
std::optional<Cost> cost_of(
    const SearchResult& result, const Tried& tried, const Cluster& cluster) {
  constexpr double kHourSeconds = 3600;
  constexpr double kMillion = 1e6;
  const double price = price_per_hour(cluster);
  if (price <= 0) {
    return std::nullopt;
  }
  const double step = price * tried.seconds() / kHourSeconds;
  return Cost{step, step / count_a_step(result) * kMillion};
}

// What the candidate says about one thing each.
std::vector<std::string> aspects(const Candidate& candidate) {
  const Parallel& words = candidate.words;
  const int64_t tensor = words.tensor.empty() ? 1 : words.tensor.front();
  return {
      cat("pipeline=", words.pipeline),
      cat("tensor=", tensor),
      cat("data=", words.data),
      cat("sequence=", words.sequence ? "on" : "off"),
      cat("zero=", words.zero),
      cat("micro-batches=", words.micro_batches),
      words.pipeline > 1 ? cat("schedule=", words.schedule) : "no pipeline",
      cat("layouts=", candidate.has_searched_layouts ? "searched" : "words"),
      cat("recompute=", name(candidate.recompute))};
}

// The best that has these, or of those that cannot be the one that is nearest
// to fitting.
struct Alternative {
  std::vector<std::string> aspects;
  const Tried* tried = nullptr;
};

std::vector<Alternative> alternatives(const SearchResult& result) {
  std::vector<Alternative> by_aspect;
  const std::vector<std::string> best = aspects(result.tried.front().candidate);
  std::map<std::string, size_t> seen;
  for (const Tried& tried : result.tried) {
    for (const std::string& aspect : aspects(tried.candidate)) {
      if (std::find(best.begin(), best.end(), aspect) != best.end()) {
        continue;
      }
      const auto [at, is_new] = seen.emplace(aspect, by_aspect.size());
      if (is_new) {
        by_aspect.push_back({{aspect}, &tried});
        continue;
      }
      const Tried*& known = by_aspect[at->second].tried;
      if (!known->reason.empty() && tried.estimate.needed_bytes > 0 &&
          (known->estimate.needed_bytes == 0 ||
           tried.estimate.needed_bytes < known->estimate.needed_bytes)) {
        known = &tried;
      }
    }
  }
  // One line a candidate, whatever it stands for.
  std::vector<Alternative> out;
  for (const Alternative& one : by_aspect) {
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const Alternative& other) {
          return other.tried == one.tried;
        });
    if (same == out.end()) {
      out.push_back(one);
    } else {
      same->aspects.push_back(one.aspects.front());
    }
  }
  return out;
}

double compute_seconds(const Estimate& estimate) {
  return estimate.busy_seconds - estimate.again_seconds -
         estimate.transfer_seconds;
}

// What most of the difference is, if one thing is.
std::string why_slower(const Estimate& best, const Estimate& other) {
  const std::pair<double, const char*> parts[] = {
      {other.exchange_seconds - best.exchange_seconds,
       "exchanges of gradients and parameters that nothing hides"},
      {other.transfer_seconds - best.transfer_seconds,
       "exchanges within layers"},
      {other.bubble_seconds - best.bubble_seconds,
       "stages that wait for each other"},
      {other.again_seconds - best.again_seconds, "what is made again"},
      {other.update_seconds - best.update_seconds, "updates"},
      {compute_seconds(other) - compute_seconds(best),
       "computing, in smaller pieces"}};
  const auto most = *std::max_element(std::begin(parts), std::end(parts));
  const double more = other.step_seconds - best.step_seconds;
  return most.first > 0 && most.first > more / 3
             ? cat(", ", seconds_text(most.first), " more of ", most.second)
             : "";
}

// Like with like: where one was not simulated, both by their estimates.
struct Compared {
  // What the second takes, of what the first does.
  double times = 1;
  std::string_view by;
};

Compared compare(const Tried& first, const Tried& second) {
  if (first.simulated_seconds && second.simulated_seconds) {
    return {*second.simulated_seconds / *first.simulated_seconds, ""};
  }
  return {
      second.estimate.step_seconds / first.estimate.step_seconds,
      first.simulated_seconds || second.simulated_seconds ? " by the estimate"
                                                          : ""};
}

std::string slower_text(const Tried& best, const Tried& tried) {
  const auto [times, by] = compare(best, tried);
  return times - 1 < kAsFast ? cat("as fast", by)
                             : cat(percent(times - 1),
                                   " slower",
                                   by,
                                   why_slower(best.estimate, tried.estimate));
}

std::string again_text(const Tried& tried) {
  const std::vector<RecomputePolicy>& units = tried.estimate.recompute;
  const auto whole =
      std::count(units.begin(), units.end(), RecomputePolicy::Full);
  const auto some =
      tried.candidate.recompute != RecomputePolicy::Full && whole > 0
          ? cat(", and ", whole, " of ", units.size(), " layers whole")
          : "";
  switch (tried.candidate.recompute) {
    case RecomputePolicy::None:
      return cat("nothing", some);
    case RecomputePolicy::Cheap:
      return cat("what costs little to make", some);
    case RecomputePolicy::Selective:
      return cat("what saves much for little, as scores of attention", some);
    case RecomputePolicy::Full:
      return "of every layer all but what it takes in";
  }
  return "";
}

// Of lowered ranks as they are, else of the fullest by the estimate.
std::vector<RankMemory> memories_of(const SearchResult& result) {
  const Tried& best = result.tried.front();
  if (best.memories.empty()) {
    const int64_t positions = best.candidate.words.pipeline;
    const int64_t ranks = result.ranks / positions;
    const int64_t first = best.estimate.fullest_stage % positions * ranks;
    return {
        {.first_rank = first,
         .last_rank = first + ranks - 1,
         .peak_bytes = best.bytes(),
         .parts = best.estimate.memory}};
  }
  return best.memories.size() > kMostRanks
             ? std::vector<RankMemory>{*fullest(best.memories)}
             : best.memories;
}

std::string summary_table(const SearchResult& result, const Cluster& cluster) {
  const Tried& best = result.tried.front();
  const std::string words = print(best.candidate.words);
  TextTable table;
  table.column("", Align::Left).column("", Align::Left);
  table.row({"plan", words.empty() ? "one rank" : words});
  if (best.candidate.has_searched_layouts) {
    table.row({"layouts", "searched along tensor"});
  }
  table.row({"made again", again_text(best)});
  table.row(
      {"machines",
       cat(result.ranks,
           " ranks of @",
           cluster.name,
           ", ",
           result.rows,
           " rows a step")});
  table.row(
      {"step",
       cat(seconds_text(best.seconds()),
           best.simulated_seconds ? ", simulated" : ", estimated")});
  table.row(
      {"rate",
       cat(human_count(count_a_step(result) / best.seconds()),
           " ",
           counted(result),
           "/s")});
  table.row(
      {"utilisation",
       cat(percent(flops_utilisation(result, best)),
           " of the devices' peak, by the model's own flops")});
  table.row(
      {"memory",
       cat(bytes_text(best.bytes()),
           " of ",
           bytes_text(result.budget_bytes),
           " on the fullest rank")});
  if (const std::optional<Cost> cost = cost_of(result, best, cluster)) {
    table.row(
        {"cost",
         cat(money_text(cost->of_million),
             " for a million ",
             counted(result),
             ", ",
             money_text(cost->of_step),
             " a step")});
  }
  table.row(
      {"searched",
       cat(result.tried.size(),
           " candidates in ",
           decimals(result.seconds, 1),
           " s, ",
           result.simulated,
           " lowered and simulated",
           result.is_out_of_time ? ", until the time was up"
           : result.is_proved    ? "; no other can be faster"
                                 : "")});
  return table.print({});
}

std::string alternative_table(const SearchResult& result) {
  const Tried& best = result.tried.front();
  TextTable table;
  table.column("", Align::Left).column("", Align::Left);
  const std::vector<Alternative> all = alternatives(result);
  for (size_t i = 0; i < all.size() && i < kMostShown; ++i) {
    const Tried& tried = *all[i].tried;
    table.row(
        {join(all[i].aspects, ", "),
         cat(tried.reason.empty() ? slower_text(best, tried) : tried.reason,
             " (",
             print(tried.candidate),
             ")")});
  }
  return all.empty() ? ""
                     : cat("\nwhat else there is, the best of each:\n",
                           table.print({}, 2));
}

// "1.24 times as fast".
std::string speed_text(const Tried& best, const Tried& other) {
  const auto [times, by] = compare(other, best);
  return std::abs(times - 1) < kAsFast
             ? cat("as fast", by)
             : cat(decimals(times, 2), " times as fast", by);
}

std::string what_if_table(
    const SearchResult& result, const std::vector<WhatIf>& what_ifs) {
  const Tried& best = result.tried.front();
  TextTable table;
  table.column("", Align::Left)
      .column("", Align::Left)
      .column("", Align::Left)
      .column("", Align::Left)
      .column("", Align::Left);
  for (const WhatIf& one : what_ifs) {
    if (!one.reason.empty()) {
      table.row({print(one.changes), "no plan", "", "", one.reason});
      continue;
    }
    const Tried& other = one.result.tried.front();
    const std::optional<Cost> cost = cost_of(one.result, other, one.cluster);
    table.row(
        {print(one.changes),
         seconds_text(other.seconds()),
         speed_text(best, other),
         cost ? cat(money_text(cost->of_million), " for a million") : "",
         print(other.candidate)});
  }
  return what_ifs.empty() ? "" : cat("\nwhat if:\n", table.print({}, 2));
}

nlohmann::json parts_json(const MemoryParts& parts) {
  return {
      {"parameter_bytes", parts.parameter_bytes},
      {"gradient_bytes", parts.gradient_bytes},
      {"state_bytes", parts.state_bytes},
      {"kept_bytes", parts.kept_bytes},
      {"temporary_bytes", parts.temporary_bytes}};
}

void add_cost(
    nlohmann::json& out,
    const SearchResult& result,
    const Tried& tried,
    const Cluster& cluster) {
  if (const std::optional<Cost> cost = cost_of(result, tried, cluster)) {
    out["cost_per_step"] = cost->of_step;
    out[cat("cost_per_million_", counted(result))] = cost->of_million;
  }
}

nlohmann::json memories_json(const std::vector<RankMemory>& memories) {
  nlohmann::json out = nlohmann::json::array();
  for (const RankMemory& memory : memories) {
    out.push_back(
        {{"first_rank", memory.first_rank},
         {"last_rank", memory.last_rank},
         {"peak_bytes", memory.peak_bytes},
         {"memory", parts_json(memory.parts)}});
  }
  return out;
}

nlohmann::json what_if_json(const SearchResult& result, const WhatIf& one) {
  nlohmann::json out = {{"change", print(one.changes)}};
  if (!one.reason.empty()) {
    out["reason"] = one.reason;
    return out;
  }
  const Tried& other = one.result.tried.front();
  out["ranks"] = one.result.ranks;
  out["words"] = print(other.candidate.words);
  out["recompute"] = name(other.candidate.recompute);
  out["plan"] = print(*one.result.plan);
  out["step_seconds"] = other.seconds();
  out["is_simulated"] = other.simulated_seconds.has_value();
  out["peak_bytes"] = other.bytes();
  out["times_as_fast"] = result.tried.front().seconds() / other.seconds();
  add_cost(out, one.result, other, one.cluster);
  return out;
}

void add_best(
    nlohmann::json& out, const SearchResult& result, const Cluster& cluster) {
  const Tried& best = result.tried.front();
  const RankMemory* most = fullest(best.memories);
  out["plan"] = print(*result.plan);
  out["words"] = print(best.candidate.words);
  out["recompute"] = name(best.candidate.recompute);
  out["step_seconds"] = best.seconds();
  out["is_simulated"] = best.simulated_seconds.has_value();
  out["estimated_seconds"] = best.estimate.step_seconds;
  out["tokens_per_second"] =
      static_cast<double>(result.tokens) / best.seconds();
  out["rows_per_second"] = static_cast<double>(result.rows) / best.seconds();
  out["flops_utilisation"] = flops_utilisation(result, best);
  out["peak_bytes"] = best.bytes();
  out["memory"] =
      parts_json(most == nullptr ? best.estimate.memory : most->parts);
  out["rank_memory"] = memories_json(best.memories);
  add_cost(out, result, best, cluster);
}

}  // namespace

std::string seconds_text(double seconds) {
  return seconds < 1 ? cat(decimals(1e3 * seconds, 3), " ms")
                     : cat(decimals(seconds, 3), " s");
}

std::string print(
    const SearchResult& result,
    const Cluster& cluster,
    const std::vector<WhatIf>& what_ifs) {
  return cat(
      summary_table(result, cluster),
      "\n",
      "what the memory of a rank holds",
      result.tried.front().memories.empty() ? ", by the estimate:\n"
                                            : ", at its peak:\n",
      memory_table(memories_of(result), result.budget_bytes, {}),
      alternative_table(result),
      what_if_table(result, what_ifs));
}

nlohmann::json to_json(
    const SearchResult& result,
    const Cluster& cluster,
    const std::vector<WhatIf>& what_ifs) {
  nlohmann::json out;
  out["cluster"] = cluster.name;
  out["price_per_hour"] = price_per_hour(cluster);
  out["ranks"] = result.ranks;
  out["rows"] = result.rows;
  out["budget_bytes"] = result.budget_bytes;
  out["search_seconds"] = result.seconds;
  const SearchSeconds& by_stage = result.by_stage;
  out["seconds_by_stage"] = {
      {"units", by_stage.units},
      {"samples", by_stage.samples},
      {"estimates", by_stage.estimates},
      {"simulation", by_stage.simulation},
      {"plan", by_stage.plan}};
  out["samples"] = result.samples;
  out["lowered_samples"] = result.lowered_samples;
  out["simulated"] = result.simulated;
  out["is_proved"] = result.is_proved;
  out["is_out_of_time"] = result.is_out_of_time;
  if (result.plan) {
    add_best(out, result, cluster);
  }
  out["candidates"] = nlohmann::json::array();
  for (const Tried& tried : result.tried) {
    nlohmann::json one = {{"words", print(tried.candidate)}};
    if (tried.reason.empty()) {
      one["step_seconds"] = tried.seconds();
      one["estimated_seconds"] = tried.estimate.step_seconds;
      one["is_simulated"] = tried.simulated_seconds.has_value();
      one["peak_bytes"] = tried.bytes();
    } else {
      one["reason"] = tried.reason;
    }
    out["candidates"].push_back(std::move(one));
  }
  out["what_if"] = nlohmann::json::array();
  for (const WhatIf& one : what_ifs) {
    out["what_if"].push_back(what_if_json(result, one));
  }
  return out;
}

}  // namespace weft
