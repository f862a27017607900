// SPDX-License-Identifier: Apache-2.0
#include "cli/search_flags.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/number_flags.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <string_view>

namespace weft {
namespace {

// "1.5GiB", "40 GB", "1048576".
int64_t parse_bytes(const std::string& text) {
  std::string_view rest = text;
  const double value = take_number(rest).value_or(0);
  std::string unit(rest);
  std::erase(unit, ' ');
  constexpr double kStep = 1024;
  const std::pair<const char*, double> units[] = {
      {"", 1},
      {"B", 1},
      {"KiB", kStep},
      {"MiB", kStep * kStep},
      {"GiB", kStep * kStep * kStep},
      {"KB", 1e3},
      {"MB", 1e6},
      {"GB", 1e9}};
  for (const auto& [name, size] : units) {
    const std::optional<int64_t> bytes = to_integer(value * size);
    if (unit == name && bytes && *bytes > 0) {
      return *bytes;
    }
  }
  throw UserError(
      cat("--max-bytes takes a number of bytes, as in 40GiB or 1048576; found ",
          quote(text)));
}

}  // namespace

void add_search_flags(CLI::App& command, SearchFlags& flags) {
  command
      .add_option("--fix", flags.fix, "A word that the plan must have; repeat")
      ->type_name("WORD=VALUE")
      ->expected(1)
      ->take_all();
  command
      .add_option(
          "--forbid", flags.forbid, "A word that it must not have; repeat")
      ->type_name("WORD")
      ->expected(1)
      ->take_all();
  command
      .add_option(
          "--max-bytes",
          flags.max_bytes,
          "Memory of each rank; without it, the device's")
      ->type_name("SIZE");
  command
      .add_option(
          "--time-limit",
          flags.time_limit_seconds,
          "Seconds after which the best that is known is taken")
      ->transform(any_number(NumberRange::Positive))
      ->type_name("SECONDS");
  command
      .add_option(
          "--price",
          flags.price,
          "What an hour of one device costs: then the summary tells what "
          "tokens cost")
      ->transform(any_number(NumberRange::Positive))
      ->type_name("MONEY");
  command
      .add_option(
          "--what-if",
          flags.what_if,
          "Search on changed machines, too, as in bandwidth=2x or "
          "memory=0.5x,nodes=2x; repeat")
      ->type_name("FIGURE=TIMESx")
      ->expected(1)
      ->take_all();
}

bool binds_a_search(const SearchFlags& flags) {
  return !flags.fix.empty() || !flags.forbid.empty() ||
         !flags.what_if.empty() || flags.price || flags.time_limit_seconds;
}

SearchOptions search_options(const SearchFlags& flags) {
  SearchOptions options;
  for (const std::string& words : flags.fix) {
    for (const std::string& word : split(words, ',')) {
      fix_word(options.limits, word);
    }
  }
  for (const std::string& words : flags.forbid) {
    for (const std::string& word : split(words, ',')) {
      forbid_word(options.limits, word);
    }
  }
  options.time_limit_seconds = flags.time_limit_seconds;
  if (!flags.max_bytes.empty()) {
    options.max_bytes = parse_bytes(flags.max_bytes);
  }
  return options;
}

Cluster search_cluster(const std::string& name, const SearchFlags& flags) {
  Cluster cluster = load_cluster(name);
  if (flags.price) {
    set_price_per_hour(cluster, *flags.price);
  }
  return cluster;
}

std::vector<std::vector<ClusterChange>> what_if_changes(
    const Cluster& cluster, const SearchFlags& flags) {
  std::vector<std::vector<ClusterChange>> out;
  for (const std::string& text : flags.what_if) {
    out.push_back(parse_cluster_changes(text));
    changed(cluster, out.back());
  }
  return out;
}

}  // namespace weft
