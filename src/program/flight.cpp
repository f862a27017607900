// SPDX-License-Identifier: Apache-2.0
#include "program/flight.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamesHeader = "weft flight 1";
// What one that is not damaged stays far below.
constexpr size_t kMostNames = 4'000'000;
constexpr size_t kMostLineBytes = 65536;
constexpr size_t kMostLabelBytes = 2048;
constexpr uintmax_t kMostNamesBytes = uintmax_t{1} << 30;
constexpr int64_t kMostRanks = 1'000'000;
constexpr FlightKind kFlightKinds[] = {
    FlightKind::Phase, FlightKind::Call, FlightKind::Start, FlightKind::Wait};

[[noreturn]] void refuse_flight(const std::string& path, const char* why) {
  throw UserError(
      cat(path,
          ": ",
          why,
          ". It is damaged, or of another version of Weft, and tells nothing"));
}

std::vector<int64_t> ranks_of_channel(
    std::string_view text, const Flight& flight, const std::string& path) {
  // "agreement 0,1" or "0,1" or "0>1".
  std::string list(text.substr(text.rfind(' ') + 1));
  std::replace(list.begin(), list.end(), '>', ',');
  std::vector<int64_t> ranks;
  for (const std::string& word : split(list, ',')) {
    const size_t dash = word.find('-', 1);
    const std::optional<int64_t> first = read_integer(word.substr(0, dash));
    const std::optional<int64_t> last =
        dash == word.npos ? first : read_integer(word.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first ||
        *last >= flight.ranks ||
        static_cast<int64_t>(ranks.size()) > flight.ranks) {
      refuse_flight(path, "a channel has other ranks than the run");
    }
    for (int64_t rank = *first; rank <= *last; ++rank) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

FlightName parse_name(
    std::string_view line, const Flight& flight, const std::string& path) {
  std::array<std::string_view, 3> words;
  std::string_view rest = line;
  for (std::string_view& word : words) {
    const size_t space = std::min(rest.find(' '), rest.size());
    word = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  if (rest.size() < 2 || rest.front() != '"' || rest.back() != '"') {
    refuse_flight(path, "a name is cut short");
  }
  const auto kind = std::find_if(
      std::begin(kFlightKinds), std::end(kFlightKinds), [&](FlightKind each) {
        return name(each) == words[0];
      });
  const std::optional<int64_t> channel = read_integer(words[1]);
  const std::optional<int64_t> waits_for = read_integer(words[2]);
  if (kind == std::end(kFlightKinds) || !channel || *channel < -1 ||
      *channel >= static_cast<int64_t>(flight.channels.size()) || !waits_for ||
      *waits_for < -1 ||
      *waits_for >= static_cast<int64_t>(flight.names.size())) {
    refuse_flight(path, "a name is of an unknown kind, channel or transfer");
  }
  return {
      *kind,
      *channel,
      *waits_for,
      std::string(rest.substr(1, rest.size() - 2))};
}

void read_names(const std::string& path, Flight& flight) {
  std::error_code error;
  if (const uintmax_t bytes = fs::file_size(path, error);
      error || bytes > kMostNamesBytes) {
    refuse_flight(path, "it is not there, or has more than it may have");
  }
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != kNamesHeader) {
    refuse_flight(path, "it does not begin with \"weft flight 1\"");
  }
  while (std::getline(file, line)) {
    if (file.eof()) {
      // Being written when the rank ended: nothing refers to it.
      return;
    }
    if (line.size() > kMostLineBytes || flight.names.size() >= kMostNames ||
        flight.channels.size() >= kFlightChannels + 1) {
      refuse_flight(path, "it has more than it may have");
    }
    const std::string_view text = line;
    if (text.starts_with("channel ")) {
      const std::string_view name = text.substr(8);
      flight.channels.push_back(
          {std::string(name), ranks_of_channel(name, flight, path), 0});
    } else if (text.starts_with("name ")) {
      flight.names.push_back(parse_name(text.substr(5), flight, path));
    } else {
      refuse_flight(path, "a line is neither a channel nor a name");
    }
  }
}

template <typename T>
T number_at(const std::vector<char>& bytes, size_t at) {
  T number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

std::string text_until_zero(const char* text, size_t bytes) {
  std::string out(text, ::strnlen(text, bytes));
  for (char& each : out) {
    each = static_cast<unsigned char>(each) < ' ' ? ' ' : each;
  }
  return out;
}

// The bytes of a record, with its fixed part checked.
std::vector<char> read_record(const std::string& path) {
  std::error_code error;
  if (fs::file_size(path, error) != kFlightBytes || error) {
    refuse_flight(path, "it has another size than a flight record");
  }
  std::vector<char> bytes(kFlightBytes);
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto u32 = [&](size_t at) { return number_at<uint32_t>(bytes, at); };
  if (!file ||
      std::memcmp(bytes.data(), kFlightMagic.data(), kFlightMagic.size()) !=
          0 ||
      u32(offsetof(FlightHeader, version)) != kFlightVersion ||
      u32(offsetof(FlightHeader, entries)) != kFlightEntries ||
      u32(offsetof(FlightHeader, channels)) != kFlightChannels ||
      u32(offsetof(FlightHeader, header_bytes)) != sizeof(FlightHeader)) {
    refuse_flight(path, "it does not begin as a flight record does");
  }
  return bytes;
}

void read_marks(
    const std::vector<char>& bytes,
    int64_t unix_minus_steady_ns,
    const std::string& path,
    Flight& flight) {
  const auto written =
      number_at<uint64_t>(bytes, offsetof(FlightHeader, written));
  // The oldest one may have been half written over.
  const uint64_t count =
      std::min<uint64_t>(written, uint64_t{kFlightEntries} - 1);
  const size_t begin =
      sizeof(FlightHeader) + kFlightChannels * sizeof(uint64_t);
  for (uint64_t i = written - count; i < written; ++i) {
    const size_t at = begin + i % kFlightEntries * sizeof(FlightEntry);
    const auto what =
        number_at<uint64_t>(bytes, at + offsetof(FlightEntry, what));
    FlightMark mark;
    mark.unix_ns = static_cast<int64_t>(
        number_at<uint64_t>(bytes, at + offsetof(FlightEntry, steady_ns)) +
        static_cast<uint64_t>(unix_minus_steady_ns));
    mark.step = static_cast<int64_t>(what >> 32);
    mark.name = static_cast<int64_t>(what & 0xffffffff);
    if (mark.name >= static_cast<int64_t>(flight.names.size())) {
      refuse_flight(path, "it refers to a name that is not there");
    }
    flight.marks.push_back(mark);
  }
}

}  // namespace

std::string_view name(FlightKind kind) {
  switch (kind) {
    case FlightKind::Phase:
      return "phase";
    case FlightKind::Call:
      return "call";
    case FlightKind::Start:
      return "start";
    case FlightKind::Wait:
      return "wait";
  }
  WEFT_CHECK(false, "an unknown kind of name");
}

std::string print(const FlightName& each) {
  std::string label = each.label.substr(0, kMostLabelBytes);
  for (char& letter : label) {
    letter = static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return cat(
      "name ",
      name(each.kind),
      " ",
      each.channel,
      " ",
      each.waits_for,
      " \"",
      label,
      "\"\n");
}

std::string print_ranks(const std::vector<int64_t>& ranks) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    words.push_back(
        end - begin == 1 ? cat(ranks[begin])
                         : cat(ranks[begin], "-", ranks[end - 1]));
    begin = end;
  }
  return join(words, ",");
}

std::string flight_path(const std::string& folder, int64_t rank) {
  return cat(folder, "/rank-", rank, ".flight");
}

std::string flight_names_path(const std::string& folder, int64_t rank) {
  return cat(folder, "/rank-", rank, ".names");
}

Flight read_flight(const std::string& folder, int64_t rank) {
  const std::string path = flight_path(folder, rank);
  const std::vector<char> bytes = read_record(path);
  const auto i64 = [&](size_t at) { return number_at<int64_t>(bytes, at); };
  Flight flight;
  flight.rank = i64(offsetof(FlightHeader, rank));
  flight.ranks = i64(offsetof(FlightHeader, ranks));
  flight.pid = i64(offsetof(FlightHeader, pid));
  const int64_t end = i64(offsetof(FlightHeader, end));
  if (flight.rank != rank || flight.ranks <= rank ||
      flight.ranks > kMostRanks || end < 0 ||
      end > static_cast<int64_t>(FlightEnd::Message)) {
    refuse_flight(path, "it is of another rank, or its numbers make no sense");
  }
  flight.end = static_cast<FlightEnd>(end);
  // Wraps round where the numbers are nonsense.
  const auto unix_minus_steady_ns = static_cast<int64_t>(
      static_cast<uint64_t>(i64(offsetof(FlightHeader, begin_unix_ns))) -
      static_cast<uint64_t>(i64(offsetof(FlightHeader, begin_steady_ns))));
  flight.seen_unix_ns = static_cast<int64_t>(
      static_cast<uint64_t>(i64(offsetof(FlightHeader, seen_ns))) +
      static_cast<uint64_t>(unix_minus_steady_ns));
  flight.planned_bytes = i64(offsetof(FlightHeader, planned_bytes));
  flight.budget_bytes = i64(offsetof(FlightHeader, budget_bytes));
  flight.held_bytes = i64(offsetof(FlightHeader, held_bytes));
  flight.host = text_until_zero(
      bytes.data() + offsetof(FlightHeader, host), sizeof(FlightHeader::host));
  flight.message = text_until_zero(
      bytes.data() + offsetof(FlightHeader, message),
      sizeof(FlightHeader::message));
  read_names(flight_names_path(folder, rank), flight);
  for (size_t i = 0; i < flight.channels.size(); ++i) {
    flight.channels[i].count = i64(sizeof(FlightHeader) + i * sizeof(uint64_t));
  }
  read_marks(bytes, unix_minus_steady_ns, path, flight);
  return flight;
}

std::vector<Flight> read_flights(const std::string& folder) {
  std::vector<int64_t> ranks;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".flight")) {
      if (const auto rank = read_integer(
              std::string_view(name).substr(5, name.size() - 12))) {
        ranks.push_back(*rank);
      }
    }
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<Flight> flights;
  for (const int64_t rank : ranks) {
    flights.push_back(read_flight(folder, rank));
  }
  return flights;
}

}  // namespace weft
