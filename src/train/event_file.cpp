// SPDX-License-Identifier: Apache-2.0
// TensorBoard's format: records framed as TFRecords, each an Event message of
// protocol buffers, of which only a few fields are needed.
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/output_file.h"
#include "train/metrics.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <unistd.h>

namespace weft {
namespace {

static_assert(
    std::endian::native == std::endian::little,
    "fields are written as they lie in memory");

// The fields of the messages Event, SessionLog, Summary and Summary.Value.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kEventSessionLog = 7;
constexpr int kSessionLogStatus = 1;
constexpr uint64_t kSessionStart = 1;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimple = 2;

enum class Wire { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>((value & 0x7f) | 0x80);
  }
  return out + static_cast<char>(value);
}

template <typename T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

std::string key(int field, Wire wire) {
  return varint(
      static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

std::string bytes_field(int field, std::string_view bytes) {
  return key(field, Wire::Bytes) + varint(bytes.size()) + std::string(bytes);
}

std::string event(int64_t step) {
  const std::chrono::duration<double> now =
      std::chrono::system_clock::now().time_since_epoch();
  return key(kEventWallTime, Wire::Fixed64) + raw(now.count()) +
         key(kEventStep, Wire::Varint) + varint(static_cast<uint64_t>(step));
}

// CRC-32C (Castagnoli), bit by bit reversed as usual.
std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    }
    table[byte] = crc;
  }
  return table;
}

// As TFRecord wants it: rotated and moved, so that the checksum of data that
// holds checksums is a good one.
uint32_t masked_crc(std::string_view data) {
  static const std::array<uint32_t, 256> table = make_crc_table();
  uint32_t crc = 0xffffffffU;
  for (const char c : data) {
    crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  }
  return std::rotr(~crc, 15) + 0xa282ead8U;
}

std::string host_name() {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

// TensorBoard reads a folder's files in the order of their names.
std::string file_name() {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return cat("events.out.tfevents.", now.count(), ".", host_name());
}

}  // namespace

EventFile::EventFile(
    const std::string& folder, std::optional<int64_t> resume_after) {
  refuse_link(folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string name =
      (std::filesystem::path(folder) / file_name()).string();
  // Several starts within one second; and nothing that stands there is written
  // to, nor what a link there leads to.
  int64_t number = 0;
  int made = -1;
  do {
    path_ = cat(name, ".", number / 10, number % 10);
    ++number;
    made = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (made < 0 && errno == EEXIST);
  if (made >= 0) {
    ::close(made);
  }
  file_.open(path_, std::ios::binary);
  WEFT_CHECK_USER(file_.good(), "cannot write into ", folder);
  append(event(0) + bytes_field(kEventFileVersion, "brain.Event:2"));
  if (resume_after) {
    append(
        event(*resume_after + 1) +
        bytes_field(
            kEventSessionLog,
            key(kSessionLogStatus, Wire::Varint) + varint(kSessionStart)));
  }
}

void EventFile::write(int64_t step, const MetricValues& values) {
  std::string summary;
  for (const auto& [name, value] : values) {
    summary += bytes_field(
        kSummaryValue,
        bytes_field(kValueTag, name) + key(kValueSimple, Wire::Fixed32) +
            raw(static_cast<float>(value)));
  }
  append(event(step) + bytes_field(kEventSummary, summary));
}

void EventFile::append(const std::string& event) {
  const std::string length = raw(static_cast<uint64_t>(event.size()));
  file_ << length << raw(masked_crc(length)) << event << raw(masked_crc(event))
        << std::flush;
  WEFT_CHECK_USER(file_.good(), "cannot write ", path_, ": is the disk full?");
}

}  // namespace weft
