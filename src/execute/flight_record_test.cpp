// SPDX-License-Identifier: Apache-2.0
#include "execute/flight_record.h"

#include "program/flight_fault.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

class FlightRecordTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (fs::temp_directory_path() / "record.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_;
};

constexpr const char* kProgram = R"(program @p on <data=2>

block @step ranks 0 to 1 {
  input %w : f32[4] = parameter "w" at [-]
forward:
  %a = aten.relu(%w) : f32[4] at [-] +{data} offset(0)
  start %s = all_reduce(%a) over {data}
  wait %s
  return loss = %s
}
)";

TEST_F(FlightRecordTest, IsThereWhateverEndsTheProcess) {
  const Program program = parse_program(kProgram, "test");
  const pid_t child = ::fork();
  if (child == 0) {
    const auto record = FlightRecord::open(folder_, 1, 2);
    const uint32_t first = record->add(program, 1);
    record->plan_memory(123, 456);
    for (int64_t step = 0; step < 3; ++step) {
      record->mark(FlightPhase::Feeding, step);
      for (uint32_t i = 0; i < 3; ++i) {
        record->mark(first + i, step);
      }
    }
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const Flight flight = read_flight(folder_, 1);
  EXPECT_EQ(flight.end, FlightEnd::None);
  EXPECT_EQ(flight.pid, child);
  EXPECT_EQ(flight.planned_bytes, 123);
  EXPECT_GT(flight.held_bytes, 0);
  ASSERT_EQ(flight.marks.size(), 1 + 3 * 4);
  EXPECT_EQ(
      flight.names[static_cast<size_t>(flight.marks.back().name)].label,
      "wait %s");
  EXPECT_EQ(flight.marks.back().step, 2);
  EXPECT_LE(flight.marks.front().unix_ns, flight.marks.back().unix_ns);
  const FlightFault fault = find_fault({flight});
  EXPECT_EQ(fault.ranks[1].waits_for, std::vector<int64_t>({0}));
  EXPECT_EQ(fault.ranks[1].channel, "0-1");
  EXPECT_EQ(fault.ranks[1].meeting, 3);
  EXPECT_NE(planned_memory(folder_, 1).find("123"), std::string::npos);
}

TEST_F(FlightRecordTest, SaysHowTheRankEnded) {
  { const auto record = FlightRecord::open(folder_, 0, 1); }
  EXPECT_EQ(read_flight(folder_, 0).end, FlightEnd::Well);
  FlightRecord::open(folder_, 0, 1)->fail("something is wrong");
  EXPECT_EQ(read_flight(folder_, 0).end, FlightEnd::Message);
  EXPECT_EQ(read_flight(folder_, 0).message, "something is wrong");
}

TEST_F(FlightRecordTest, OnlyRecordsThatTellSomethingArePutAside) {
  const fs::path mine = fs::path(folder_) / "mine.txt";
  std::ofstream(mine) << "mine";
  FlightRecord::open(folder_, 0, 1)->fail("something is wrong");
  put_flights_aside(folder_);
  const std::string aside = folder_ + ".before";
  EXPECT_EQ(read_flight(aside, 0).message, "something is wrong");
  EXPECT_TRUE(read_flights(folder_).empty());
  { const auto record = FlightRecord::open(folder_, 0, 1); }
  put_flights_aside(folder_);
  EXPECT_EQ(read_flight(aside, 0).message, "something is wrong");
  EXPECT_TRUE(read_flights(folder_).empty());
  EXPECT_TRUE(fs::exists(mine));
  fs::remove_all(aside);
}

TEST_F(FlightRecordTest, ALinkInItsPlaceIsNotWrittenThrough) {
  const fs::path precious = fs::path(folder_) / "precious";
  fs::create_symlink(precious, flight_path(folder_, 0));
  ASSERT_TRUE(FlightRecord::open(folder_, 0, 1));
  EXPECT_FALSE(fs::exists(precious));
}

TEST_F(FlightRecordTest, ARunGoesOnWithoutOne) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(FlightRecord::open("/dev/null/flight", 0, 1));
  EXPECT_NE(
      testing::internal::GetCapturedStderr().find("keeps no flight record"),
      std::string::npos);
  EXPECT_FALSE(FlightRecord::open("", 0, 1));
  EXPECT_EQ(flight_folder("usual"), "usual");
  ::setenv("WEFT_FLIGHT_RECORD", "off", 1);
  EXPECT_EQ(flight_folder("usual"), "");
  ::setenv("WEFT_FLIGHT_RECORD", "other", 1);
  EXPECT_EQ(flight_folder(""), "other");
  ::unsetenv("WEFT_FLIGHT_RECORD");
}

}  // namespace
}  // namespace weft
