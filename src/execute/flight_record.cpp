// SPDX-License-Identifier: Apache-2.0
#include "execute/flight_record.h"

#include "base/error.h"
#include "base/text.h"
#include "execute/heartbeat.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 11> kPhaseLabels = {
    "beginning",
    "preparing a step",
    "loading parameters",
    "reading a batch",
    "evaluating",
    "beginning to save",
    "writing the model",
    "leaving",
    "meeting the other ranks",
    "agreeing after a step",
    "publishing a checkpoint"};

bool is_meeting(size_t phase) {
  return phase >= static_cast<size_t>(FlightPhase::Meeting);
}

// Of this process, in the host's memory.
int64_t held_bytes_now() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  int64_t resident = 0;
  file >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::string channel_of(
    const Program& program, const Start& start, int64_t rank) {
  switch (start.kind) {
    case TransferKind::Copy:
      return "";
    case TransferKind::Send:
      return cat(rank, ">", start.peer);
    case TransferKind::Receive:
      return cat(start.peer, ">", rank);
    default: {
      const std::vector<int64_t> ranks =
          group_of(team_of(program, rank), start.axes, rank);
      return ranks.size() < 2 ? "" : print_ranks(ranks);
    }
  }
}

// The records that lie in a folder, and nothing else of it.
std::vector<fs::path> record_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (name.starts_with("rank-") &&
        (name.ends_with(".flight") || name.ends_with(".names"))) {
      found.push_back(each->path());
    }
  }
  return found;
}

void copy_text(const std::string& text, char* to, size_t bytes) {
  std::memcpy(to, text.data(), std::min(text.size(), bytes - 1));
}

// -1 with errno where that fails. What was there before is not written into:
// it may be read, or be a link to somewhere else.
int make_file(const std::string& path) {
  ::unlink(path.c_str());
  return ::open(
      path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

}  // namespace

std::string flight_folder(const std::string& usual) {
  const char* wanted = std::getenv("WEFT_FLIGHT_RECORD");
  if (wanted == nullptr) {
    return usual;
  }
  return std::string_view(wanted) == "off" ? "" : wanted;
}

std::unique_ptr<FlightRecord> FlightRecord::open(
    const std::string& folder, int64_t rank, int64_t ranks) {
  if (folder.empty()) {
    return nullptr;
  }
  std::error_code error;
  fs::create_directories(folder, error);
  const int file = make_file(flight_path(folder, rank));
  const int names = make_file(flight_names_path(folder, rank));
  void* memory = MAP_FAILED;
  // All of it is taken now: where a disk is full later, a store into what it
  // has not given yet would end the process.
  if (file >= 0 && names >= 0 &&
      (errno = ::posix_fallocate(file, 0, kFlightBytes)) == 0) {
    memory = ::mmap(
        nullptr, kFlightBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int reason = errno;
  if (file >= 0) {
    ::close(file);
  }
  if (memory == MAP_FAILED) {
    if (names >= 0) {
      ::close(names);
    }
    std::cerr << cat("weft: warning: rank ",
                     rank,
                     " keeps no flight record, since ",
                     flight_path(folder, rank),
                     " cannot be made: ",
                     std::strerror(reason),
                     "\n")
              << std::flush;
    return nullptr;
  }
  return std::unique_ptr<FlightRecord>(
      new FlightRecord(static_cast<std::byte*>(memory), names, rank, ranks));
}

FlightRecord::FlightRecord(
    std::byte* memory, int names_file, int64_t rank, int64_t ranks)
    : memory_(memory),
      header_(new(memory) FlightHeader),
      channels_(reinterpret_cast<std::atomic<int64_t>*>(
          memory + sizeof(FlightHeader))),
      entries_(reinterpret_cast<FlightEntry*>(
          memory + sizeof(FlightHeader) + kFlightChannels * sizeof(uint64_t))),
      names_file_(names_file) {
  header_->version = kFlightVersion;
  header_->entries = kFlightEntries;
  header_->channels = kFlightChannels;
  header_->header_bytes = sizeof(FlightHeader);
  header_->rank = rank;
  header_->ranks = ranks;
  header_->pid = ::getpid();
  header_->begin_steady_ns = now_ns();
  header_->begin_unix_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count();
  ::gethostname(header_->host.data(), header_->host.size() - 1);
  names_ = "weft flight 1\n";
  for (size_t phase = 0; phase < kPhaseLabels.size(); ++phase) {
    const std::string label(kPhaseLabels[phase]);
    const int64_t at = is_meeting(phase) && ranks > 1
                           ? channel(cat(label, " 0-", ranks - 1))
                           : -1;
    add({FlightKind::Phase, at, -1, label});
  }
  write_names();
  mark(FlightPhase::Beginning);
  beat();
  // Only now is it one.
  header_->magic = kFlightMagic;
  thread_ = std::thread([this] {
    std::unique_lock<std::mutex> lock(mutex_);
    while (
        !changed_.wait_for(lock, kBeatEvery, [this] { return is_ending_; })) {
      beat();
    }
  });
}

FlightRecord::~FlightRecord() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  beat();
  int64_t none = static_cast<int64_t>(FlightEnd::None);
  header_->end.compare_exchange_strong(
      none, static_cast<int64_t>(FlightEnd::Well));
  ::munmap(memory_, kFlightBytes);
  ::close(names_file_);
}

void FlightRecord::mark(FlightPhase phase, int64_t step) {
  mark(static_cast<uint32_t>(phase), step);
}

void FlightRecord::beat() {
  header_->held_bytes.store(held_bytes_now(), std::memory_order_relaxed);
  header_->seen_ns.store(now_ns(), std::memory_order_relaxed);
}

int64_t FlightRecord::channel(const std::string& name) {
  const auto known =
      std::find(known_channels_.begin(), known_channels_.end(), name);
  if (known != known_channels_.end()) {
    return known - known_channels_.begin();
  }
  if (known_channels_.size() >= kFlightChannels) {
    return -1;
  }
  known_channels_.push_back(name);
  names_ += cat("channel ", name, "\n");
  return static_cast<int64_t>(known_channels_.size()) - 1;
}

uint32_t FlightRecord::add(const FlightName& name) {
  names_ += print(name);
  const bool is_counted =
      name.kind == FlightKind::Start || name.kind == FlightKind::Phase;
  counts_of_.push_back(is_counted ? name.channel : -1);
  return static_cast<uint32_t>(counts_of_.size()) - 1;
}

uint32_t FlightRecord::add(const Program& program, int64_t rank) {
  const Block& block = block_of(program, rank);
  const auto first = static_cast<uint32_t>(counts_of_.size());
  std::vector<FlightName> starts(block.function.values.size());
  for (const Instruction& instruction : block.instructions) {
    FlightName one{FlightKind::Call, -1, -1, label(block, instruction)};
    if (const auto* start = std::get_if<Start>(&instruction)) {
      const std::string meets = channel_of(program, *start, rank);
      one.kind = FlightKind::Start;
      one.channel = meets.empty() ? -1 : channel(meets);
      one.label = cat(name(start->kind), " ", one.label);
      for (const ValueId result : start->results) {
        starts[index(result)] = one;
        starts[index(result)].waits_for =
            static_cast<int64_t>(counts_of_.size());
      }
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      const FlightName& begun = starts[index(wait->value)];
      one.kind = FlightKind::Wait;
      one.channel = begun.channel;
      one.waits_for = begun.waits_for;
    }
    add(one);
  }
  write_names();
  return first;
}

void FlightRecord::write_names() {
  size_t done = 0;
  while (done < names_.size()) {
    const ssize_t count =
        ::write(names_file_, names_.data() + done, names_.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      // A full disk: the record refers to names that are not there, and its
      // reader says so. The run is not disturbed.
      break;
    }
    done += static_cast<size_t>(count);
  }
  names_.clear();
}

void FlightRecord::plan_memory(int64_t planned_bytes, int64_t budget_bytes) {
  header_->planned_bytes.store(planned_bytes, std::memory_order_relaxed);
  header_->budget_bytes.store(budget_bytes, std::memory_order_relaxed);
}

void FlightRecord::fail(const std::string& message) {
  copy_text(message, header_->message.data(), header_->message.size());
  header_->end.store(static_cast<int64_t>(FlightEnd::Message));
}

void put_flights_aside(const std::string& folder) {
  const std::vector<fs::path> records = record_files(folder);
  if (records.empty()) {
    return;
  }
  bool is_told = false;
  try {
    for (const Flight& each : read_flights(folder)) {
      is_told = is_told || each.end != FlightEnd::Well;
    }
  } catch (const UserError&) {
    // Damaged: it tells nothing.
  }
  std::error_code error;
  const fs::path aside = cat(folder, ".before");
  if (is_told) {
    for (const fs::path& older : record_files(aside)) {
      fs::remove(older, error);
    }
    fs::create_directory(aside, error);
  }
  for (const fs::path& record : records) {
    if (is_told) {
      fs::rename(record, aside / record.filename(), error);
    } else {
      fs::remove(record, error);
    }
  }
}

std::string planned_memory(const std::string& folder, int64_t rank) {
  try {
    const Flight flight = read_flight(folder, rank);
    const auto bytes = [](int64_t count) {
      return human_bytes(static_cast<double>(count));
    };
    if (flight.planned_bytes == 0) {
      return cat(
          "; nothing was planned for it yet, and it held ",
          bytes(flight.held_bytes),
          " on the host when it was last seen");
    }
    return cat(
        "; ",
        bytes(flight.planned_bytes),
        " were planned for its device arena, which on a CPU is memory of the "
        "host, and the whole process held ",
        bytes(flight.held_bytes),
        " when it was last seen",
        flight.held_bytes > 2 * flight.planned_bytes
            ? ": most of it on the host, outside of the plan (PyTorch, "
              "libraries, data, a save under way)"
            : "");
  } catch (const UserError&) {
    return "";
  }
}

}  // namespace weft
