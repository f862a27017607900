// SPDX-License-Identifier: Apache-2.0
#include "program/flight.h"

#include "base/error.h"
#include "base/text.h"
#include "program/flight_fault.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace weft {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "flight.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Names 0 to 3 of every record here.
constexpr const char* kNames =
    "weft flight 1\n"
    "channel 0-2\n"
    "name call -1 -1 \"%a = aten.mm\"\n"
    "name start 0 -1 \"all_reduce start %s\"\n"
    "name wait 0 1 \"wait %s\"\n"
    "name phase -1 -1 \"leaving\"\n";

struct Record {
  FlightHeader header;
  std::array<std::atomic<int64_t>, kFlightChannels> channels = {};
  std::array<FlightEntry, kFlightEntries> entries = {};

  Record(int64_t rank, int64_t ranks) {
    header.magic = kFlightMagic;
    header.version = kFlightVersion;
    header.entries = kFlightEntries;
    header.channels = kFlightChannels;
    header.header_bytes = sizeof(FlightHeader);
    header.rank = rank;
    header.ranks = ranks;
    header.seen_ns = 900;
    std::strcpy(header.host.data(), "here");
  }

  void mark(int64_t ns, int64_t step, uint32_t name) {
    FlightEntry& entry = entries[header.written % kFlightEntries];
    entry.steady_ns = ns;
    entry.what = static_cast<uint64_t>(step) << 32 | name;
    channels[0] += name == 1 ? 1 : 0;
    ++header.written;
  }

  std::string bytes() const {
    static_assert(sizeof(Record) == kFlightBytes);
    std::string out(sizeof(Record), '\0');
    std::memcpy(out.data(), static_cast<const void*>(this), out.size());
    return out;
  }
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void write(const Folder& folder, const Record& record) {
  const int64_t rank = record.header.rank;
  write(flight_path(folder.path(), rank), record.bytes());
  write(flight_names_path(folder.path(), rank), kNames);
}

TEST(Flight, KeepsTheLastMarksInOrder) {
  const Folder folder;
  const auto record = std::make_unique<Record>(1, 3);
  for (int64_t i = 0; i < 3 * int64_t{kFlightEntries}; ++i) {
    record->mark(i, i, 0);
  }
  write(folder, *record);
  const Flight flight = read_flight(folder.path(), 1);
  EXPECT_EQ(flight.ranks, 3);
  EXPECT_EQ(flight.host, "here");
  ASSERT_EQ(flight.marks.size(), kFlightEntries - 1);
  EXPECT_EQ(flight.marks.back().step, 3 * int64_t{kFlightEntries} - 1);
  for (size_t i = 1; i < flight.marks.size(); ++i) {
    EXPECT_EQ(flight.marks[i].step, flight.marks[i - 1].step + 1);
  }
  EXPECT_EQ(flight.names[2].label, "wait %s");
  EXPECT_EQ(cat(print(flight.names[2])), "name wait 0 1 \"wait %s\"\n");
}

TEST(Flight, WhoNeverCameIsNamed) {
  const Folder folder;
  for (const int64_t rank : {0, 1, 2}) {
    const auto record = std::make_unique<Record>(rank, 3);
    for (int64_t step = 0; step < 5; ++step) {
      record->mark(100 * step, step, 0);
      if (rank == 1 && step == 4) {
        break;
      }
      record->mark(100 * step + 10, step, 1);
      record->mark(100 * step + 20, step, 2);
    }
    write(folder, *record);
  }
  const FlightFault fault = find_fault(read_flights(folder.path()));
  EXPECT_EQ(fault.at_fault, std::vector<int64_t>({1}));
  EXPECT_EQ(fault.ranks[0].waits_for, std::vector<int64_t>({1}));
  EXPECT_EQ(fault.ranks[2].waits_for, std::vector<int64_t>({1}));
  EXPECT_EQ(fault.ranks[0].meeting, 5);
  EXPECT_EQ(fault.ranks[0].since_unix_ns, 420);
  EXPECT_EQ(fault.ranks[1].doing, "%a = aten.mm");
  EXPECT_EQ(fault.end_unix_ns, 900);
}

TEST(Flight, AWaitIsForTheMeetingThatItBelongsTo) {
  const Folder folder;
  const auto ahead = std::make_unique<Record>(0, 2);
  // Two are under way, and the first is waited for.
  write(
      flight_names_path(folder.path(), 0),
      "weft flight 1\nchannel 0-1\n"
      "name start 0 -1 \"first\"\nname start 0 -1 \"second\"\n"
      "name wait 0 0 \"wait first\"\n");
  ahead->mark(1, 0, 0);
  ahead->mark(2, 0, 1);
  ahead->mark(3, 0, 2);
  ahead->channels[0] = 2;
  write(flight_path(folder.path(), 0), ahead->bytes());
  const auto behind = std::make_unique<Record>(1, 2);
  behind->mark(1, 0, 0);
  behind->channels[0] = 1;
  write(flight_path(folder.path(), 1), behind->bytes());
  write(
      flight_names_path(folder.path(), 1),
      "weft flight 1\nchannel 0-1\nname start 0 -1 \"first\"\n");
  const FlightFault fault = find_fault(read_flights(folder.path()));
  EXPECT_EQ(fault.ranks[0].meeting, 1);
  EXPECT_TRUE(fault.ranks[0].waits_for.empty());
}

TEST(Flight, ARankThatEndsInAMeetingIsNamed) {
  const Folder folder;
  for (const int64_t rank : {0, 1, 2}) {
    const auto record = std::make_unique<Record>(rank, 3);
    record->mark(1, 0, 1);
    record->mark(2, 0, rank == 0 ? 2 : 0);
    record->header.end = static_cast<int64_t>(
        rank == 0   ? FlightEnd::Message
        : rank == 1 ? FlightEnd::None
                    : FlightEnd::Well);
    write(folder, *record);
  }
  const FlightFault fault = find_fault(read_flights(folder.path()));
  EXPECT_EQ(fault.at_fault, std::vector<int64_t>({1}));
  EXPECT_TRUE(fault.ranks[0].all_had_come);
}

TEST(Flight, ARankWithoutARecordNeverCame) {
  const Folder folder;
  const auto record = std::make_unique<Record>(0, 3);
  record->mark(1, 0, 1);
  record->mark(2, 0, 2);
  write(folder, *record);
  const FlightFault fault = find_fault(read_flights(folder.path()));
  EXPECT_EQ(fault.at_fault, std::vector<int64_t>({1, 2}));
  EXPECT_FALSE(fault.ranks[1].is_known);
}

TEST(Flight, RanksOfAChannelAreShort) {
  EXPECT_EQ(print_ranks({0, 1, 2, 3, 6, 8, 9}), "0-3,6,8-9");
  EXPECT_EQ(print_ranks({5}), "5");
}

TEST(Flight, DamagedFilesAreRefused) {
  const Folder folder;
  const auto record = std::make_unique<Record>(0, 3);
  record->mark(1, 0, 1);
  write(folder, *record);
  const std::string good = record->bytes();
  const std::string path = flight_path(folder.path(), 0);
  const auto refuses = [&](const std::string& bytes) {
    write(path, bytes);
    try {
      read_flight(folder.path(), 0);
    } catch (const UserError& error) {
      return std::string(error.what()).starts_with(path);
    }
    return false;
  };
  EXPECT_TRUE(refuses(""));
  EXPECT_TRUE(refuses(good.substr(1)));
  EXPECT_TRUE(refuses(good + "x"));
  // Whatever a byte of the fixed part says, it is read or refused.
  for (size_t at = 0; at < sizeof(FlightHeader); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0xff);
    const bool is_refused = refuses(bad);
    EXPECT_TRUE(is_refused || at >= offsetof(FlightHeader, rank)) << at;
  }
  std::string bad = good;
  bad[good.size() - kFlightEntries * sizeof(FlightEntry) + 8] = 77;
  EXPECT_TRUE(refuses(bad)) << "a name that is not there";
}

TEST(Flight, DamagedNamesAreRefused) {
  const Folder folder;
  const auto record = std::make_unique<Record>(0, 3);
  write(folder, *record);
  const auto refuses = [&](const std::string& text) {
    write(flight_names_path(folder.path(), 0), text);
    try {
      read_flight(folder.path(), 0);
    } catch (const UserError&) {
      return true;
    }
    return false;
  };
  const std::string head = "weft flight 1\n";
  EXPECT_FALSE(refuses(kNames));
  EXPECT_FALSE(refuses(head + "name cal")) << "cut short by the end";
  EXPECT_TRUE(refuses(""));
  EXPECT_TRUE(refuses("weft flight 2\n"));
  EXPECT_TRUE(refuses(head + "something else\n"));
  EXPECT_TRUE(refuses(head + "channel 0,9\n"));
  EXPECT_TRUE(refuses(head + "channel 0,-1\n"));
  EXPECT_TRUE(refuses(head + "channel x\n"));
  EXPECT_TRUE(refuses(head + "channel 2-1\n"));
  EXPECT_TRUE(refuses(head + "channel 0-9000000000\n"));
  EXPECT_TRUE(refuses(head + "name call 0 -1 \"no such channel\"\n"));
  EXPECT_TRUE(refuses(head + "name wait -1 0 \"of itself\"\n"));
  EXPECT_TRUE(refuses(head + "name walk -1 -1 \"unknown\"\n"));
  EXPECT_TRUE(refuses(head + "name call -1 -1 \n"));
  EXPECT_TRUE(
      refuses(head + "name call -1 -1 \"" + std::string(70000, 'x') + "\"\n"));
}

}  // namespace
}  // namespace weft
