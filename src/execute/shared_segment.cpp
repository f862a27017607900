// SPDX-License-Identifier: Apache-2.0
#include "execute/shared_segment.h"

#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace weft {
namespace {

std::byte* map(int fd, size_t bytes) {
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

SharedSegment SharedSegment::create(size_t bytes) {
  SharedSegment segment;
  segment.fd_ = ::memfd_create("weft", MFD_CLOEXEC);
  // The others open it by its number in this process, which the kernel allows
  // to who may look into this process alone; the mode says so too.
  if (segment.fd_ >= 0 && ::fchmod(segment.fd_, S_IRUSR | S_IWUSR) == 0 &&
      ::ftruncate(segment.fd_, static_cast<off_t>(bytes)) == 0) {
    segment.data_ = map(segment.fd_, bytes);
  }
  segment.bytes_ = bytes;
  WEFT_CHECK_USER(
      segment.data_ != nullptr,
      "cannot get ",
      human_bytes(static_cast<double>(bytes)),
      " of shared memory: ",
      std::strerror(errno));
  return segment;
}

SharedSegment SharedSegment::open(int64_t pid, int fd, size_t bytes) {
  SharedSegment segment;
  const std::string path = cat("/proc/", pid, "/fd/", fd);
  segment.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (segment.fd_ >= 0) {
    segment.data_ = map(segment.fd_, bytes);
  }
  segment.bytes_ = bytes;
  WEFT_CHECK_USER(
      segment.data_ != nullptr,
      "cannot map the memory that process ",
      pid,
      " shares: ",
      std::strerror(errno));
  return segment;
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept {
  *this = std::move(other);
}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
  }
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

// Sequentially consistent: either the ringer sees the sleeper, or the sleeper
// has not yet asked the kernel, which compares the count.
void Doorbell::ring() {
  count_.fetch_add(1);
  if (is_asleep_.load() != 0) {
    ::syscall(SYS_futex, &count_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

void Doorbell::sleep(uint32_t count, std::chrono::milliseconds timeout) {
  is_asleep_.store(1);
  const timespec limit = {
      timeout.count() / 1000, (timeout.count() % 1000) * 1'000'000};
  ::syscall(SYS_futex, &count_, FUTEX_WAIT, count, &limit, nullptr, 0);
  is_asleep_.store(0);
}

}  // namespace weft
