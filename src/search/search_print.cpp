// SPDX-License-Identifier: Apache-2.0
#include "search/search_print.h"

#include "base/text.h"
#include "profile/text_table.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

// Of alternatives that are shown, at the most.
constexpr size_t kMostShown = 14;

std::string seconds_text(double seconds) {
  return seconds < 1 ? cat(decimals(1e3 * seconds, 3), " ms")
                     : cat(decimals(seconds, 3), " s");
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
      cat("recompute=", name(candidate.recompute))};
}

// The best that has it, or the one with the best reason.
struct Alternative {
  std::string aspect;
  const Tried* tried = nullptr;
};

std::vector<Alternative> alternatives(const SearchResult& result) {
  std::vector<Alternative> out;
  const std::vector<std::string> best = aspects(result.tried.front().candidate);
  std::map<std::string, size_t> seen;
  for (const Tried& tried : result.tried) {
    for (const std::string& aspect : aspects(tried.candidate)) {
      if (std::find(best.begin(), best.end(), aspect) != best.end()) {
        continue;
      }
      const auto [at, is_new] = seen.emplace(aspect, out.size());
      if (is_new) {
        out.push_back({aspect, &tried});
        continue;
      }
      // Of those that cannot be, the one that is nearest to fitting.
      const Tried*& known = out[at->second].tried;
      if (!known->reason.empty() && tried.estimate.needed_bytes > 0 &&
          (known->estimate.needed_bytes == 0 ||
           tried.estimate.needed_bytes < known->estimate.needed_bytes)) {
        known = &tried;
      }
    }
  }
  return out;
}

// What most of the difference is, if one thing is.
std::string why_slower(const Estimate& best, const Estimate& other) {
  const std::pair<double, const char*> parts[] = {
      {other.exchange_seconds - best.exchange_seconds,
       "exchanges that nothing hides"},
      {other.bubble_seconds - best.bubble_seconds,
       "stages that wait for each other"},
      {other.again_seconds - best.again_seconds, "what is made again"},
      {other.update_seconds - best.update_seconds, "updates"}};
  const auto most = *std::max_element(std::begin(parts), std::end(parts));
  const double more = other.step_seconds - best.step_seconds;
  return most.first > 0 && most.first > more / 3
             ? cat(", ", seconds_text(most.first), " more of ", most.second)
             : "";
}

std::string memory_text(const MemoryParts& memory) {
  const std::pair<int64_t, const char*> parts[] = {
      {memory.parameter_bytes, "parameters"},
      {memory.gradient_bytes, "gradients"},
      {memory.state_bytes, "states"},
      {memory.kept_bytes, "activations"},
      {memory.temporary_bytes, "temporaries"}};
  std::vector<std::string> words;
  for (const auto& [bytes, what] : parts) {
    if (bytes > 0) {
      words.push_back(cat(bytes_text(bytes), " ", what));
    }
  }
  return join(words, ", ");
}

}  // namespace

std::string print(const SearchResult& result, const Cluster& cluster) {
  const Tried& best = result.tried.front();
  TextTable table;
  table.column("", Align::Left).column("", Align::Left);
  table.row({"words", print(best.candidate.words)});
  table.row(
      {"ranks",
       cat(result.ranks,
           " of @",
           cluster.name,
           ", ",
           result.rows,
           " rows a step")});
  table.row(
      {"step",
       cat(seconds_text(best.seconds()),
           best.simulated_seconds ? ", simulated" : ", estimated")});
  if (result.tokens > 0) {
    table.row(
        {"rate",
         cat(human_count(static_cast<double>(result.tokens) / best.seconds()),
             " tokens/s")});
  } else {
    table.row(
        {"rate",
         cat(human_count(static_cast<double>(result.rows) / best.seconds()),
             " rows/s")});
  }
  table.row(
      {"model flops",
       cat(percent(flops_utilisation(result, best)), " of the devices' peak")});
  table.row(
      {"memory",
       cat(bytes_text(best.bytes()),
           " of ",
           bytes_text(result.budget_bytes),
           " a rank: ",
           memory_text(best.estimate.memory),
           best.simulated_bytes ? " by the estimate" : "")});
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
  std::string out = table.print({});
  out += "\nwhat else there is:\n";
  TextTable others;
  others.column("", Align::Left).column("", Align::Left);
  const std::vector<Alternative> all = alternatives(result);
  for (size_t i = 0; i < all.size() && i < kMostShown; ++i) {
    const Tried& tried = *all[i].tried;
    const double slower = tried.seconds() / best.seconds() - 1;
    others.row(
        {all[i].aspect,
         tried.reason.empty()
             ? cat(percent(std::max(slower, 0.0)),
                   " slower",
                   why_slower(best.estimate, tried.estimate),
                   " (",
                   print(tried.candidate),
                   ")")
             : cat(tried.reason, " (", print(tried.candidate), ")")});
  }
  return out + others.print({}, 2);
}

nlohmann::json to_json(const SearchResult& result, const Cluster& cluster) {
  nlohmann::json out;
  out["cluster"] = cluster.name;
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
    const Tried& best = result.tried.front();
    const MemoryParts& memory = best.estimate.memory;
    out["plan"] = print(*result.plan);
    out["words"] = print(best.candidate.words);
    out["step_seconds"] = best.seconds();
    out["is_simulated"] = best.simulated_seconds.has_value();
    out["estimated_seconds"] = best.estimate.step_seconds;
    out["tokens_per_second"] =
        static_cast<double>(result.tokens) / best.seconds();
    out["flops_utilisation"] = flops_utilisation(result, best);
    out["peak_bytes"] = best.bytes();
    out["memory"] = {
        {"parameter_bytes", memory.parameter_bytes},
        {"gradient_bytes", memory.gradient_bytes},
        {"state_bytes", memory.state_bytes},
        {"kept_bytes", memory.kept_bytes},
        {"temporary_bytes", memory.temporary_bytes}};
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
  return out;
}

}  // namespace weft
