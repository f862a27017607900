// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_fault.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/terminal.h"
#include "execute/heartbeat.h"
#include "execute/process.h"
#include "profile/text_table.h"
#include "program/flight_fault.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>
#include <vector>

namespace weft {
namespace {

// Marks of every rank that people are shown; JSON has those in the file.
constexpr size_t kShownMarks = 6;

std::string seconds_text(int64_t ns) {
  return cat(decimals(static_cast<double>(ns) * 1e-9, 6), " s");
}

std::string calendar(int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 40> text = {};
  const size_t length =
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return {text.data(), length};
}

int64_t now_unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Of another machine, it says itself that it does.
bool runs_still(const Flight& flight) {
  constexpr std::chrono::nanoseconds kRecent = 2 * kHeartbeat;
  std::array<char, 64> here = {};
  ::gethostname(here.data(), here.size() - 1);
  return flight.end == FlightEnd::None &&
         now_unix_ns() - kRecent.count() < flight.seen_unix_ns &&
         (flight.host != here.data() ||
          process_state(process_of(flight.pid)) != ProcessState::Gone);
}

std::set<int64_t> running_ranks(const std::vector<Flight>& flights) {
  std::set<int64_t> running;
  for (const Flight& flight : flights) {
    if (runs_still(flight)) {
      running.insert(flight.rank);
    }
  }
  return running;
}

std::string_view ending_word(
    const RankFault& fault, const std::set<int64_t>& running) {
  if (!fault.is_known) {
    return "no record";
  }
  switch (fault.end) {
    case FlightEnd::Well:
      return "left well";
    case FlightEnd::Message:
      return "left with a message";
    case FlightEnd::None:
      break;
  }
  return running.contains(fault.rank) ? "runs" : "ended without a word";
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  std::vector<std::string> words;
  for (const int64_t rank : ranks) {
    words.push_back(cat(rank));
  }
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(words, ", "));
}

// Those of updates and of transfers of many tensors fill lines.
std::string short_label(const std::string& label) {
  constexpr size_t kMostLetters = 80;
  return label.size() <= kMostLetters
             ? label
             : cat(label.substr(0, kMostLetters - 3), "...");
}

// "rank 1 never came to ..., and ranks 0, 2 waited for it".
std::string verdict(
    const FlightFault& fault, const std::set<int64_t>& running) {
  std::string text;
  for (const int64_t rank : fault.at_fault) {
    const bool runs = running.contains(rank);
    std::vector<int64_t> waiting;
    const RankFault* first = nullptr;
    for (const RankFault& each : fault.ranks) {
      if (std::find(each.waits_for.begin(), each.waits_for.end(), rank) !=
          each.waits_for.end()) {
        waiting.push_back(each.rank);
        const bool is_earlier =
            first == nullptr || each.since_unix_ns < first->since_unix_ns;
        first = is_earlier ? &each : first;
      }
    }
    if (first == nullptr) {
      text += cat("rank ", rank, runs ? " runs\n" : " ended without a word\n");
      continue;
    }
    const char* how = first->all_had_come ? " ended in"
                      : runs              ? " has not come to"
                                          : " never came to";
    text +=
        cat("rank ",
            rank,
            how,
            " meeting ",
            first->meeting,
            " of ",
            first->channel,
            " (",
            short_label(first->doing),
            ", step ",
            first->step,
            "): ",
            ranks_text(waiting),
            " waited for it for ",
            seconds_text(fault.end_unix_ns - first->since_unix_ns),
            "\n");
  }
  return text.empty() ? "no rank held up the others, as far as is known\n"
                      : text;
}

std::string last_marks(const Flight& flight, int64_t end_unix_ns) {
  std::string text =
      cat("\nrank ",
          flight.rank,
          ", process ",
          flight.pid,
          " on ",
          flight.host,
          flight.message.empty() ? "" : ", which said: ",
          flight.message,
          "\n");
  const size_t count = std::min(kShownMarks, flight.marks.size());
  for (size_t i = flight.marks.size() - count; i < flight.marks.size(); ++i) {
    const FlightMark& mark = flight.marks[i];
    text +=
        cat("  ",
            seconds_text(end_unix_ns - mark.unix_ns),
            " before the end: step ",
            mark.step,
            ", ",
            short_label(flight.names[static_cast<size_t>(mark.name)].label),
            "\n");
  }
  return text;
}

std::string fault_text(
    const std::string& run,
    const std::vector<Flight>& flights,
    const FlightFault& fault) {
  const std::set<int64_t> running = running_ranks(flights);
  TextTable table;
  table.column("rank")
      .column("how it ended", Align::Left)
      .column("step")
      .column("doing", Align::Left)
      .column("for")
      .column("waits for", Align::Left);
  for (const RankFault& each : fault.ranks) {
    table.row(
        {cat(each.rank),
         std::string(ending_word(each, running)),
         each.is_known ? cat(each.step) : "",
         short_label(each.doing),
         each.is_known ? seconds_text(fault.end_unix_ns - each.since_unix_ns)
                       : "",
         each.waits_for.empty() ? "" : ranks_text(each.waits_for)});
  }
  std::string text =
      cat(run,
          ": ",
          fault.ranks.size(),
          " rank(s), last heard of at ",
          calendar(fault.end_unix_ns),
          "\n",
          verdict(fault, running),
          "\n",
          table.print(stdout_style(false), 2));
  for (const Flight& flight : flights) {
    text += last_marks(flight, fault.end_unix_ns);
  }
  return text;
}

nlohmann::ordered_json marks_json(const Flight& flight) {
  nlohmann::ordered_json marks = nlohmann::ordered_json::array();
  for (const FlightMark& mark : flight.marks) {
    const FlightName& named = flight.names[static_cast<size_t>(mark.name)];
    marks.push_back(
        {{"unix_ns", mark.unix_ns},
         {"step", mark.step},
         {"kind", std::string(name(named.kind))},
         {"label", named.label}});
  }
  return marks;
}

std::string fault_json(
    const std::vector<Flight>& flights, const FlightFault& fault) {
  const std::set<int64_t> running = running_ranks(flights);
  nlohmann::ordered_json json = {
      {"end_unix_ns", fault.end_unix_ns},
      {"at_fault", fault.at_fault},
      {"ranks", nlohmann::ordered_json::array()}};
  for (const RankFault& each : fault.ranks) {
    nlohmann::ordered_json one = {
        {"rank", each.rank}, {"how_it_ended", ending_word(each, running)}};
    if (each.is_known) {
      one["step"] = each.step;
      one["doing"] = each.doing;
      one["since_unix_ns"] = each.since_unix_ns;
      one["waits_for"] = each.waits_for;
      one["channel"] = each.channel;
      one["meeting"] = each.meeting;
    }
    for (const Flight& flight : flights) {
      if (flight.rank == each.rank && each.is_known) {
        one["process"] = flight.pid;
        one["host"] = flight.host;
        one["message"] = flight.message;
        one["planned_bytes"] = flight.planned_bytes;
        one["held_bytes"] = flight.held_bytes;
        one["marks"] = marks_json(flight);
      }
    }
    json["ranks"].push_back(std::move(one));
  }
  return json.dump(
             1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace

std::string explain_fault(const std::string& run, bool as_json) {
  std::vector<Flight> flights = read_flights(cat(run, "/flight"));
  if (flights.empty()) {
    flights = read_flights(run);
  }
  WEFT_CHECK_USER(
      !flights.empty(),
      run,
      " has no flight records: give the --output of a run of weft train, or "
      "RUN/flight.before for the run before the last");
  const FlightFault fault = find_fault(flights);
  return as_json ? fault_json(flights, fault) : fault_text(run, flights, fault);
}

}  // namespace weft
