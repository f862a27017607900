// SPDX-License-Identifier: Apache-2.0
// The flight record of this rank (program/flight.h has its format): a few
// relaxed stores an instruction, into a file that is mapped, so that it is
// there whatever ends the process.
#pragma once

#include "program/flight.h"
#include "program/program.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weft {

// What a rank does outside of its programs. Those in the second half are
// meetings of all ranks.
enum class FlightPhase : uint8_t {
  Beginning,
  Preparing,
  Loading,
  Feeding,
  Evaluating,
  Saving,
  Exporting,
  Leaving,
  Meeting,
  Agreeing,
  Publishing,
};

// Where ranks keep their records: the folder that WEFT_FLIGHT_RECORD names,
// else `usual`; empty for nowhere, as for WEFT_FLIGHT_RECORD=off.
std::string flight_folder(const std::string& usual);

// One thread marks.
class FlightRecord {
 public:
  // Makes `folder` and the files there. Nullptr for an empty one; also, with a
  // line on standard error, where they cannot be made: a run goes on without.
  static std::unique_ptr<FlightRecord> open(
      const std::string& folder, int64_t rank, int64_t ranks);
  // Says that the rank ended well, unless fail was called.
  ~FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  void mark(FlightPhase phase, int64_t step = 0);
  // Instruction `number` of a program that was added: `first` + the number.
  void mark(uint32_t name, int64_t step) {
    FlightEntry& entry = entries_[next_ % kFlightEntries];
    entry.steady_ns.store(now_ns(), std::memory_order_relaxed);
    entry.what.store(
        static_cast<uint64_t>(step) << 32 | name, std::memory_order_relaxed);
    const int64_t channel = counts_of_[name];
    if (channel >= 0) {
      std::atomic<int64_t>& count = channels_[channel];
      count.store(
          count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    header_->written.store(++next_, std::memory_order_release);
  }

  // The names of the block's instructions from now on: gives the first.
  uint32_t add(const Program& program, int64_t rank);

  // What the program plans for the rank's arena.
  void plan_memory(int64_t planned_bytes, int64_t budget_bytes);
  // The rank ends with this message.
  void fail(const std::string& message);

 private:
  FlightRecord(std::byte* memory, int names_file, int64_t rank, int64_t ranks);

  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // -1: more than a record has room for.
  int64_t channel(const std::string& name);
  uint32_t add(const FlightName& name);
  void write_names();
  void beat();

  std::byte* const memory_;
  FlightHeader* const header_;
  std::atomic<int64_t>* const channels_;
  FlightEntry* const entries_;
  const int names_file_;
  // Not yet written.
  std::string names_;
  std::vector<std::string> known_channels_;
  // By name: the channel whose meetings it counts, or -1.
  std::vector<int64_t> counts_of_;
  uint64_t next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::thread thread_;
};

// Before a run writes other records into `folder`: those that tell of ranks
// that did not end well are moved to FOLDER.before, in the place of older ones,
// and others removed. Nothing but records is touched.
void put_flights_aside(const std::string& folder);

// What was planned for a rank that is gone, and what it held, for messages:
// empty when its record does not tell.
std::string planned_memory(const std::string& folder, int64_t rank);

}  // namespace weft
