// SPDX-License-Identifier: Apache-2.0
// Two kinds of failure, told apart by type.
//
// UserError: the model, a file, an option or the machine is at fault. The
// message says where, what, and what to do; the CLI prints it alone and exits
// with 2.
// InternalError: an invariant of Weft broke. The message carries file and line;
// the CLI prints it with a request to report it and exits with 70.
//
// An expected "no" is neither: return std::optional or a value with a reason.
#pragma once

#include "base/text.h"

#include <stdexcept>
#include <string>

namespace weft {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws InternalError: "src/graph/graph.cpp:12: message".
[[noreturn]] void fail_internal(
    const char* file, int line, const std::string& message);

}  // namespace weft

// Our own invariant. Always on. Values after the condition are joined into the
// message: WEFT_CHECK(a == b, "sizes differ: ", a, " and ", b).
#define WEFT_CHECK(condition, ...)                                    \
  do {                                                                \
    if (!(condition)) {                                               \
      ::weft::fail_internal(                                          \
          __FILE__,                                                   \
          __LINE__,                                                   \
          ::weft::cat("check failed: " #condition ". " __VA_OPT__(, ) \
                          __VA_ARGS__));                              \
    }                                                                 \
  } while (false)

// The user's side of a contract: throws UserError with the joined message.
#define WEFT_CHECK_USER(condition, ...)                  \
  do {                                                   \
    if (!(condition)) {                                  \
      throw ::weft::UserError(::weft::cat(__VA_ARGS__)); \
    }                                                    \
  } while (false)
