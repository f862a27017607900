// SPDX-License-Identifier: Apache-2.0
// What a rank did last, as its flight record has it (execute/flight_record.h):
// a file that is mapped while the rank runs, and so is there however it ends.
//
// FOLDER/rank-N.flight: FlightHeader, kFlightChannels counts, kFlightEntries
// entries written round and round. Whole numbers as the machine has them.
// FOLDER/rank-N.names: what the numbers in it stand for, one a line, appended
// before they are used:
//   weft flight 1
//   channel 0-3                   (0, 1, ...: the first, the second, ...)
//   name phase -1 -1 "saving"      (kind, channel, waits for, label)
//   name start 0 -1 "start %g.sum"
//   name wait 0 1 "wait %g.sum"    (for the second name)
//   name call -1 -1 "%x = aten.mm"
// A channel is a group of ranks that meet one after the other; `start` counts a
// meeting, and a `phase` that has a channel does too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr std::array<char, 8> kFlightMagic = {
    'w', 'e', 'f', 't', 'f', 'l', 'y', '1'};
inline constexpr uint32_t kFlightVersion = 1;
// A power of two.
inline constexpr uint32_t kFlightEntries = 4096;
inline constexpr uint32_t kFlightChannels = 480;
inline constexpr size_t kFlightMessageBytes = 1024;

enum class FlightEnd : int64_t { None, Well, Message };

// Written by its rank alone; every number in one piece.
struct FlightHeader {
  std::array<char, 8> magic = {};
  uint32_t version = 0;
  uint32_t entries = 0;
  uint32_t channels = 0;
  uint32_t header_bytes = 0;
  int64_t rank = 0;
  int64_t ranks = 0;
  int64_t pid = 0;
  // One moment, by the clock that entries have and by the calendar.
  int64_t begin_steady_ns = 0;
  int64_t begin_unix_ns = 0;
  // When it last said that it was there, by the first clock.
  std::atomic<int64_t> seen_ns = 0;
  // Planned for the rank's arena, in the device's memory, and what it may use
  // of it (0: no limit); what the process held of the host's then.
  std::atomic<int64_t> planned_bytes = 0;
  std::atomic<int64_t> budget_bytes = 0;
  std::atomic<int64_t> held_bytes = 0;
  std::atomic<int64_t> end = 0;
  // Entries so far.
  std::atomic<uint64_t> written = 0;
  // Ends with zeros.
  std::array<char, 64> host = {};
  std::array<char, kFlightMessageBytes> message = {};
};

struct FlightEntry {
  std::atomic<int64_t> steady_ns;
  // The step in the upper half, the number of the name in the lower.
  std::atomic<uint64_t> what;
};

static_assert(
    std::atomic<int64_t>::is_always_lock_free && sizeof(FlightEntry) == 16 &&
    sizeof(FlightHeader) % 8 == 0);

inline constexpr size_t kFlightBytes = sizeof(FlightHeader) +
                                       kFlightChannels * sizeof(uint64_t) +
                                       kFlightEntries * sizeof(FlightEntry);

enum class FlightKind : uint8_t { Phase, Call, Start, Wait };
std::string_view name(FlightKind kind);

struct FlightName {
  FlightKind kind = FlightKind::Phase;
  // -1: none.
  int64_t channel = -1;
  // Wait: the name of what it waits for; else -1.
  int64_t waits_for = -1;
  std::string label;

  bool operator==(const FlightName&) const = default;
};
std::string print(const FlightName& name);

// The ranks that meet at a channel, in order.
struct FlightChannel {
  std::string name;
  std::vector<int64_t> ranks;
  // How often the rank has come.
  int64_t count = 0;
};

struct FlightMark {
  int64_t unix_ns = 0;
  int64_t step = 0;
  // Of Flight::names.
  int64_t name = 0;
};

struct Flight {
  int64_t rank = 0;
  int64_t ranks = 0;
  int64_t pid = 0;
  std::string host;
  FlightEnd end = FlightEnd::None;
  std::string message;
  int64_t seen_unix_ns = 0;
  int64_t planned_bytes = 0;
  int64_t budget_bytes = 0;
  int64_t held_bytes = 0;
  std::vector<FlightChannel> channels;
  std::vector<FlightName> names;
  // The last ones, in order.
  std::vector<FlightMark> marks;
};

// "0-3,6,8": how channels name ranks, which are in order.
std::string print_ranks(const std::vector<int64_t>& ranks);

std::string flight_path(const std::string& folder, int64_t rank);
std::string flight_names_path(const std::string& folder, int64_t rank);

// Throws UserError, naming the file, for one that is damaged or of another
// version.
Flight read_flight(const std::string& folder, int64_t rank);
// Of all ranks that have one there, by rank.
std::vector<Flight> read_flights(const std::string& folder);

}  // namespace weft
