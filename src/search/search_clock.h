// SPDX-License-Identifier: Apache-2.0
// How long a search has run, whether it may go on, and telling people of it.
#pragma once

#include "search/search.h"

#include <chrono>
#include <string>

namespace weft {

class SearchClock {
 public:
  // Keeps a reference to the options.
  explicit SearchClock(const SearchOptions& options)
      : options_(options), begin_(Clock::now()) {}

  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  bool is_out_of_time() {
    has_run_out_ = has_run_out_ || (options_.time_limit_seconds &&
                                    seconds() > *options_.time_limit_seconds);
    return has_run_out_;
  }
  // Whether that was the answer to anybody.
  bool has_run_out() const { return has_run_out_; }

  void say(const std::string& what) const {
    if (options_.progress) {
      options_.progress(what);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  const SearchOptions& options_;
  const Clock::time_point begin_;
  bool has_run_out_ = false;
};

}  // namespace weft
