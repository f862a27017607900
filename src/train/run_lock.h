// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weft {

// One run at a time in a folder: a lock of the system on FOLDER/run.lock, which
// goes away with the processes that hold it, whatever ends them. The file also
// says who they are, for messages.
class RunLock {
 public:
  // Throws UserError with the host, process and start of the run that has it.
  // Where the disk knows no locks, the file alone counts: a process of this
  // host that is gone does not hold it any more, and of another host nobody
  // knows.
  explicit RunLock(const std::string& folder);
  // Gives it back; the file stays, empty.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Programs that this one starts from now on hold it too, as long as they
  // live.
  void share() const;

  // Of a run that ended without giving it back, or may go on where this host's
  // locks are not seen; empty: none.
  const std::string& left_behind() const { return left_behind_; }

 private:
  std::string path_;
  int file_ = -1;
  std::string left_behind_;
};

}  // namespace weft
