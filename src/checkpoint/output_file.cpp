// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/output_file.h"

#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
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

constexpr int kOutputFlags = O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;

// A new file, or the pipe or device that is there; -1, and why in errno.
int open_output(int folder, const char* name) {
  constexpr int kNew = O_CREAT | O_EXCL;
  const int file = openat(folder, name, kOutputFlags | kNew, 0666);
  struct stat status = {};
  if (file >= 0 || errno != EEXIST ||
      fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return file;
  }
  if (!S_ISREG(status.st_mode)) {
    return openat(folder, name, kOutputFlags);
  }
  // Not cut to nothing and written again: it may have a name elsewhere too.
  if (unlinkat(folder, name, 0) != 0) {
    return -1;
  }
  return openat(folder, name, kOutputFlags | kNew, 0666);
}

const char* reason_text(int reason) {
  return reason == ELOOP ? "it is a link, and links are not followed here"
                         : std::strerror(reason);
}

}  // namespace

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  const bool is_new = mkdir(path_.c_str(), 0777) == 0;
  const int reason = errno;
  fd_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status = {};
  WEFT_CHECK_USER(
      fd_ >= 0 && fstat(fd_, &status) == 0,
      "cannot make the folder ",
      path_,
      ": ",
      fs::is_symlink(path_, error)
          ? reason_text(ELOOP)
          : std::strerror(is_new || reason == EEXIST ? errno : reason));
  const bool is_open_to_all = (status.st_mode & S_IWOTH) != 0;
  if (!is_new && is_open_to_all && status.st_uid != geteuid()) {
    close(fd_);
    throw UserError(
        cat("the folder ",
            path_,
            " is another user's, and everybody may write to it: remove it"));
  }
}

OutputFolder::~OutputFolder() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

std::string OutputFolder::fixed_path() const {
  return cat("/proc/self/fd/", fd_);
}

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), file_(open_output(AT_FDCWD, path_.c_str())) {
  if (file_ < 0) {
    fail(errno);
  }
}

OutputFile::OutputFile(const OutputFolder& folder, const std::string& name)
    : path_((std::filesystem::path(folder.path()) / name).string()),
      file_(open_output(folder.fd(), name.c_str())) {
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
  throw UserError(cat("cannot write ", path_, ": ", reason_text(reason)));
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

void refuse_link(const std::string& path) {
  std::error_code error;
  WEFT_CHECK_USER(
      !std::filesystem::is_symlink(path, error),
      "cannot write ",
      path,
      ": ",
      reason_text(ELOOP));
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
