// SPDX-License-Identifier: Apache-2.0
#include "train/run_lock.h"

#include "base/error.h"
#include "base/json.h"
#include "base/readable.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

struct Holder {
  std::string host;
  int64_t process = 0;
  std::string since;
};

std::string this_host() {
  std::string name(256, '\0');
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return "unknown";
  }
  return name.c_str();
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  std::string text(32, '\0');
  text.resize(
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts));
  return text;
}

std::optional<Holder> read_holder(int file) {
  std::string text(4096, '\0');
  const ssize_t count = pread(file, text.data(), text.size(), 0);
  if (count <= 0) {
    return std::nullopt;
  }
  text.resize(static_cast<size_t>(count));
  // Half written: by a run that is beginning, or that ended then.
  const Holder unknown = {"unknown", 0, "unknown"};
  try {
    const Json json = parse_json<Json>(text);
    return Holder{
        json.at("host"), whole_number(json.at("process")), json.at("since")};
  } catch (const Json::exception&) {
    return unknown;
  } catch (const UserError&) {
    return unknown;
  }
}

std::string describe(const Holder& holder) {
  return cat(
      "process ",
      holder.process,
      " on ",
      readable(holder.host),
      ", since ",
      readable(holder.since));
}

bool is_running(int64_t process) {
  return process > 0 &&
         (kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM);
}

[[noreturn]] void refuse(
    const std::string& folder, const std::string& who, const char* more) {
  throw UserError(
      cat("another run is at work in ",
          folder,
          ": ",
          who,
          ". End it first, or choose another --output",
          more));
}

void write_holder(int file) {
  const Json json = {
      {"host", this_host()}, {"process", getpid()}, {"since", now_text()}};
  const std::string text = json.dump() + "\n";
  // For people: a lock that could not be described is held all the same.
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, text.data(), text.size(), 0) < 0) {
    return;
  }
}

}  // namespace

RunLock::RunLock(const std::string& folder) : path_(cat(folder, "/run.lock")) {
  // What stands there is written over: a link, or a file with another name too,
  // would let whoever made it choose which file that is.
  file_ =
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  WEFT_CHECK_USER(
      file_ >= 0,
      "cannot write ",
      path_,
      ": ",
      errno == ELOOP ? "it is a link, and links are not followed here"
                     : std::strerror(errno),
      "; choose another --output");
  struct stat status = {};
  if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_nlink > 1) {
    close(file_);
    throw UserError(
        cat("cannot write ",
            path_,
            ": it is no file of its own; remove it, or choose another "
            "--output"));
  }
  const bool is_taken = flock(file_, LOCK_EX | LOCK_NB) == 0;
  const int reason = errno;
  const std::optional<Holder> other = read_holder(file_);
  const std::string who = other ? describe(*other) : "just begun";
  try {
    if (!is_taken && reason == EWOULDBLOCK) {
      refuse(folder, who, "");
    }
    const bool is_here = other && other->host == this_host();
    if (!is_taken && other && (!is_here || is_running(other->process))) {
      refuse(
          folder,
          who,
          is_here ? ""
                  : ". This disk has no locks: if that run is over, remove "
                    "run.lock there");
    }
  } catch (...) {
    close(file_);
    throw;
  }
  left_behind_ = other ? who : "";
  write_holder(file_);
}

RunLock::~RunLock() {
  // Before anyone else can have it; what cannot be emptied is only a name.
  if (ftruncate(file_, 0) != 0) {
    errno = 0;
  }
  close(file_);
}

void RunLock::share() const { fcntl(file_, F_SETFD, 0); }

}  // namespace weft
