// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/output_file.h"

#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace weft {
namespace {

// A write beyond the limit of file size raises SIGXFSZ, which ends the process
// before anyone can say why. Held back in this thread, the write returns EFBIG.
class HoldFileSizeSignal {
 public:
  HoldFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~HoldFileSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 0) {
      const timespec now = {};
      sigtimedwait(&signal_, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  HoldFileSizeSignal(const HoldFileSizeSignal&) = delete;
  HoldFileSizeSignal& operator=(const HoldFileSizeSignal&) = delete;

 private:
  sigset_t signal_ = {};
  sigset_t before_ = {};
};

// Larger requests are cut short by the system anyway.
constexpr size_t kWriteBytes = size_t{1} << 26;

}  // namespace

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)),
      file_(
          open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (file_ < 0) {
    fail(errno);
  }
}

OutputFile::~OutputFile() {
  if (file_ >= 0) {
    close(file_);
  }
}

void OutputFile::fail(int reason) const {
  throw UserError(cat("cannot write ", path_, ": ", std::strerror(reason)));
}

void OutputFile::write(std::span<const std::byte> bytes) {
  WEFT_CHECK(file_ >= 0, path_, " is closed");
  const HoldFileSizeSignal hold;
  while (!bytes.empty()) {
    const ssize_t count =
        ::write(file_, bytes.data(), std::min(bytes.size(), kWriteBytes));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      fail(count < 0 ? errno : EIO);
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    written_bytes_ += count;
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::sync_and_close() {
  WEFT_CHECK(file_ >= 0, path_, " is closed");
  if (fsync(file_) != 0) {
    fail(errno);
  }
  // Some network disks report a failed write only here.
  if (close(std::exchange(file_, -1)) != 0) {
    fail(errno);
  }
}

void sync_folder(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  WEFT_CHECK_USER(
      file >= 0, "cannot open ", folder, ": ", std::strerror(errno));
  const bool synced = fsync(file) == 0;
  const int reason = errno;
  close(file);
  // Some file systems cannot sync a folder and say so.
  WEFT_CHECK_USER(
      synced || reason == EINVAL || reason == ENOTSUP,
      "cannot write ",
      folder,
      ": ",
      std::strerror(reason));
}

int64_t free_bytes(const std::string& path) {
  struct statvfs status = {};
  if (statvfs(path.c_str(), &status) != 0) {
    return -1;
  }
  return static_cast<int64_t>(status.f_bavail) *
         static_cast<int64_t>(status.f_frsize);
}

}  // namespace weft
